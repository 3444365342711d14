r"""Generates text with a preset: from an input text, or as the continuation of a text.

    convnlp generate --preset=DIR --text="Summarise: ..." --sampler=beam
    convnlp generate --preset=DIR < inputs.txt

Prints one output per line, one for each input; without --text, the inputs are the lines of standard input.
A PrefixLM's output is the input as it was given, and what continues it.
"""

import keras_nlp
import tensorflow as tf
from absl import flags, logging

from convnlp import standard_input, tasks
from convnlp.models import PrefixLM, preset_names
from convnlp.programs import run
from convnlp.tasks import fields

_SAMPLERS = ("greedy", "beam", "top_k", "top_p")
_USED_BY = {
    "num_beams": ("beam",),
    "top_k": ("top_k",),
    "top_p": ("top_p",),
    "temperature": ("top_k", "top_p"),
    "seed": ("top_k", "top_p"),
}

_PRESET = flags.DEFINE_string(
    "preset", None, "Name or directory of a Seq2SeqLM or PrefixLM preset.", required=True
)
_TEXT = flags.DEFINE_multi_string("text", None, "An input; may be repeated.")
_MAX_LENGTH = flags.DEFINE_integer(
    "max_length",
    None,
    "Tokens of an output at most, with start and end. A PrefixLM's prompt counts too: if it is longer, only "
    "its last tokens are read. Default: the preset's.",
    lower_bound=2,
)
_SAMPLER = flags.DEFINE_enum("sampler", "greedy", _SAMPLERS, "How tokens are chosen.")
_NUM_BEAMS = flags.DEFINE_integer("num_beams", 4, "For --sampler=beam.", lower_bound=1)
_TOP_K = flags.DEFINE_integer("top_k", 10, "For --sampler=top_k: how many tokens.", lower_bound=1)
_TOP_P = flags.DEFINE_float("top_p", 0.9, "For --sampler=top_p: their total probability.", 0.0, 1.0)
_TEMPERATURE = flags.DEFINE_float("temperature", 1.0, "Temperature of top_k and top_p.", lower_bound=1e-3)
_SEED = flags.DEFINE_integer("seed", 0, "Random seed of top_k and top_p.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Inputs per batch.", lower_bound=1)


def check_flags():
    """Raises ValueError for a flag that has no effect on --sampler."""
    for name, samplers in _USED_BY.items():
        if flags.FLAGS[name].present and _SAMPLER.value not in samplers:
            raise ValueError(
                f"`{name}` must only be given with --sampler={' or '.join(samplers)}. "
                f"Received: {name}={flags.FLAGS[name].value}, sampler={_SAMPLER.value}"
            )


def sampler():
    """Returns the sampler that the flags describe."""
    if _SAMPLER.value == "beam":
        return keras_nlp.samplers.BeamSampler(num_beams=_NUM_BEAMS.value)
    random = {"temperature": _TEMPERATURE.value, "seed": _SEED.value}
    if _SAMPLER.value == "top_k":
        return keras_nlp.samplers.TopKSampler(k=_TOP_K.value, **random)
    if _SAMPLER.value == "top_p":
        return keras_nlp.samplers.TopPSampler(p=_TOP_P.value, **random)
    return keras_nlp.samplers.GreedySampler()


def warn_of_cut(lm, texts, length):
    """Logs how many inputs of a `PrefixLM` do not fit into `length` tokens with one that continues them."""
    counts = lm.preprocessor.tokenizer.ragged(texts).row_lengths()
    if count := int(tf.math.count_nonzero(counts >= length)):
        message = (
            "only the last %d tokens of %d of %d inputs are read, so that one more fits into max_length=%d"
        )
        logging.warning(message, length - 1, count, len(texts), length)


def continued(lm, texts, length):
    """Returns texts as they were given, and what a `PrefixLM` adds to them: list of str.

    Its `generate` would return the prompts as they were read, normalised and cut.
    """
    rows = lm.preprocessor.generate_preprocess(texts, sequence_length=length)
    end_token_id = lm.preprocessor.tokenizer.end_token_id
    found = lm.make_generate_function()(rows, stop_token_ids=[end_token_id])
    is_new = found["padding_mask"] & ~rows["padding_mask"]
    both = lm.continued(tf.constant(texts), tf.where(is_new, found["token_ids"], 0))
    return [text.decode() for text in both.numpy()]


def main(_):
    """Inputs -> preset -> sampler -> outputs."""
    check_flags()
    texts = standard_input.checked("text", _TEXT.value or []) or list(standard_input.lines())
    if not texts:
        raise ValueError("no input: give --text, or lines on standard input")
    directory = preset_names.locate(_PRESET.value)
    trained = fields.trained_on(directory)
    if len(trained) > 1:
        raise ValueError(
            f"preset {_PRESET.value}: was trained on {' and '.join(trained)}; "
            "give both texts to convnlp predict"
        )
    saved = tasks.saved_class(directory)
    if not tasks.task_of(saved).generates:
        raise ValueError(
            f"`preset` must hold a model that writes text. Received: preset={_PRESET.value}, a "
            f"{saved.__name__}"
        )
    lm = tasks.load(directory)
    most = lm.backbone.vocabulary_size
    if _SAMPLER.value == "top_k" and _TOP_K.value > most:
        raise ValueError(f"`top_k` must be at most the vocabulary, {most}. Received: top_k={_TOP_K.value}")
    lm.compile(sampler=sampler())
    if isinstance(lm, PrefixLM):
        length = _MAX_LENGTH.value or lm.preprocessor.sequence_length
        lm.backbone.require_length("encoder", "max_length", length)
        warn_of_cut(lm, texts, length)
    for start in range(0, len(texts), _BATCH_SIZE.value):
        chunk = texts[start : start + _BATCH_SIZE.value]
        if isinstance(lm, PrefixLM):
            found = continued(lm, chunk, length)
        else:
            found = lm.generate(chunk, max_length=_MAX_LENGTH.value)
        for text in found:
            print(text.replace("\n", " "), flush=True)  # somebody may be waiting for it


if __name__ == "__main__":
    run(main)
