"""What an exported classifier answers."""

import tensorflow as tf

from convnlp.tasks.answers import Answers
from convnlp.tasks.classification.explain import explain
from convnlp.tasks.classification.reference import ClassifierReference
from convnlp.tasks.rows import TEXT, TOKEN_IDS, signature


class ClassifierAnswers(Answers):
    """Labels and scores of texts, pairs, tf.Examples and token ids, and explanations; see `Answers`."""

    edge_output = "logits"
    takes_pairs = True

    @property
    def labels(self):
        return self.model.labels or [str(index) for index in range(self.model.num_classes)]

    @property
    def sequence_length(self):
        return self.model.preprocessor.sequence_length

    def preprocess(self, text):
        return self.model.preprocessor(text, y=None)  # without `y`, keras_nlp takes a tuple for (x, y)

    def signatures(self, max_length=None):
        if max_length is not None:
            raise ValueError(
                f"`max_length` is for a Seq2SeqLM: a TextClassifier generates nothing. Received: {max_length}"
            )
        rows = self.rows
        return {
            "serving_default": signature(lambda text: self._answer(rows.of_texts(text)), text=TEXT),
            "pair": signature(
                lambda text, text_pair: self._answer(rows.of_texts((text, text_pair))),
                text=TEXT,
                text_pair=TEXT,
            ),
            "classify": signature(self._classify, inputs=TEXT),
            "ids": signature(lambda token_ids: self._answer(rows.of_ids(token_ids)), token_ids=TOKEN_IDS),
            "explain": signature(self._explained, text=TEXT),
        }, rows

    def edge(self, rows):
        return self.model(rows, training=False)

    def reference(self):
        return ClassifierReference(self.model, self.labels)

    def _answer(self, rows):
        return self._of_logits(self.model(rows, training=False))

    def _of_logits(self, logits):
        return {
            "label": tf.gather(tf.constant(self.labels), tf.argmax(logits, axis=-1)),
            "scores": tf.nn.softmax(logits),
        }

    def _classify(self, inputs):
        text = tf.io.parse_example(inputs, {"text": tf.io.FixedLenFeature([], tf.string)})["text"]
        scores = self._answer(self.rows.of_texts(text))["scores"]
        return {"classes": tf.tile([self.labels], [tf.shape(scores)[0], 1]), "scores": scores}

    def _explained(self, text):
        rows = self.rows.of_texts(text)
        logits = self.model(rows, training=False)
        pieces = explain(self.model, rows, logits)
        pieces = {name: self.rows.full_length(value) for name, value in pieces.items()}
        return {**self._of_logits(logits), **pieces}
