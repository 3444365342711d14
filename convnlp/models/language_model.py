"""What all models that write text have in common, beside what keras_nlp gives them."""

import operator

import keras_nlp
import tensorflow as tf
from keras import ops

from convnlp.models import arrays, precision, presets, recipe


class LanguageModel:
    """Training by the project's recipe, presets with sums, and checked stop tokens.

    Stands in front of a class of keras_nlp among the bases of a model.
    """

    def _prepare(self, compile):
        """The last part of a constructor."""
        self.supports_jit = False  # XLA's depthwise convolution on CPU is slower than no XLA
        self.sampler = keras_nlp.samplers.GreedySampler()
        self.generate_function = None
        self._uses_recipe = False
        if compile:
            self.compile()

    def compile(self, optimizer="auto", loss="auto", *, weighted_metrics="auto", sampler="top_k", **kwargs):
        """As in keras_nlp, but for the optimizer that "auto" is.

        Args:
            optimizer: "auto" is the recipe of `TextClassifier.compile`.
            loss: as there.
            weighted_metrics: as there.
            sampler: as there.
            **kwargs: as there.
        """
        self._uses_recipe = isinstance(optimizer, str) and optimizer == "auto"
        optimizer = recipe.optimizer(self) if self._uses_recipe else optimizer
        super().compile(
            optimizer=optimizer, loss=loss, weighted_metrics=weighted_metrics, sampler=sampler, **kwargs
        )

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
        """As in keras_nlp; `validation_split` takes lists too.

        Raises:
            ValueError: without any example, or on a split outside of [0, 1).
        """
        arrays.require_examples(x)
        arrays.check_validation_split(validation_split)
        if validation_split and validation_data is None:
            x, y, sample_weight = map(arrays.splittable, (x, y, sample_weight))
        with recipe.schedule(self, kwargs.pop("callbacks", None)) as callbacks:
            return super().fit(
                x=x,
                y=y,
                batch_size=batch_size,
                sample_weight=sample_weight,
                validation_data=validation_data,
                validation_split=validation_split,
                callbacks=callbacks,
                **kwargs,
            )

    def quantize(self, mode=None, **kwargs):
        """Not supported: raises NotImplementedError, which names what is."""
        precision.refuse_quantize(mode)

    def _stop_token_ids(self, stop_token_ids):
        """As `generate` takes them -> "auto", None or a list of ints."""
        if stop_token_ids is None or (isinstance(stop_token_ids, str) and stop_token_ids == "auto"):
            return stop_token_ids
        size = self.backbone.vocabulary_size
        try:
            ids = [operator.index(token) for token in stop_token_ids]
        except TypeError:
            ids = [-1]
        if any(not 0 <= token < size for token in ids):
            raise ValueError(
                f'`stop_token_ids` must be "auto", None or a list of token ids in [0, {size}). '
                f"Received: {stop_token_ids!r}"
            )
        return ids or None

    def make_generate_function(self):
        """`generate_step` as a graph."""
        if self.generate_function is None:
            self.generate_function = (
                self.generate_step if self.run_eagerly else tf.function(self.generate_step)
            )
        return self.generate_function

    def save_to_preset(self, preset_dir, max_shard_size=10):
        """As `Seq2SeqBackbone.save_to_preset`."""
        with presets.saving(preset_dir, self.variables):
            super().save_to_preset(preset_dir, max_shard_size=max_shard_size)

    @classmethod
    def from_preset(cls, preset, load_weights=True, **kwargs):
        """As in keras_nlp.

        Raises:
            ValueError: naming the directory, the file and what was expected there.
        """
        with presets.explained(preset, cls, kwargs):
            return super().from_preset(preset, load_weights=load_weights, **kwargs)


def is_any(token_ids, wanted):
    """Where int32 `token_ids` of any shape is one of the ints `wanted`."""
    return ops.any(ops.stack([ops.equal(token_ids, token) for token in wanted]), axis=0)
