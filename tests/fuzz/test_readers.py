"""Each reader on damaged seeds: always the same ones, about a minute of them; `make fuzz` looks for more.

What it has found stands below, each as the bytes that showed it.
"""

import collections
import resource

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutation import damaged
from tests.fuzz.reader import documented
from tests.fuzz.table import READERS

# How many, and what must have come of them at least once: damage that no reader gets past shows nothing.
EXAMPLES = {
    "tokenizer_model": (600, {"read", "refused"}),
    "preset_files": (240, {"read", "refused"}),
    "saved_model_graph": (600, {"read", "refused"}),
    "records": (1200, {"read", "refused"}),
    "rest_request": (1200, {"200", "400"}),
    "http_bytes": (800, {"200", "400", "nothing"}),
    "grpc_message": (1200, {"OK", "INVALID_ARGUMENT", "NOT_FOUND"}),
}
MOST_KILOBYTES = 2**20  # of memory, for seeds of at most 100 kB


@pytest.fixture(scope="module")
def reader_of(tmp_path_factory):
    """A function of a name, whose reader is made once."""
    made = {}

    def reader_of(name):
        if name not in made:
            made[name] = READERS[name](tmp_path_factory.mktemp(name))
        return made[name]

    return reader_of


def test_every_reader_is_tested():
    assert EXAMPLES.keys() == READERS.keys()


@pytest.mark.parametrize("name", READERS)
def test_the_seeds_are_read(reader_of, name):
    reader = reader_of(name)
    assert reader.seeds
    assert {reader.read(seed) for seed in reader.seeds} <= {"read", "200", "OK"}


def fuzz(reader, count):
    """What came of `count` damaged seeds, outcome -> how often."""
    outcomes = collections.Counter()

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(damaged(reader.seeds) | st.binary(max_size=64))
    def read(data):
        outcomes[reader.read(data)] += 1

    read()
    return outcomes


@pytest.mark.parametrize("name", READERS)
def test_damaged_bytes_are_refused_or_read(reader_of, name):
    count, expected = EXAMPLES[name]
    reader = reader_of(name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes = fuzz(reader, count)
    assert outcomes.keys() >= expected, outcomes
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KILOBYTES


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_many_more_damaged_bytes(reader_of, name):
    fuzz(reader_of(name), 5 * EXAMPLES[name][0])


# What fuzzing has found, each mended: the reader, the bytes, and what must come of them.
FOUND = [
    # A name that is not UTF-8 was looked up in a map of protobuf's, which raises: status 500.
    ("rest_request", b'\0{"instances": [{"\xed\xa0\xbd": 1}]}', "400"),
]


@pytest.mark.parametrize(("name", "data", "expected"), FOUND, ids=range(len(FOUND)))
def test_what_fuzzing_has_found(reader_of, name, data, expected):
    assert reader_of(name).read(data) == expected


def test_a_defect_is_seen(reader_of, monkeypatch):
    def defect(*args, **kwargs):
        raise KeyError("x")

    monkeypatch.setattr("convnlp.serving.rest.predict.signature_name", defect)
    for name in ("rest_request", "http_bytes"):
        with pytest.raises(AssertionError, match="500"):
            reader_of(name).read(reader_of(name).seeds[0])
    monkeypatch.setattr("convnlp.serving.core.messages.predict", defect)
    with pytest.raises(AssertionError, match="INTERNAL"):
        reader_of("grpc_message").read(reader_of("grpc_message").seeds[0])
    monkeypatch.setattr("convnlp.data.records.parse_json", defect)
    with pytest.raises(KeyError):
        reader_of("records").read(reader_of("records").seeds[0])


@pytest.mark.parametrize("message", ["two\nlines", "x" * 5000, ""])
def test_an_error_that_is_not_one_short_line_is_a_defect(message):
    with pytest.raises(AssertionError, match="not one short line"), documented(ValueError):
        raise ValueError(message)
    with pytest.raises(KeyError), documented(ValueError):
        raise KeyError("another class")
