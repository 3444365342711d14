"""What an exported model should answer, by the preset itself.

The preset answers in eager mode, with the kernels of training and rows of full length. What is compared:
scores and embeddings by their largest difference (embeddings relative to their largest value), labels with
the scores beside them, a generated token by how far its logit is below the best one given the tokens before.
"""

import numpy as np
import tensorflow as tf

from convnlp.models import Seq2SeqLM
from convnlp.models.tokenizer import SPACE
from export.saved_models.prefix_lm import PrefixLM
from export.saved_models.signatures import label_names

# Float32 sums in another order differ by some 1e-7 an operation; a tenfold of what 12 + 12 layers add up to.
# A wrong mask, length or variable is off by 1e-2 and more.
BOUND = 1e-4


def reference(model):
    """What the answers of an exported model should be, by the preset itself.

    Args:
        model: the `TextClassifier`, `Seq2SeqLM` or `PrefixLM`.
    """
    if isinstance(model, PrefixLM):
        return _PrefixLM(model)
    return _LanguageModel(model) if isinstance(model, Seq2SeqLM) else _Classifier(model)


def relative_difference(actual, expected):
    """The largest difference, relative to the largest value where that is above 1."""
    expected = np.asarray(expected)
    return float(np.max(np.abs(actual - expected)) / max(1.0, np.max(np.abs(expected))))


class _Classifier:
    """What a classifier's answers should be."""

    def __init__(self, classifier):
        self._model = classifier
        self._names = np.array([label.encode() for label in label_names(classifier)], object)

    def error(self, name, inputs, outputs):
        """The largest error of an answer; infinite where a label is not that of the best score."""
        if name == "embed":
            return relative_difference(outputs["embedding"], self._model.embed(self._rows(inputs)))
        labels_are_right = {
            "label": lambda labels: np.array_equal(labels, self._names[outputs["scores"].argmax(axis=1)]),
            "classes": lambda classes: (classes == self._names).all(),
        }
        if not all(right(outputs[key]) for key, right in labels_are_right.items() if key in outputs):
            return np.inf
        error = relative_difference(outputs["scores"], tf.nn.softmax(self.edge(inputs)))
        return np.maximum(error, self._explanation_error(inputs, outputs)) if name == "explain" else error

    def _explanation_error(self, inputs, outputs):
        """The same of an explanation, with a row of the batch for each piece that is left out."""
        detokenize = self._model.preprocessor.tokenizer.detokenize
        rows = self._rows(inputs)
        worst = 0.0
        for i, (ids, mask) in enumerate(zip(*(row.numpy() for row in rows.values()), strict=True)):
            count = mask.sum() - 1  # without the end token
            tokens = outputs["tokens"][i]
            text = b"".join(tokens).decode()
            if not all(tokens[:count]) or any(tokens[count:]) or text.strip() != detokenize(ids).strip():
                return np.inf
            all_and_without = np.stack([ids] + [np.append(np.delete(ids, t), 0) for t in range(count)])
            logits = self.edge({"token_ids": all_and_without})
            log_scores = tf.nn.log_softmax(logits).numpy()[:, outputs["scores"][i].argmax()]
            expected = np.zeros(len(tokens))
            expected[:count] = log_scores[0] - log_scores[1:]
            worst = np.maximum(worst, relative_difference(outputs["importances"][i], expected))
        return worst

    def edge(self, inputs):
        """The logits [B,C]."""
        return self._model(self._rows(inputs), training=False)

    def _rows(self, inputs):
        if "token_ids" in inputs:
            token_ids = full_rows(inputs["token_ids"], self._model.preprocessor.sequence_length)
            return {"token_ids": token_ids, "padding_mask": token_ids != 0}
        if "inputs" in inputs:
            examples = [tf.train.Example.FromString(value) for value in inputs["inputs"]]
            text = [example.features.feature["text"].bytes_list.value[0] for example in examples]
        else:
            text = (inputs["text"], inputs["text_pair"]) if "text_pair" in inputs else inputs["text"]
        return self._model.preprocessor(text, y=None)  # without `y`, keras_nlp takes a tuple for (x, y)


