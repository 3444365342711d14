"""Compares the encoder's matrix products in TensorFlow and PyTorch, the part that our code cannot change.

    python -m benchmarks.matmul --json=FILE

Both libraries call oneDNN, each its own version. The same run times other forms of the same product in
TensorFlow, to see whether one is faster: transposed weights, constant weights, a convolution of width one,
and four blocks of rows. Their times are in `detail`.
"""

import dataclasses

import numpy as np

from benchmarks import program
from benchmarks.machine import optional_torch
from benchmarks.small_models import SEED, SIZES
from benchmarks.timing import interleaved


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured.

    Args:
        dtypes: tuple of "float32" and "bfloat16".
        rows: int, M; the number of positions of a batch.
        hidden_dim: int, D.
        intermediate_dim: int, F.
        repeats: int, see `interleaved`.
        min_seconds: float, see `interleaved`.
    """

    dtypes: tuple = ("float32", "bfloat16")
    rows: int = 8192
    hidden_dim: int = SIZES["hidden_dim"]
    intermediate_dim: int = SIZES["intermediate_dim"]
    repeats: int = 7
    min_seconds: float = 0.1


def rows(settings):
    """Yields one row per product of a layer and dtype."""
    dim, inner = settings.hidden_dim, settings.intermediate_dim
    products = {"the gated projection": (dim, 2 * dim), "the output projection": (dim, dim)}
    products |= {"the feed-forward's first": (dim, inner), "the feed-forward's second": (inner, dim)}
    for dtype in settings.dtypes:
        for name, (inputs, outputs) in products.items():
            forms = candidates(settings.rows, inputs, outputs, dtype)
            timings = interleaved(forms, settings.repeats, min_seconds=settings.min_seconds)
            yield program.compare(
                f"matrix product, {name}",
                {"dtype": dtype, "rows": settings.rows, "inputs": inputs, "outputs": outputs, "seed": SEED},
                timings["tf.matmul"],
                timings.get("PyTorch"),
                "GFLOP/s",
                2e-9 * settings.rows * inputs * outputs,
                forms_ms={form: round(1000 * timing.median, 3) for form, timing in timings.items()},
            )


def candidates(num_rows, inputs, outputs, dtype):
    """Returns all forms of one product [M,inputs] x [inputs,outputs]: {name: function}."""
    import tensorflow as tf

    rng = np.random.default_rng(SEED)
    arrays = [rng.normal(size=size).astype("float32") for size in ((num_rows, inputs), (inputs, outputs))]
    x, constant = (tf.cast(array, dtype) for array in arrays)
    kernel, transposed = tf.Variable(constant), tf.Variable(tf.transpose(constant))

    def convolution(x):
        y = tf.nn.conv1d(tf.reshape(x, [-1, num_rows // 4, inputs]), kernel[tf.newaxis], 1, "VALID")
        return tf.reshape(y, [num_rows, outputs])

    forms = {
        "tf.matmul": lambda x: tf.matmul(x, kernel),
        "transposed weights": lambda x: tf.matmul(x, transposed, transpose_b=True),
        "constant weights": lambda x: tf.matmul(x, constant),
        "tf.nn.conv1d": convolution,
        "four blocks of rows": lambda x: tf.concat([tf.matmul(part, kernel) for part in tf.split(x, 4)], 0),
    }
    functions = {name: tf.function(form, autograph=False) for name, form in forms.items()}
    found = {name: lambda function=function: function(x) for name, function in functions.items()}
    if torch := optional_torch():
        left, right = (torch.from_numpy(array).to(getattr(torch, dtype)) for array in arrays)
        found["PyTorch"] = torch.inference_mode()(lambda: left @ right)
    return found


if __name__ == "__main__":
    program.run(rows, Settings(), Settings(repeats=3))
