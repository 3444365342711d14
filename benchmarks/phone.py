r"""Times a TFLite file as on a phone: one text, one thread, and nothing of it left in the processor's caches.

    python -m benchmarks.phone --json=FILE

The file is that of an untrained classifier of size mini, in mode "dynamic", because the time does not depend
on the weights: once with the tokenizer inside, which reads a string, and once for token ids. "Cold" calls
come after a pass over more memory than all caches hold, as after another app has run; "warm" ones follow
another call at once. Both take turns. This is no phone: a server's core is faster, and it only lacks caches.
"""

import dataclasses
import pathlib
import statistics
import tempfile
import time

import numpy as np

from benchmarks import program
from benchmarks.exported import write_preset
from benchmarks.rows import Row
from benchmarks.serving_load import example
from convnlp.export import edge_model
from convnlp.export.lite import tflite_files

_EVICTED_BYTES = 2**29  # several times the largest cache of a processor
_LONGEST = 512


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure.

    Args:
        lengths: tuple of int, tokens of a text, at most 512.
        repeats: int, calls of each kind.
        size: str, name in `convnlp.models.SIZES`.
        mixer: str.
    """

    lengths: tuple = (32, 128, 512)
    repeats: int = 31
    size: str = "mini"
    mixer: str = "lightweight_conv"


FULL = Settings()
SHORT = Settings(lengths=(32,), repeats=3, size="tiny")


def rows(settings):
    """Yields a row for each kind of input and length: cold, beside warm."""
    memory = np.zeros(_EVICTED_BYTES, np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        preset = write_preset(settings.mixer, settings.size, _LONGEST, folder)
        ids_file = pathlib.Path(folder, "ids.tflite")
        tflite_files.export(preset, str(ids_file))
        text_file = pathlib.Path(folder, "text.tflite")
        tflite_files.export(preset, str(text_file), inputs="text")
        tokenizer = edge_model.EdgeModel(str(ids_file))
        run_ids = tflite_files.runner(ids_file.read_bytes())
        run_text = tflite_files.runner(text_file.read_bytes(), "text")
        for length in settings.lengths:
            text = _text(tokenizer, length)
            ids = tokenizer.token_ids([text])
            for inputs, run, array in (("text", run_text, np.array([text], object)), ("ids", run_ids, ids)):
                yield _row(settings, inputs, ids.shape[1], run, array, memory)


def _text(tokenizer, length):
    """Returns the longest text of at most so many tokens, in whole words."""
    words = example("text", length).split()
    texts = [" ".join(words[:count]) for count in range(1, len(words))]
    return max((text for text in texts if tokenizer.token_ids([text]).shape[1] <= length), key=len)


def _row(settings, inputs, length, run, array, memory):
    found = {"cold": [], "warm": []}
    for _ in range(settings.repeats):
        memory += 1
        for state in found:  # a cold call warms the caches for the next one
            start = time.perf_counter()
            run(array)
            found[state].append(1000 * (time.perf_counter() - start))
    setting = {"inputs": inputs, "length": length, "mixer": settings.mixer, "size": settings.size}
    cold, warm = (statistics.median(found[state]) for state in ("cold", "warm"))
    return Row("edge, cold caches vs warm", setting, cold, warm, "ms", "lower", None, {"ms": found})


if __name__ == "__main__":
    program.run(rows, full=FULL, short=SHORT, threads=1)
