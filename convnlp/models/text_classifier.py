"""A text classifier: the encoder, masked pooling, one dense layer."""

import keras
import keras_nlp
from keras import ops

from convnlp.layers import HashedNgrams
from convnlp.models import arrays
from convnlp.models import labels as label_names
from convnlp.models.pooled_head import PooledHead
from convnlp.models.token_rows import check_length


@keras.saving.register_keras_serializable(package="convnlp")
class TextClassifier(PooledHead, keras_nlp.models.TextClassifier):
    """A head on the encoder: logits = W dropout([mean_t h_t ; max_t h_t]) + b over the tokens t of the row.

    h is the encoder's output; both poolings ignore pads. The head computes in float32, whatever the backbone
    does. A pair of texts shares a row; a purely convolutional encoder relates the two only within its
    receptive field (see `Seq2SeqBackbone.cost`).

    Args:
        backbone: a `Seq2SeqBackbone`. One with a decoder is replaced by its `encoder_only()`, a copy.
        num_classes: int >= 2. C.
        preprocessor: a `TextClassifierPreprocessor`, or None to feed token ids.
        pooling: "mean", "max" or "mean_max" (default), of the encoder's output; "layers", the means of all
            layers, which is better for a frozen encoder, see `pool_layers`; "pair", a dual encoder for pairs
            of texts, see `pool_pair`; "attention" or "class_attention", which learn what to look at, see
            `AttentionPooling` and `ClassAttention` in convnlp/layers/learned_pooling.py.
        dropout: float in [0, 1), on the pooled vector. Default 0.3.
        ngram_buckets: int in [0, 2**17]. Rows of a table of hashed tokens and pairs of tokens, whose sum is
            appended to the pooled vector; see `convnlp.layers.HashedNgrams`. Before `fit`, `ngrams.adapt`
            chooses which ones. Default 0: no table.
        ngram_dim: int >= 1. Columns of that table. Default 16.
        labels: list of C str, saved with the model; None if the classes have no names. With them, `fit` and
            `evaluate` take names in `y` as well as numbers.
        compile: bool. Default False: the optimiser is the user's choice, or belongs in a strategy's scope.
        **kwargs: `name` and `trainable` of the Keras model.

    Raises:
        ValueError: if an argument is unknown or out of its range. `activation` is unknown, too: the outputs
            are logits.

    Example:
    ```python
    import io, sentencepiece
    from convnlp.models import Seq2SeqBackbone, TextClassifier, TextClassifierPreprocessor, Tokenizer
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat", "the dog ran"]), model_writer=proto, vocab_size=16,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2)
    tokenizer = Tokenizer(proto.getvalue())
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(), num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    classifier = TextClassifier(
        backbone, num_classes=2, preprocessor=TextClassifierPreprocessor(tokenizer, sequence_length=8),
        labels=["cat", "dog"])
    assert classifier.predict(["the cat", "a dog"], verbose=0).shape == (2, 2)
    classifier.compile()  # the recipe of configs/finetune_classification.py
    classifier.fit(["the cat", "the dog"], ["cat", "dog"], verbose=0)
    ```
    """

    _gives_logits = _has_classes = True
    head_size_argument = "num_classes"
    head_arguments = ("pooling", "ngram_buckets", "ngram_dim")

    def __init__(
        self,
        backbone,
        num_classes,
        preprocessor=None,
        pooling="mean_max",
        dropout=0.3,
        labels=None,
        ngram_buckets=0,
        ngram_dim=16,
        compile=False,
        **kwargs,
    ):
        # keras_nlp's classifiers take this argument, and this is their default.
        if kwargs.get("activation") in (None, "linear"):
            kwargs.pop("activation", None)
        num_classes = check_length("num_classes", num_classes, 2)
        labels = label_names.check_names(labels, num_classes)
        self.ngram_buckets, self.ngram_dim = ngram_buckets, ngram_dim
        super().__init__(backbone, num_classes, preprocessor, pooling, dropout, compile, **kwargs)
        self.num_classes, self.labels = num_classes, labels

    def _head_input(self, inputs, pooling):
        pooled = super()._head_input(inputs, pooling)
        if not self.ngram_buckets:
            return pooled
        self.ngrams = HashedNgrams(self.ngram_buckets, self.ngram_dim, name="ngrams")
        return ops.concatenate([pooled, self.ngrams(**inputs)], axis=-1)

    def compile(self, optimizer="auto", loss="auto", *, metrics="auto", **kwargs):
        """As in keras_nlp and `RecipeModel`; the metric "auto" is an accuracy that suits the loss.

        With the loss "auto" or a `SparseCategoricalCrossentropy`, it is `SparseCategoricalAccuracy`. Any
        other loss may take one-hot targets: then it is "accuracy", which Keras chooses by the targets.
        """
        takes_numbers = isinstance(loss, keras.losses.SparseCategoricalCrossentropy)
        takes_numbers = takes_numbers or (isinstance(loss, str) and loss == "auto")
        if isinstance(metrics, str) and metrics == "auto" and not takes_numbers:
            metrics = ["accuracy"]
        super().compile(optimizer=optimizer, loss=loss, metrics=metrics, **kwargs)

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        sample_weight=None,
        validation_data=None,
        validation_split=None,
        **kwargs,
    ):
        """As in keras_nlp; `y`, also that of `validation_data` or a data set, may hold names of `labels`.

        So may the keys of `class_weight`.

        `x` and `y` may be lists, arrays, tensors, or columns of pandas: `fit(df["text"], df["label"])`.

        Raises:
            ValueError: if a name or a number is not that of a class, a text or `y` is missing, there is no
                example, or no n-gram has been chosen.
        """
        if self.ngram_buckets and not self.ngrams.is_adapted:
            raise ValueError(
                "`ngrams.adapt` must be called before `fit`, or no n-gram counts. Received: "
                f"ngram_buckets={self.ngram_buckets}"
            )
        if "class_weight" in kwargs:
            kwargs["class_weight"] = label_names.weights_by_number(
                kwargs["class_weight"], self.labels, self.num_classes
            )
        with label_names.explained():
            return super().fit(x, y, batch_size, sample_weight, validation_data, validation_split, **kwargs)

    def evaluate(self, x=None, y=None, batch_size=None, sample_weight=None, **kwargs):
        """As in keras_nlp; `y` may hold names of `labels`. Raises the errors of `fit`."""
        with label_names.explained():
            return super().evaluate(x, y, batch_size, sample_weight, **kwargs)

    def _targets(self, x, y):
        """Returns numbers of classes for names; checks them if the loss takes all of them."""
        y = label_names.to_numbers(y, self.labels)
        loss = getattr(self, "loss", None)
        if isinstance(loss, keras.losses.SparseCategoricalCrossentropy) and loss.ignore_class is None:
            label_names.check_numbers(y, self.num_classes)
        return y

    def preprocess_samples(self, x, y=None, sample_weight=None):
        """As in keras_nlp, for a batch of any input form; names in `y` become numbers."""
        y = arrays.flat(label_names.to_numbers(y, self.labels))
        return super().preprocess_samples(x, y, sample_weight)

    def get_config(self):
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "labels": self.labels,
            "ngram_buckets": self.ngram_buckets,
            "ngram_dim": self.ngram_dim,
        }
