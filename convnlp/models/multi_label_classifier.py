"""A classifier of texts that may have any number of labels at once."""

import keras

from convnlp.models import labels as label_names
from convnlp.models.pooled_head import PooledHead


@keras.saving.register_keras_serializable(package="convnlp")
class MultiLabelClassifier(PooledHead):
    """A logit for each label, float32 [B,C]; the probability that a text has it is sigmoid(logit).

    Args:
        backbone: a `Seq2SeqBackbone`. One with a decoder is replaced by its `encoder_only()`, a copy.
        num_classes: int >= 1. C.
        preprocessor: a `TextClassifierPreprocessor`, or None to feed token ids.
        pooling: str, as of a `TextClassifier`. Defaults to "mean_max".
        dropout: float in [0, 1). Of the pooled vector. Default 0.3.
        labels: list of C str, saved with the model; None when the labels have no names.
        compile: bool. Default False. `compile()` without arguments takes binary cross-entropy, and `fit` then
            a `y` of zeros and ones [B,C].
        **kwargs: `name` and `trainable` of the Keras model.

    Raises:
        ValueError: on an unknown argument, or one out of its range.
    """

    head_size_argument = "num_classes"

    def __init__(
        self,
        backbone,
        num_classes,
        preprocessor=None,
        pooling="mean_max",
        dropout=0.3,
        labels=None,
        compile=False,
        **kwargs,
    ):
        if not isinstance(num_classes, int) or num_classes < 1:
            raise ValueError(f"`num_classes` must be a whole number >= 1. Received: {num_classes!r}")
        labels = label_names.check_names(labels, num_classes)
        super().__init__(backbone, num_classes, preprocessor, pooling, dropout, compile, **kwargs)
        self.num_classes, self.labels = num_classes, labels

    def compile(self, optimizer="auto", loss="auto", **kwargs):
        """As of a `TextClassifier`; the loss "auto" is binary cross-entropy."""
        if isinstance(loss, str) and loss == "auto":
            loss = keras.losses.BinaryCrossentropy(from_logits=True)
        super().compile(optimizer=optimizer, loss=loss, **kwargs)

    def get_config(self):
        return {**super().get_config(), "num_classes": self.num_classes, "labels": self.labels}
