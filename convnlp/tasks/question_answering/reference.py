"""The expected answers of an exported question answerer.

Two spans may be equally good, for instance if a text repeats itself, and then rounding decides. So an answer
is judged by how far its score is from the best one, and from the score that it states itself.
"""

import numpy as np
import tensorflow as tf

from convnlp.tasks.encoder_answers import EncoderReference

_ROWS_A_STEP = 32


class SpanReference(EncoderReference):
    """Scores all spans of all windows, by the model in eager mode on rows of full length."""

    def error(self, name, inputs, outputs):
        """Returns the largest error of a score; infinite if a span is invalid or not where it says."""
        if name == "embed":
            return super().error(name, inputs, outputs)
        if name == "ids":
            return self._error_of_ids(self.rows(inputs), outputs)
        question, context = ("text", "text_pair") if name == "pair" else ("question", "context")
        return self._error_of_texts(inputs[question], inputs[context], outputs)

    def rows(self, inputs):
        if "question" in inputs:
            return self._answers.preprocess((inputs["question"], inputs["context"]))
        return super().rows(inputs)

    def _error_of_ids(self, rows, outputs):
        errors = [0.0]
        for scores, start, end, score in zip(
            self._scores(rows), outputs["start_token"], outputs["end_token"], outputs["score"], strict=True
        ):
            errors.append(_error(scores.max(), scores[start, end], score))
        return float(np.max(errors))

    def _error_of_texts(self, questions, contexts, outputs):
        found, begins, ends = self._model.preprocessor.windows(tf.constant(questions), tf.constant(contexts))
        rows = {"token_ids": found.token_ids, "padding_mask": found.padding_mask}
        scores_of, answers = {}, list(zip(outputs["start"], outputs["end"], outputs["score"], strict=True))
        offset = (found.first - found.place).numpy()
        for window, (number, scores) in enumerate(
            zip(found.example.numpy(), self._scores(rows), strict=True)
        ):
            places = np.arange(found.place[window], found.place[window] + found.size[window])
            scores = scores[np.ix_(places, places)]  # those of the context
            start, end = (len(contexts[number].decode()[:at].encode()) for at in answers[number][:2])
            own_begins, own_ends = (
                values[number].numpy()[places + offset[window]] for values in (begins, ends)
            )
            chosen = scores[np.ix_(own_begins == start, own_ends == end)]
            best_and_chosen = scores_of.setdefault(number, [0.0, -np.inf])
            best_and_chosen[:] = np.maximum(
                best_and_chosen, [scores.max(initial=0.0), chosen.max(initial=-np.inf)]
            )
        errors = [0.0]
        for number, (start, end, score) in enumerate(answers):
            best, chosen = scores_of[number]
            text = contexts[number].decode()[start:end]
            if text.encode() != outputs["answer"][number]:
                return np.inf
            if not begins[number].shape[0]:  # no token, no answer
                chosen = 0.0 if (start, end) == (0, 0) else -np.inf
            errors.append(_error(best, chosen, score))
        return float(np.max(errors))

    def _scores(self, rows):
        """Yields the scores [L,L] of all spans of each row, by their first and last place; 0 for no span."""
        token_ids, mask = (tf.convert_to_tensor(rows[name]) for name in ("token_ids", "padding_mask"))
        longest = self._model.preprocessor.max_answer_length
        for first in range(0, len(token_ids), _ROWS_A_STEP):
            part = slice(first, first + _ROWS_A_STEP)
            rows = {"token_ids": token_ids[part], "padding_mask": mask[part]}
            logits = self._model(rows, training=False).numpy().astype("float64")
            for own, is_context in zip(logits, self._model.is_context(rows).numpy(), strict=True):
                shares = np.exp(own - own.max(axis=1, keepdims=True))
                shares /= shares.sum(axis=1, keepdims=True)
                begin, end = shares * is_context
                places = np.arange(len(begin))
                distance = places - places[:, np.newaxis]
                yield np.where((distance >= 0) & (distance < longest), begin[:, np.newaxis] * end, 0.0)


def _error(best, chosen, score):
    """Returns how far the score of a chosen span is from the best one, and from what was answered.

    If the answer's score is not a number, neither is the result: Python's own maximum would lose that.
    """
    return np.maximum(best - chosen, abs(score - chosen))
