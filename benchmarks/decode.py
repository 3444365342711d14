"""Generation token by token: time for growing outputs, compared with cached attention and keras_nlp's BART.

    python -m benchmarks.decode --json=FILE

This times `Seq2SeqLM.generate` on token ids, without an end token, so that every output has its full
length. The models have four layers on each side, width 256, lightweight convolutions with 7 taps and 8
heads, and vocabulary 8192; inputs have 64 tokens; all is float32. Each runs as the function that `generate`
compiles by default; for BART this is XLA, which makes it more than twice as fast. Tokens per second count
the whole call and all rows. For the time per token, the time of an output of one token, which contains the
encoder and the call, is subtracted from that of a whole output, and the rest is divided by the number of
other tokens.
"""

import dataclasses

import keras_nlp
import numpy as np
import tensorflow as tf

from benchmarks import program, timing
from benchmarks.peers import keras_nlp_models
from benchmarks.rows import Row
from benchmarks.small_models import ATTENTION, CONVOLUTION, KERNEL_SIZE, SEED, SIZES, backbone, token_ids
from convnlp.models import Seq2SeqLM

SAMPLERS = {"greedy": keras_nlp.samplers.GreedySampler, "beam": keras_nlp.samplers.BeamSampler}


@dataclasses.dataclass
class Settings:
    """What is measured.

    Args:
        cases: tuple of (sampler, batch_size), see `SAMPLERS`.
        lengths: tuple of int, output lengths of our convolution and our attention. The growth is that from
            the first to the last.
        peer_lengths: tuple of int, output lengths for the comparison with keras_nlp.
        attention_positions: int. Our attention is left out if its caches have more positions than this,
            over all rows and beams.
        input_length: int.
        num_beams: int, for "beam".
        repeats: int, samples; only one for outputs longer than 1,000 tokens.
        sizes: dict, see `benchmarks.peers`.
    """

    cases: tuple = (("greedy", 1), ("greedy", 16), ("beam", 1))
    lengths: tuple = (64, 512, 2048)
    peer_lengths: tuple = (64, 512)
    attention_positions: int = 4096
    input_length: int = 64
    num_beams: int = 4
    repeats: int = 3
    sizes: dict = dataclasses.field(default_factory=lambda: SIZES)


def rows(settings):
    """Yields, for each case, tokens per second beside the peers, then the growth of the time per token."""
    for sampler, batch_size in settings.cases:
        yield from _case(settings, sampler, batch_size)


def _case(settings, sampler, batch_size):
    lms = {
        mixer: Seq2SeqLM(backbone(mixer, "float32", settings.sizes, max(settings.lengths) + 1))
        for mixer in (CONVOLUTION, ATTENTION)
    }
    options = {"num_beams": settings.num_beams} if sampler == "beam" else {}
    for lm in lms.values():
        lm.compile(sampler=SAMPLERS[sampler](**options))
    lms["BART"] = keras_nlp_models.seq2seq_lm(
        settings.sizes, max(settings.lengths) + 1, SAMPLERS[sampler](**options)
    )
    num_rows = batch_size * (settings.num_beams if sampler == "beam" else 1)

    def is_timed(name, length):
        if name == ATTENTION:
            return num_rows * length <= settings.attention_positions
        return name == CONVOLUTION or length in settings.peer_lengths

    def setting(length):
        return {
            "mixer": CONVOLUTION,
            "dtype": "float32",
            "sampler": sampler,
            "batch_size": batch_size,
            "input_length": settings.input_length,
            "output_length": length,
            "kernel_size": KERNEL_SIZE,
            "seed": SEED,
            "shapes": settings.sizes,
        }

    seconds = {name: {} for name in lms}  # for a whole output, by its length
    for length in (1, *settings.lengths):
        inputs = _inputs(settings, batch_size, length)
        calls = {name: _call(lm, inputs) for name, lm in lms.items() if is_timed(name, length)}
        repeats = settings.repeats if length <= 1000 else 1
        timings = timing.interleaved(calls, repeats, warmup=1, max_rounds=2 * repeats)
        for name in timings:
            seconds[name][length] = timings[name].median
        for peer, name in (("own attention", ATTENTION), ("keras_nlp", "BART")):
            if name in timings and length > 1:
                yield program.compare(
                    f"decode vs {peer}",
                    setting(length),
                    timings[CONVOLUTION],
                    timings[name],
                    "tokens/s",
                    batch_size * length,
                )
    for mixer, name in ((CONVOLUTION, "decode"), (ATTENTION, "decode by own attention")):
        if len(seconds[mixer]) > 2:
            yield _growth(name, {**setting(max(seconds[mixer])), "mixer": mixer}, seconds[mixer])


def _growth(name, setting, seconds):
    """Returns the row that compares the time per token of the longest output with that of the shortest."""
    once, shortest, *_, longest = sorted(seconds)
    per_token = {
        length: 1000 * (seconds[length] - seconds[once]) / (length - once) for length in (shortest, longest)
    }
    name = f"{name}, time per token at {longest} vs {shortest}"
    goal = program.goal(name, setting)
    return Row(name, setting, per_token[longest], per_token[shortest], "ms", "limit", goal)


def _inputs(settings, batch_size, length):
    """Returns token ids as `generate` takes them, with room for `length` tokens after the start token."""
    ids = token_ids(batch_size, settings.input_length, settings.sizes["vocabulary_size"])
    start = np.tile(np.arange(length + 1) < 1, [batch_size, 1])
    return {
        "encoder_token_ids": tf.constant(ids),
        "encoder_padding_mask": tf.ones(ids.shape, tf.bool),
        "decoder_token_ids": tf.zeros(start.shape, tf.int32),
        "decoder_padding_mask": tf.constant(start),
    }


def _call(lm, inputs):
    return lambda: lm.generate(inputs, stop_token_ids=None)


if __name__ == "__main__":
    program.run(
        rows,
        full=Settings(),
        short=Settings(cases=(("greedy", 1),), lengths=(64, 512), peer_lengths=(512,), repeats=2),
    )
