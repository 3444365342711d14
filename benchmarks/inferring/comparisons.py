"""Compares our fastest variant with the fastest of the others, with the goals of `benchmarks.goals`."""

from benchmarks.goals import goal
from benchmarks.inferring import asks
from benchmarks.inferring.variants import MINILM, VARIANTS
from benchmarks.rows import Row

CONVOLUTION, ATTENTION = "lightweight_conv", "self_attention"
SAME, TRANSFORMER = (
    "inference, one text vs the same model elsewhere",
    "inference, one text vs the Transformer",
)
BATCHES, IN_USE = "inference, mixed batches vs the fastest peer", "inference, texts vs all-MiniLM-L6"
VS_PYTORCH, BFLOAT16 = (
    "inference, SavedModel vs the same model in PyTorch",
    "inference, SavedModel bfloat16 vs float32",
)


def rows(cells, size):
    """Yields the `Row`s of one size of model.

    Args:
        cells: list of dicts, see `benchmarks.inferring.measuring.Measurement`.
        size: str.
    """
    for threads in dict.fromkeys(cell["threads"] for cell in cells):
        for ask in dict.fromkeys(cell["ask"] for cell in cells):
            found = [cell for cell in cells if (cell["threads"], cell["ask"]) == (threads, ask)]
            yield from _of_ask(found, {"size": size, "threads": threads, "ask": ask})


def _of_ask(cells, setting):
    def those(test):
        return [cell for cell in cells if test(cell, VARIANTS[cell["variant"]])]

    ask = setting["ask"]
    ours = those(lambda cell, variant: variant.ours and cell["mixer"] == CONVOLUTION)
    peers = {
        mixer: those(lambda cell, variant, mixer=mixer: not variant.ours and cell["mixer"] == mixer)
        for mixer in (CONVOLUTION, ATTENTION)
    }
    saved = {cell["variant"]: cell for cell in ours if VARIANTS[cell["variant"]].runner == "SavedModel"}
    if ask.startswith("n = "):
        yield from _row(SAME, setting, ours, peers[CONVOLUTION])
        yield from _row(TRANSFORMER, setting, ours, peers[ATTENTION])
        pytorch = [cell for cell in peers[CONVOLUTION] if VARIANTS[cell["variant"]].runner == "PyTorch"]
        yield from _row(VS_PYTORCH, setting, list(saved.values()), pytorch)
    if ask in (asks.MIXED, asks.IN_BATCHES):
        yield from _row(BATCHES, setting, ours, peers[CONVOLUTION] + peers[ATTENTION], is_rate=True)
    if ask in (asks.ONE_BY_ONE, asks.IN_BATCHES):
        yield from _row(IN_USE, setting, ours, those(lambda cell, variant: variant.key == MINILM), True)
    bfloat16, float32 = (
        [saved[key] for key in (f"saved_model-{dtype}",) if key in saved] for dtype in ("bfloat16", "float32")
    )
    yield from _row(BFLOAT16, setting, bfloat16, float32)


def _row(name, setting, ours, peers, is_rate=False):
    if ours and peers:
        best, peer = (min(cells, key=lambda cell: cell["milliseconds"]) for cells in (ours, peers))
        key, unit, better = (
            ("texts_per_second_per_core", "texts/s per core", "higher")
            if is_rate
            else ("milliseconds", "ms", "lower")
        )
        forms = {
            "ours": VARIANTS[best["variant"]].title,
            "peer": " ".join(filter(None, (VARIANTS[peer["variant"]].title, peer["mixer"]))),
        }
        yield Row(name, setting, best[key], peer[key], unit, better, goal(name, setting), forms)
