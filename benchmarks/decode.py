"""Generation token by token: time as the output grows, beside attention with its cache and keras_nlp's BART.

    python -m benchmarks.decode --json=FILE

`Seq2SeqLM.generate` on token ids, without an end token, so that every output has its full length; four
layers on each side, width 256, lightweight convolutions of 7 taps and 8 heads, vocabulary 8192, inputs of 64
tokens, float32. Each runs as the function that `generate` compiles by default; that is XLA for BART, which
makes it more than twice as fast. Tokens a second are of the whole call, all rows together. The time per
token is that of a whole output without that of a single token, which holds the encoder and the call, over
the other tokens.
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
        cases: list of (sampler, batch_size), see `SAMPLERS`.
        lengths: ints, output lengths of ours and of our attention; growth is from the first to the last.
        peer_lengths: ints, output lengths beside keras_nlp.
        attention_positions: int. Our attention is left out where its caches have more positions, of all rows
            and beams.
        input_length: int.
        num_beams: int, of "beam".
        repeats: int, samples; of outputs longer than 1,000 tokens one.
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
    """Yields for each case: tokens a second beside the peers, then the growth of the time per token."""
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

    seconds = {name: {} for name in lms}  # of a whole output, by its length
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
    """The row of the time per token at the longest output beside that at the shortest."""
    once, shortest, *_, longest = sorted(seconds)
    per_token = {
        length: 1000 * (seconds[length] - seconds[once]) / (length - once) for length in (shortest, longest)
    }
    name = f"{name}, time per token at {longest} vs {shortest}"
    goal = program.goal(name, setting)
    return Row(name, setting, per_token[longest], per_token[shortest], "ms", "limit", goal)


def _inputs(settings, batch_size, length):
    """Token ids as `generate` takes them, with room for `length` tokens behind the start token."""
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
