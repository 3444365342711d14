"""The expected answers of an exported classifier: scores and labels, embeddings, explanations."""

import numpy as np
import tensorflow as tf

from convnlp.tasks.encoder_answers import EncoderReference
from convnlp.tasks.reference import relative_difference

EXPLANATIONS = ("explain", "explain_pair")  # names of signatures


class ClassifierReference(EncoderReference):
    """The expected answers of a classifier."""

    def __init__(self, answers):
        super().__init__(answers)
        self._names = np.array([label.encode() for label in answers.labels], object)
        self._logits = {}  # rows -> logits, since several signatures are asked about the same texts

    def error(self, name, inputs, outputs):
        """Returns the largest error of an answer; infinite if a label is not that of the best score."""
        if name == "embed":
            return super().error(name, inputs, outputs)
        labels_are_right = {
            "label": lambda labels: np.array_equal(labels, self._names[outputs["scores"].argmax(axis=1)]),
            "classes": lambda classes: (classes == self._names).all(),
        }
        if not all(right(outputs[key]) for key, right in labels_are_right.items() if key in outputs):
            return np.inf
        error = relative_difference(outputs["scores"], tf.nn.softmax(self.edge(inputs)))
        return np.maximum(error, self._explanation_error(inputs, outputs)) if name in EXPLANATIONS else error

    def _explanation_error(self, inputs, outputs):
        """Does the same for an explanation, with a row of the batch for each piece that is left out."""
        tokenizer = self._model.preprocessor.tokenizer
        detokenize, end = tokenizer.detokenize, tokenizer.end_token_id
        rows = self.rows(inputs)
        worst = 0.0
        for i, (ids, mask) in enumerate(zip(*(row.numpy() for row in rows.values()), strict=True)):
            is_piece = mask & (ids != end)
            tokens = outputs["tokens"][i]
            text = b"".join(tokens).decode()
            if not np.array_equal(tokens != b"", is_piece) or text.strip() != detokenize(ids).strip():
                return np.inf
            without = [np.append(np.delete(ids, t), 0) for t in np.flatnonzero(is_piece)]
            logits = self.edge({"token_ids": np.stack([ids, *without])})
            log_scores = tf.nn.log_softmax(logits).numpy()[:, outputs["scores"][i].argmax()]
            expected = np.zeros(len(tokens))
            expected[is_piece] = log_scores[0] - log_scores[1:]
            worst = np.maximum(worst, relative_difference(outputs["importances"][i], expected))
        return worst

    def rows(self, inputs):
        """Also takes the tf.Examples of "classify"."""
        if "inputs" not in inputs:
            return super().rows(inputs)
        examples = [tf.train.Example.FromString(value) for value in inputs["inputs"]]
        features = [example.features.feature for example in examples]
        return super().rows(
            {
                name: [each[name].bytes_list.value[0] for each in features]
                for name in self._answers.text_inputs
            }
        )

    def edge(self, inputs):
        """Returns the logits [B,C]."""
        rows = {name: np.asarray(values) for name, values in self.rows(inputs).items()}
        key = tuple((values.shape, values.tobytes()) for values in rows.values())
        if key not in self._logits:
            self._logits[key] = np.asarray(self._model(rows, training=False))
        return self._logits[key]
