"""A classifier of texts that may have any number of labels at once."""

import keras
import keras_nlp

from convnlp.models import arrays, given_data
from convnlp.models import labels as label_names
from convnlp.models.pooled_head import PooledHead
from convnlp.models.token_rows import check_length

_OF_ONE_LABEL = ("accuracy", "acc", "categoricalaccuracy")  # metrics, without underscores


@keras.saving.register_keras_serializable(package="convnlp")
class MultiLabelClassifier(PooledHead, keras_nlp.models.Task):
    """Gives a logit per label, float32 [B,C]; the probability that a text has the label is sigmoid(logit).

    Args:
        backbone: a `Seq2SeqBackbone`. One with a decoder is replaced by its `encoder_only()`, a copy.
        num_classes: int >= 1. C.
        preprocessor: a `TextClassifierPreprocessor`, or None to feed token ids.
        pooling: str, as for a `TextClassifier`. Defaults to "mean_max".
        dropout: float in [0, 1), on the pooled vector. Default 0.3.
        labels: list of C str, saved with the model; None if the labels have no names.
        compile: bool. Default False. `compile()` without arguments uses binary cross-entropy; `fit` then
            takes a `y` of zeros and ones [B,C], or [B] if C is 1.
        **kwargs: `name` and `trainable` of the Keras model.

    Raises:
        ValueError: if an argument is unknown or out of its range.
    """

    head_size_argument = "num_classes"
    _gives_logits = True

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
        num_classes = check_length("num_classes", num_classes, 1)
        labels = label_names.check_names(labels, num_classes)
        super().__init__(backbone, num_classes, preprocessor, pooling, dropout, compile, **kwargs)
        self.num_classes, self.labels = num_classes, labels

    def compile(self, optimizer="auto", loss="auto", **kwargs):
        """As for a `TextClassifier`; the loss "auto" is binary cross-entropy.

        Raises:
            ValueError: also for the metric "accuracy" and others for one label per text: Keras would count
                the texts whose largest logit is that of their first label.
        """
        for metric in keras.tree.flatten([kwargs.get("metrics"), kwargs.get("weighted_metrics")]):
            name = metric if isinstance(metric, str) else getattr(metric, "__name__", type(metric).__name__)
            if name.lower().replace("_", "") in _OF_ONE_LABEL:
                raise ValueError(
                    "`metrics` must suit texts with several labels, as "
                    f"keras.metrics.BinaryAccuracy(threshold=0) does. Received: {metric!r}"
                )
        if isinstance(loss, str) and loss == "auto":
            loss = keras.losses.BinaryCrossentropy(from_logits=True)
        super().compile(optimizer=optimizer, loss=loss, **kwargs)

    def _targets(self, x, y):
        if isinstance(getattr(self, "loss", None), keras.losses.BinaryCrossentropy):
            rule = f"`y` must hold {self.num_classes} numbers in [0, 1] for each example, one per label"
            given_data.check_numbers(y, self.num_classes, rule, lambda values: (values >= 0) & (values <= 1))
        return y

    def preprocess_samples(self, x, y=None, sample_weight=None):
        """As in keras_nlp; for one label, `y` may also be of the shape [B]."""
        y = arrays.in_rows(y) if self.num_classes == 1 else y
        return super().preprocess_samples(x, y, sample_weight)

    def get_config(self):
        return {**super().get_config(), "num_classes": self.num_classes, "labels": self.labels}
