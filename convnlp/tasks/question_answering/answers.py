"""The answers of an exported question answerer."""

import numpy as np
import tensorflow as tf

from convnlp.models.best_spans import LOWEST, best_spans
from convnlp.tasks.encoder_answers import EncoderAnswers
from convnlp.tasks.question_answering.reference import SpanReference
from convnlp.tasks.reference import largest_error
from convnlp.tasks.rows import TEXT, signature


class SpanAnswers(EncoderAnswers):
    """Gives {"answer" string, "score" float, "start" and "end" int}, [B] each, for questions and contexts.

    See `QuestionAnswerer.answer`. For token ids, one row `question </s> context </s>` per example, it gives
    {"start_token" and "end_token" int, "score" float}: the places of the span in the row, both 0 with score
    0 if there is no context. The TFLite file gives the logits of one row, [B,2L]: for each place as the
    beginning, then for each as the end, and -10,000 where an answer cannot be.
    """

    edge_output = "span_logits"
    text_inputs = ("question", "context")

    def answer(self, rows):
        first, last, score = self.model.spans(rows)
        return {"start_token": first, "end_token": last, "score": score}

    def signatures(self, max_length=None):
        ask = self.model.answer
        return {
            "serving_default": signature(ask, question=TEXT, context=TEXT),
            "pair": signature(lambda text, text_pair: ask(text, text_pair), text=TEXT, text_pair=TEXT),
            "ids": super().signatures()[0]["ids"],
        }, self.rows

    def request(self, name, texts, rows):
        question, context = texts, texts[::-1]
        ids = rows.of_texts((tf.constant(question), tf.constant(context)))["token_ids"]
        question, context = (tf.constant(each).numpy() for each in (question, context))
        asked = {"question": question, "context": context, "text": question, "text_pair": context}
        return {**asked, "token_ids": ids.numpy()}

    def row(self, answer, threshold=None):
        return {name: answer[name] for name in ("answer", "score", "start", "end")}

    def edge(self, rows):
        logits = self.model(rows, training=False)  # [B,2,T]
        rest = self.sequence_length - tf.shape(logits)[2]
        logits = tf.pad(logits, [[0, 0], [0, 0], [0, rest]], constant_values=LOWEST)
        return tf.reshape(logits, [-1, 2 * self.sequence_length])

    def edge_values(self, outputs):
        return outputs[outputs > LOWEST]  # or any error would be small beside the places of no answer

    def compare(self, outputs, expected):
        found, right = (self._spans(each, expected) for each in (outputs, expected))
        same = float(np.mean((found == right).all(axis=1)))
        return {"largest_error": largest_error(outputs, expected), "same_span": same}

    def reference(self):
        return SpanReference(self)

    def _spans(self, outputs, expected):
        """Returns the best spans int [B,2] of outputs of `edge`; `expected` says where an answer can be."""
        allowed = np.reshape(expected, [len(expected), 2, -1])[:, 0] > LOWEST / 2  # [B,L]
        is_context = allowed & (np.arange(allowed.shape[1]) > allowed.argmax(axis=1)[:, np.newaxis])
        logits = tf.constant(np.reshape(outputs, [len(outputs), 2, -1]), tf.float32)
        longest = self.model.preprocessor.max_answer_length
        return np.stack(best_spans(logits, tf.constant(is_context), longest)[:2], axis=1)
