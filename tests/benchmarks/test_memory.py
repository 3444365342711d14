import pytest

from benchmarks import memory


def fill(num_bytes):
    return len(bytearray(b"x") * num_bytes)


@pytest.mark.multiprocess
def test_peak_memory_is_that_of_the_childs_work():
    size = 300 * 2**20
    ballast = bytearray(b"x") * (2 * size)  # Memory of the parent must not count.
    peak, value = memory.peak_memory(fill, size)
    assert value == size
    # The child may use pages that its imports have freed, and needs some for itself.
    assert 0.95 * size < peak.peak - peak.start < 1.2 * size
    assert len(ballast) == 2 * size
