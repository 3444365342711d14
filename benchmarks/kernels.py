"""Compares the mixing operations with TensorFlow's own ops and with every fast form in PyTorch.

    python -m benchmarks.kernels --json=FILE

The operation is: multiply by the padding mask, take the softmax of the logits (except for `dilated_conv`,
whose taps are plain weights), convolve. forward+backward adds the gradients with respect to the inputs and
the logits. All forms of a setting take turns in one run. Forms that in a first try take over three times as
long as the fastest of their framework are dropped, with that time in `detail`. The peer of a row is the
fastest remaining form; rows "vs PyTorch conv1d" have F.conv1d(groups=d), which is not always the fastest.
"""

import dataclasses
import itertools
import time

import numpy as np
from absl import flags

from benchmarks import program
from benchmarks.machine import optional_torch
from benchmarks.shared_flags import check_among
from benchmarks.timing import interleaved

SEED = 0
MIXERS = ("lightweight_conv", "dilated_conv", "dynamic_conv")
DROP = 3.0
# A thread's memory pool holds 64 MB. A kernel with its gradients needs more, and TensorFlow's threads would
# map that memory anew each time, for up to half of the time; PyTorch is not affected. In other programs,
# each thread keeps a pool of its own: TensorFlow's needs fit into it, and without it PyTorch may train half
# as fast.
ARENAS = 3
NAMED = "conv1d"  # what people write in PyTorch; has a row of its own even if another form is faster

_OPERATIONS = flags.DEFINE_list("operations", [], f"Operations, of {', '.join(MIXERS)}. Default: all.")


@dataclasses.dataclass(frozen=True)
class Settings:
    """The grid.

    Args:
        mixers: tuple of str, of `MIXERS`.
        dtypes: tuple of "float32" and "bfloat16".
        paddings: tuple of "same" and "causal".
        kernel_sizes: tuple of odd ints, K.
        lengths: tuple of int, n; the batch size B is such that B n is `num_tokens`.
        num_tokens: int.
        hidden_dim: int.
        num_heads: int, H of the lightweight and of the dynamic convolution.
        repeats: int, see `interleaved`.
        min_seconds: float, see `interleaved`.
    """

    mixers: tuple = MIXERS
    dtypes: tuple = ("float32", "bfloat16")
    paddings: tuple = ("same", "causal")
    kernel_sizes: tuple = (3, 7, 15, 31)
    lengths: tuple = (128, 512, 2048)
    num_tokens: int = 8192
    hidden_dim: int = 512
    num_heads: int = 8
    repeats: int = 5
    min_seconds: float = 0.1


FULL = Settings()
SHORT = Settings(dtypes=("float32",), paddings=("same",), kernel_sizes=(7, 31), lengths=(512,), repeats=3)


def grid(settings):
    """Yields (mixer, setting of its rows) for each point of the grid."""
    axes = (settings.mixers, settings.dtypes, settings.paddings, settings.kernel_sizes, settings.lengths)
    for mixer, dtype, padding, kernel_size, length in itertools.product(*axes):
        dilated = mixer == "dilated_conv"
        yield (
            mixer,
            {
                "dtype": dtype,
                "padding": padding,
                "kernel_size": kernel_size,
                "length": length,
                "batch_size": max(1, settings.num_tokens // length),
                "hidden_dim": settings.hidden_dim,
                "num_heads": settings.hidden_dim if dilated else settings.num_heads,
                "dilation_rate": 2 if dilated else 1,
                "seed": SEED,
            },
        )


def rows(settings):
    """Yields rows for each point of the grid and both directions: vs the fastest form of each framework."""
    check_among("operations", _OPERATIONS.value, MIXERS)
    settings = dataclasses.replace(settings, mixers=tuple(_OPERATIONS.value) or settings.mixers)
    for mixer, setting in grid(settings):
        for direction in ("forward", "forward+backward"):
            yield from _compare(mixer, direction, setting, settings)


def candidates(mixer, setting, backward):
    """Returns all forms of an operation on the same numbers: {framework: {name: function}}."""
    from benchmarks.peers import tensorflow_kernels

    rng = np.random.default_rng(setting["seed"])
    shape = [setting["batch_size"], setting["length"], setting["hidden_dim"]]
    taps = [setting["num_heads"], setting["kernel_size"]]
    if mixer == "dynamic_conv":
        taps = [*shape[:2], *taps]
    x, dy, logits = (rng.normal(size=size).astype("float32") for size in (shape, shape, taps))
    kernel_size = setting["kernel_size"]
    arguments = {
        "softmax": mixer != "dilated_conv",
        "left": kernel_size - 1 if setting["padding"] == "causal" else (kernel_size - 1) // 2,
        "dilation_rate": setting["dilation_rate"],
        "dtype": setting["dtype"],
        "backward": backward,
    }
    found = {"TensorFlow": tensorflow_kernels.candidates(x, logits, dy, **arguments)}
    if optional_torch():
        from benchmarks.peers import pytorch_kernels

        found["PyTorch"] = pytorch_kernels.candidates(x, logits, dy, **arguments)
    return found


def _compare(mixer, direction, setting, settings):
    forms = candidates(mixer, setting, direction == "forward+backward")
    ours = forms["TensorFlow"].pop("convnlp")
    contenders, dropped = {("convnlp", "convnlp"): ours}, {}
    for framework, by_name in forms.items():
        seconds = {name: _best_of_three(call) for name, call in by_name.items()}
        for name, call in by_name.items():
            if seconds[name] <= DROP * min(seconds.values()) or name == NAMED:
                contenders[framework, name] = call
            else:
                dropped[framework, name] = seconds[name]
    timings = interleaved(contenders, settings.repeats, min_seconds=settings.min_seconds)
    for framework in sorted(forms):
        ranked = sorted((t.median, name) for (found, name), t in timings.items() if found == framework)
        detail = {
            "forms_ms": {name: round(1000 * median, 3) for median, name in ranked},
            "dropped_ms": {name: round(1000 * t, 1) for (of, name), t in dropped.items() if of == framework},
        }
        peers = {framework: ranked[0][1]}
        if NAMED in forms[framework]:
            peers[f"{framework} {NAMED}"] = NAMED
        for peer, name in peers.items():
            yield program.compare(
                f"{mixer} {direction} vs {peer}",
                setting,
                timings["convnlp", "convnlp"],
                timings[framework, name],
                form=name,
                **detail,
            )


def _best_of_three(call):
    """Returns the seconds of the best of three calls, after a first one, which may trace and compile."""
    seconds = []
    for _ in range(4):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return min(seconds[1:])


if __name__ == "__main__":
    program.run(rows, FULL, SHORT, arenas=ARENAS)
