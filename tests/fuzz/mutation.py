"""Damaged seeds for hypothesis: a few edits of something that a reader can read."""

from hypothesis import strategies as st

# What parsers take for lengths, signs, ends and quotes.
_PIECES = (
    b"\0",
    b"\xff" * 4,
    b"\x80\x80\x80\x80\x01",
    b"\xff\xff\xff\xff\x7f",
    b"-1",
    b"9" * 30,
    b"1e400",
    b"NaN",
    b'"',
    b"\\ud800",
    b"null",
    b"[[[[",
    b"{}",
    b"\n",
    b"\xed\xa0\x80",
)


@st.composite
def damaged(draw, seeds):
    """One of the seeds with up to four pieces of it flipped, cut out, doubled, or written over.

    Args:
        seeds: list of bytes.
    """
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        kind = draw(st.sampled_from(("flip", "piece", "cut", "double", "truncate")))
        if kind == "flip" and start < len(data):
            data[start] ^= 1 << draw(st.integers(0, 7))
        elif kind == "piece":
            data[start:end] = draw(st.sampled_from(_PIECES))
        elif kind == "cut":
            del data[start:end]
        elif kind == "double":
            data[start:start] = data[start:end] * draw(st.integers(1, 9))
        elif kind == "truncate":
            del data[start + 1 :]
    return bytes(data)
