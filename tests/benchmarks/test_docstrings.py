import doctest

import pytest

from benchmarks import goals, timing


@pytest.mark.parametrize("module", [goals, timing], ids=lambda module: module.__name__)
def test_examples(module):
    results = doctest.testmod(module)
    assert results.attempted
    assert not results.failed