class _LanguageModel:
    """What a language model's answers should be."""

    def __init__(self, lm):
        self._lm = lm
        self._text_of = {}  # token ids of an input -> the text of the ids generated for it

    def error(self, name, inputs, outputs):
        """The largest error of an answer; infinite where a text is not that of the generated ids.

        The answers of "ids" have to come before those of "generate", for the same rows.
        """
        if name == "embed":
            return relative_difference(outputs["embedding"], self.edge(inputs))
        token_ids, mask = self._rows(inputs)
        keys = [row[tokens].tobytes() for row, tokens in zip(token_ids, mask, strict=True)]
        if name == "ids":
            ids = outputs["generated_ids"]
            texts = self._texts(ids)
            self._text_of.update(zip(keys, texts, strict=True))
            return self._shortfall(token_ids, mask, ids)
        expected = self._answers(inputs["text"], [self._text_of.get(key, "") for key in keys])
        return 0.0 if outputs["generated_text"].tolist() == expected else np.inf

    def edge(self, inputs):
        """The embedding [B,D]: the mean of the encoder's output over the tokens."""
        token_ids, mask = _LanguageModel._rows(self, inputs)  # a whole text, of a `PrefixLM` too
        backbone = self._lm.backbone
        if not backbone.num_layers:
            backbone = backbone.encoder_only()
        encoded = backbone.encode(token_ids, padding_mask=mask).numpy()
        kept = np.asarray(backbone.encoder_output_mask(mask))
        return np.stack([row[tokens].mean(axis=0) for row, tokens in zip(encoded, kept, strict=True)])

    def _rows(self, inputs):
        """Token ids and mask, [B,L] each."""
        preprocessor = self._lm.preprocessor
        if "token_ids" in inputs:
            token_ids = full_rows(inputs["token_ids"], preprocessor.encoder_sequence_length)
            return token_ids, token_ids != 0
        rows = preprocessor.generate_preprocess(inputs["text"])
        return rows["encoder_token_ids"].numpy(), rows["encoder_padding_mask"].numpy()

    def _texts(self, generated):
        """The text of each row of generated ids."""
        return self._lm.preprocessor.tokenizer.detokenize(tf.constant(generated))

    def _answers(self, inputs, generated):
        """What "generate" should answer: the generated texts, as bytes."""
        return [text.encode() for text in generated]

    def _shortfall(self, token_ids, mask, generated):
        """How far the logits of generated tokens lie below the best ones, given the tokens before them."""
        backbone = self._lm.backbone
        encoded = backbone.encode(token_ids, padding_mask=mask)
        shifted = np.pad(generated[:, :-1], [[0, 0], [1, 0]])  # the start token is 0
        hidden = backbone.decode(shifted, encoded, encoder_padding_mask=mask)
        return self._below_best(backbone.logits(hidden).numpy(), generated)

    def _below_best(self, logits, generated):
        """The same from the logits [B,N,V] and the ids [B,N], of which those behind an end token are pads."""
        chosen = np.take_along_axis(logits, generated[..., None], axis=-1)[..., 0]
        end = generated == self._lm.preprocessor.tokenizer.end_token_id
        before_end = np.cumsum(end, axis=1) - end == 0
        if generated[~before_end].any():
            return np.inf
        return float(np.max((logits.max(axis=-1) - chosen)[before_end]))


class _PrefixLM(_LanguageModel):
    """What the answers of an encoder that continues a text should be: one prompt at a time, without pads."""

    def error(self, name, inputs, outputs):
        if name == "ids":  # which come first
            self._longest = self._lm.sequence_length - outputs["generated_ids"].shape[1]
        return super().error(name, inputs, outputs)

    def _rows(self, inputs):
        """Two lists of B: the last tokens of each prompt, and a mask of ones."""
        tokenizer = self._lm.preprocessor.tokenizer
        if "token_ids" in inputs:
            rows = [row[row != 0] for row in inputs["token_ids"]]
        else:
            rows = [row.numpy() for row in tokenizer.ragged(inputs["text"])]
        end = np.array([tokenizer.end_token_id], np.int32)
        rows = [row[-self._longest :] if row.size else end for row in rows]
        return rows, [np.ones_like(row, bool) for row in rows]

    def _texts(self, generated):
        """What each row adds to its prompt."""
        pieces = self._lm.preprocessor.tokenizer.pieces(tf.constant(generated)).numpy()
        return [b"".join(row).decode().replace(SPACE, " ") for row in pieces]

    def _answers(self, inputs, generated):
        prompts = [text.decode().rstrip(" \t\n\f\r") for text in inputs]
        pairs = zip(prompts, generated, strict=True)
        return [(prompt + text if prompt else text.removeprefix(" ")).encode() for prompt, text in pairs]

    def _shortfall(self, prompts, masks, generated):
        backbone, worst = self._lm.backbone, 0.0
        for prompt, mask, ids in zip(prompts, masks, generated, strict=True):
            row = np.concatenate([prompt, ids])[None, :-1]
            prefix_mask = np.concatenate([mask, np.zeros_like(ids, bool)])[None, :-1]
            hidden = backbone.encode(row, prefix_mask=prefix_mask)[:, len(prompt) - 1 :]
            worst = np.maximum(worst, self._below_best(backbone.logits(hidden).numpy(), ids[None]))
        return worst


def full_rows(token_ids, length):
    """Token ids [B,T] cut at `length` or filled up to it with pads: [B,length]."""
    kept = token_ids[:, :length]
    return np.pad(kept, [[0, 0], [0, length - kept.shape[1]]])
