"""The flags that say which texts a program reads."""

import re
from pathlib import Path

import pytest
from absl import flags

from convnlp import source_flags

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def defined():
    """The flags of this process by name; those of a test are removed."""
    before = {*flags.FLAGS}
    yield flags.FLAGS
    for name in {*flags.FLAGS} - before:
        delattr(flags.FLAGS, name)


@pytest.mark.parametrize("given", ["test_text_field", "test_text_fields"])
def test_fields_are_given_in_the_singular_or_the_plural(defined, given):
    source_flags.define_text_field("test_text_field")
    defined[given].parse("review")
    assert defined["test_text_field"].value == "review"
    del defined.test_text_field, defined.test_text_fields
    source_flags.define_text_fields("test_text_fields")
    defined[given].parse("first,second")
    assert defined["test_text_fields"].value == ["first", "second"]


def test_they_are_flags_of_the_program_that_defines_them(defined):
    source_flags.define_source("test_source")
    assert "test_source" in {flag.name for flag in defined.get_key_flags_for_module(__name__)}


def test_no_program_defines_its_own():
    own = re.compile(r'DEFINE_\w+\(\s*"(source|split|text_fields?)"')
    paths = [path for folder in ("convnlp", "export") for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 100
    assert [path.name for path in paths if own.search(path.read_text(encoding="utf-8"))] == []
