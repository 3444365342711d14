"""The goals of all programs, for medians on two threads unless the program uses another number.

A goal applies to a row with its name whose setting contains all values given here. It is a floor for the
row's ratio, or a ceiling if the row is a limit; see `benchmarks.rows.Row`.
"""

_KERNEL = {"dtype": "float32", "length": 512, "padding": "same"}
_STEP = {"mixer": "lightweight_conv", "dtype": "bfloat16", "length": 512}

GOALS = [
    *(
        (f"{mixer} {direction} vs PyTorch", {**_KERNEL, "kernel_size": kernel_size}, goal)
        for mixers, direction, by_kernel_size in (
            (("lightweight_conv", "dilated_conv"), "forward", {7: 1.5, 31: 2.8}),
            (("lightweight_conv", "dilated_conv"), "forward+backward", {7: 2.9, 31: 5.5}),
            (("dynamic_conv",), "forward", {7: 4.5, 31: 4.5}),
            (("dynamic_conv",), "forward+backward", {7: 5.0, 31: 5.0}),
        )
        for mixer in mixers
        for kernel_size, goal in by_kernel_size.items()
    ),
    *(
        ("encoder forward vs own attention", {"dtype": "float32", "length": length}, goal)
        for length, goal in {64: 1.2, 512: 2.2, 1024: 3.3, 2048: 5.2, 4096: 8.4}.items()
    ),
    *(
        ("encoder forward vs keras_nlp TransformerEncoder", {"dtype": "bfloat16", "length": length}, goal)
        for length, goal in {64: 1.8, 512: 3.8, 1024: 6.0, 2048: 10.0, 4096: 18.0}.items()
    ),
    *(
        (
            "encoder forward vs PyTorch TransformerEncoder, unmasked",
            {"dtype": "float32", "length": length},
            goal,
        )
        for length, goal in {512: 1.8, 1024: 2.4, 4096: 6.0}.items()
    ),
    ("encoder forward vs PyTorch convolution encoder", {"dtype": "bfloat16"}, 1.0),
    ("training step vs own float32 graph", _STEP, 2.2),
    ("training step vs own attention", _STEP, 2.0),
    ("training step, share of the matmul ceiling", _STEP, 0.35),
    ("training step vs PyTorch convolution model", _STEP, 1.2),
    ("training step vs PyTorch Transformer", _STEP, 2.0),
    ("training memory, length 4096 vs 2048", {}, 2.1),
    ("decode, time per token at 2048 vs 64", {}, 1.1),
    ("decode vs keras_nlp", {"output_length": 512}, 2.0),
    ("host pipeline, share of a core", {}, 0.02),
    ("import convnlp", {}, 0.5),
    ("serving, latency added at batch 1", {}, 0.5),
    ("serving, throughput vs in process", {"clients": 32}, 0.95),
    ("serving, p99 vs median latency", {"clients": 32}, 3.0),
    ("serving, memory after the load vs before", {}, 1.02),
    ("serving, LiteRT vs its interpreter alone", {"clients": 1}, 2.5),
    *(("edge, size", {"size": "mini", "mode": mode}, 8.0) for mode in ("dynamic", "int8")),
    ("edge, one thread vs SavedModel", {"size": "mini", "mode": "dynamic", "length": 128}, 3.0),
    *(("edge, accuracy lost vs float32", {"mode": mode}, 0.5) for mode in ("dynamic", "int8")),
    *(
        (f"inference, {what}", {"size": "mini", "ask": f"n = {length}"}, goal)
        for what, by_length in {
            "one text vs the same model elsewhere": {32: 1.5, 128: 1.2, 512: 1.0},
            "one text vs the Transformer": {32: 1.5, 128: 2.2, 512: 4.0, 2048: 10.0},
            "SavedModel vs the same model in PyTorch": {64: 1.0, 512: 1.0},
        }.items()
        for length, goal in by_length.items()
    ),
    ("inference, mixed batches vs the fastest peer", {"size": "mini"}, 1.2),
    ("inference, SavedModel bfloat16 vs float32", {"size": "mini", "ask": "32 x 128"}, 1.8),
]


def goal(name, setting):
    """Returns the goal of a row, or None.

    Args:
        name: str, the row's name.
        setting: dict, the row's setting.

    Example:
    >>> goal("encoder forward vs own attention", {"dtype": "float32", "length": 512, "batch_size": 16})
    2.2
    """
    for named, conditions, value in GOALS:
        if named == name and conditions.items() <= setting.items():
            return value
    return None
