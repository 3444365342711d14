"""What all models that write text share, beyond what keras_nlp gives them."""

import operator

import keras_nlp
import tensorflow as tf
from keras import ops

from convnlp.models.recipe_model import RecipeModel


class LanguageModel(RecipeModel):
    """A model that decodes greedily unless compiled with another sampler, and checks stop tokens.

    See `RecipeModel`.
    """

    example = 'model.generate("a text")'
    needs_targets = False

    def _prepare(self, compile):
        """Does the last part of a constructor."""
        self.sampler = keras_nlp.samplers.GreedySampler()
        self.generate_function = None
        super()._prepare(compile)

    def _stop_token_ids(self, stop_token_ids):
        """Turns the argument of `generate` into "auto", None or a list of ints."""
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
        """Compiles `generate_step` to a graph."""
        if self.generate_function is None:
            self.generate_function = (
                self.generate_step if self.run_eagerly else tf.function(self.generate_step, autograph=False)
            )
        return self.generate_function


def is_any(token_ids, wanted):
    """Returns where int32 `token_ids` of any shape equals one of the ints `wanted`."""
    return ops.any(ops.stack([ops.equal(token_ids, token) for token in wanted]), axis=0)


def up_to_end(token_ids, prompt_mask, stop_token_ids):
    """Returns which tokens of generated rows count: all up to the first end token after the prompt.

    Args:
        token_ids: int32 [B,T].
        prompt_mask: bool [B,T], True = given.
        stop_token_ids: list of int, or None if all tokens count.

    Returns:
        bool [B,T].
    """
    if stop_token_ids is None:
        return ops.ones_like(prompt_mask)
    ends = ops.logical_and(is_any(token_ids, stop_token_ids), ops.logical_not(prompt_mask))
    ends = ops.cast(ends, "int32")
    before = ops.cumsum(ends, axis=1) - ends  # [B,T], ends before a position
    return ops.equal(before, 0)
