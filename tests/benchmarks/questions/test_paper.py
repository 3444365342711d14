"""The program; its parts are tested beside this file."""

import argparse

import pytest

from benchmarks import paper


def checked(**given):
    defaults = {"questions": ["rq1"], "tokens": ["10e6"], "seeds": ["1", "2"]}
    return paper.checked(argparse.Namespace(**{**defaults, **given}))


def test_flags_are_read():
    assert checked() == ((10e6,), (1, 2), ("rq1",))
    assert checked(tokens=["10e6", "3e7"])[0] == (10e6, 30e6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"questions": ["rq9"]}, r"`--questions` must be of rq1, .*Received: 'rq9'"),
        ({"tokens": ["many"]}, r"`--tokens` must be numbers of 1 or more. Received: 'many'"),
        ({"tokens": []}, r"`--tokens` must be numbers of 1 or more. Received: ''"),
        ({"seeds": ["0"]}, r"`--seeds` must be numbers of 1 or more. Received: '0'"),
        ({"seeds": ["1", "1"]}, r"`--seeds` must differ. Received: '1,1'"),
    ],
)
def test_bad_flags_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        checked(**given)


def test_it_ships_with_its_tokenizer():
    path = paper.table.TOKENIZER.replace("{presets_dir}", str(paper.PRESETS))
    assert paper.pathlib.Path(path).is_file()
