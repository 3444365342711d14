"""The answers of an exported classifier."""

import numpy as np
import tensorflow as tf

from convnlp.models import labels as label_names
from convnlp.tasks.classification.explain import explain
from convnlp.tasks.classification.reference import EXPLANATIONS, ClassifierReference
from convnlp.tasks.encoder_answers import EncoderAnswers
from convnlp.tasks.rows import TEXT, signature

# How much of each text a request for explanations has. They take a forward pass per piece, and the warm-up
# sends these requests whenever a server starts.
_EXPLAINED_CHARACTERS = 10


class ClassifierAnswers(EncoderAnswers):
    """Labels and scores of texts, pairs, tf.Examples and token ids, and explanations; see `Answers`."""

    edge_output = "logits"
    takes_threshold = True

    @property
    def labels(self):
        return label_names.names_of(self.model)

    def answer(self, rows):
        return self._of_logits(self.model(rows, training=False))

    def signatures(self, max_length=None):
        shared, rows = super().signatures(max_length)
        return {
            "serving_default": shared["serving_default"],
            "pair": shared["pair"],
            "classify": signature(self._classify, inputs=TEXT),
            "ids": shared["ids"],
            **({"explain": self.explaining(1)} if len(self.text_inputs) == 1 else {}),
            "explain_pair": self.explaining(2),
        }, rows

    def explaining(self, num_texts):
        if num_texts == 2:
            both = {"text": TEXT, "text_pair": TEXT}
            return signature(lambda text, text_pair: self._explained((text, text_pair)), **both)
        return signature(self._explained, text=TEXT)

    def request(self, name, texts, rows):
        if name in EXPLANATIONS:
            texts = [text[:_EXPLAINED_CHARACTERS] for text in texts]
        examples = [_example(pair[: len(self.text_inputs)]) for pair in zip(texts, texts[::-1], strict=True)]
        return {**super().request(name, texts, rows), "inputs": np.array(examples, object)}

    def row(self, answer, threshold=None):
        """Returns "label", "probability", "scores"; the label is None if no class reaches the threshold."""
        scores = dict(zip(self.labels, answer["scores"], strict=True))
        probability = max(answer["scores"])
        label = answer["label"] if probability >= (threshold or 0) else None
        return {"label": label, "probability": probability, "scores": scores}

    def compare(self, outputs, expected):
        same = np.mean(outputs.argmax(axis=1) == expected.argmax(axis=1))
        return {**super().compare(outputs, expected), "same_label": float(same)}

    def reference(self):
        return ClassifierReference(self)

    def _of_logits(self, logits):
        return {
            "label": tf.gather(tf.constant(self.labels), tf.argmax(logits, axis=-1)),
            "scores": tf.nn.softmax(logits),
        }

    def _classify(self, inputs):
        feature = tf.io.FixedLenFeature([], tf.string)
        found = tf.io.parse_example(inputs, dict.fromkeys(self.text_inputs, feature))
        texts = tuple(found[name] for name in self.text_inputs)
        texts = texts if len(texts) == 2 else texts[0]
        scores = self.rows.answered(self.answer, self.rows.of_texts(texts))["scores"]
        return {"classes": tf.tile([self.labels], [tf.shape(scores)[0], 1]), "scores": scores}

    def _explained(self, text):
        rows = self.rows.of_texts(text)
        logits = self.model(rows, training=False)
        pieces = explain(self.model, rows, logits)
        pieces = {name: self.rows.full_length(value) for name, value in pieces.items()}
        return {**self._of_logits(logits), **pieces}


def _example(texts):
    """Returns a serialized tf.Example of one text, or of two."""
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
        for name, text in zip(("text", "text_pair"), texts, strict=False)
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
