"""What all models that write text share, beyond what keras_nlp gives them."""

import math
import numbers
import operator

import keras_nlp
import tensorflow as tf
from keras import ops

from convnlp.models import arrays, given_data
from convnlp.models.recipe_model import RecipeModel

_SAMPLERS = ("greedy", "beam", "top_k", "top_p", "random")
_OTHER_LOOPS = (keras_nlp.samplers.ContrastiveSampler,)  # which need more from a model than logits
_IMPOSSIBLE = -1e9  # a logit whose probability is 0 in float32


class LanguageModel(RecipeModel):
    """A model that decodes greedily unless compiled with another sampler, and checks stop tokens.

    See `RecipeModel`.
    """

    example = 'model.generate("a text")'
    needs_targets = False
    _gives_logits = True

    def _prepare(self, compile):
        """Does the last part of a constructor."""
        self.sampler = keras_nlp.samplers.GreedySampler()
        self.generate_function = None
        super()._prepare(compile)

    def compile(self, optimizer="auto", loss="auto", sampler="greedy", **kwargs):
        """As in keras_nlp, except for the optimizer "auto" (see `RecipeModel`) and the default sampler.

        Args:
            optimizer: as for a `TextClassifier`.
            loss: as in keras_nlp.
            sampler: "greedy" (default), "beam", "top_k", "top_p", "random", or a sampler of keras_nlp.
            **kwargs: as in keras_nlp.

        Raises:
            ValueError: if `generate` cannot use the sampler, or the loss takes the logits for probabilities.
        """
        sampler = _usable(sampler, self.backbone.vocabulary_size)
        super().compile(optimizer=optimizer, loss=loss, sampler=sampler, **kwargs)

    def get_compile_config(self):
        """As in Keras, and the sampler, unless it is one that keras_nlp does not know."""
        config = super().get_compile_config()
        if config and isinstance(self.sampler, keras_nlp.samplers.Sampler):
            config["sampler"] = keras_nlp.samplers.serialize(self.sampler)
        return config

    def predict(self, x=None, batch_size=None, **kwargs):
        """As in keras_nlp: the logits of every position. Raises the errors of `fit`."""
        given_data.check_batch_size(batch_size)
        x = arrays.of_tables(x)
        self._check_form(x)
        given_data.check(self, x)
        return super().predict(x=x, batch_size=batch_size, **kwargs)

    def _columns(self, inputs, columns_of):
        """Checks the inputs of `generate`, and gives them the form that keras_nlp's takes.

        Args:
            inputs: as in `generate`. Without a preprocessor, they pass unchecked.
            columns_of: function of inputs that are no data set -> (lists of texts, whether they were one
                example), which raises ValueError for what is neither.

        Returns:
            (inputs, whether `generate` returns one text instead of a list).
        """
        if self.preprocessor is None:
            return inputs, False
        is_data_set = isinstance(inputs, tf.data.Dataset)
        inputs, is_single = (inputs, False) if is_data_set else columns_of(inputs)
        if not arrays.is_empty(inputs):
            given_data.check(self, inputs, name="inputs")
        return inputs, is_single

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
        """Compiles `generate_step` to a graph, but anew once LoRA is enabled."""
        self._drop_graphs_without_lora()
        if self.generate_function is None:
            self.generate_function = (
                self.generate_step if self.run_eagerly else tf.function(self.generate_step, autograph=False)
            )
        return self.generate_function

    def _drop_graphs(self):
        super()._drop_graphs()
        self.generate_function = None


def _usable(sampler, vocabulary_size):
    """Returns the sampler that the argument of `compile` names.

    Raises:
        ValueError: if `generate` cannot use it: some errors would show only there, or as unknown tokens.
    """
    received = sampler
    if isinstance(sampler, dict) or (isinstance(sampler, str) and sampler in _SAMPLERS):
        sampler = keras_nlp.samplers.get(sampler)
    if not callable(sampler) or isinstance(sampler, (type, *_OTHER_LOOPS)):
        raise ValueError(
            f"`sampler` must be one of {', '.join(_SAMPLERS)}, or such a sampler of keras_nlp. "
            f"Received: {received!r}"
        )
    for name, rule, holds in (
        (
            "temperature",
            "a number > 0",
            lambda value: isinstance(value, numbers.Real) and 0 < value < math.inf,
        ),
        ("num_beams", "an integer >= 1", lambda value: isinstance(value, numbers.Integral) and value >= 1),
        ("p", "in [0, 1]", lambda value: isinstance(value, numbers.Real) and 0 <= value <= 1),
        ("return_all_beams", "False, as `generate` returns one text each", lambda value: not value),
        (
            "k",
            f"an integer in [1, {vocabulary_size}], the vocabulary",
            lambda value: isinstance(value, numbers.Integral) and 1 <= value <= vocabulary_size,
        ),
    ):
        value = getattr(sampler, name, None)
        if value is not None and not holds(value):
            raise ValueError(f"`{name}` of the sampler must be {rule}. Received: {name}={value!r}")
    return sampler


def tracked(prompt_mask):
    """Returns what a sampler's loop must know of each row, or beam, to call `certain_logits`, as a dict.

    Args:
        prompt_mask: bool [B,T], True = given.
    """
    return {"prompt_mask": prompt_mask, "finished": ops.zeros_like(prompt_mask[:, 0])}


def certain_logits(logits, token_ids, state, index, stop_token_ids):
    """Gives probability one to the tokens of the prompt, and to a pad after the end of a row.

    So a beam's score is that of its own text. Departs from keras_nlp's loop, in which a beam also collects
    the log-probabilities of what stands in its place in the prompt, and of what follows its end.

    Args:
        logits: float32 [B,V], of the token at position `index`.
        token_ids: int32 [B,T], known up to `index`.
        state: dict as `tracked` returns it, as of the position before.
        index: int32 [].
        stop_token_ids: list of int, or None if nothing ends a row.

    Returns:
        (logits, the state as of this position).
    """
    prompt_mask, finished = state["prompt_mask"], state["finished"]
    if stop_token_ids is not None:
        is_sampled = ops.logical_not(prompt_mask[:, index - 1])
        ends = ops.logical_and(is_sampled, is_any(token_ids[:, index - 1], stop_token_ids))
        finished = ops.logical_or(finished, ends)
    prompted = prompt_mask[:, index]
    token = ops.where(prompted, token_ids[:, index], 0)  # [B]
    logits = ops.where(
        ops.expand_dims(ops.logical_or(prompted, finished), 1),
        (1.0 - ops.one_hot(token, ops.shape(logits)[-1])) * _IMPOSSIBLE,
        logits,
    )
    return logits, {"prompt_mask": prompt_mask, "finished": finished}


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
