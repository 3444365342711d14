"""The answers of an exported regressor."""

from convnlp.tasks.encoder_answers import EncoderAnswers


class RegressionAnswers(EncoderAnswers):
    """Gives {"score" float [B]}, and [B,1] as a TFLite file; see `Answers`."""

    edge_output = "score"

    def answer(self, rows):
        return {"score": self.model(rows, training=False)[:, 0]}
