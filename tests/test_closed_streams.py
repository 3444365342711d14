"""What the programs do whose standard input or output is closed from the start, as by `<&-` in a shell."""

import sys

import pytest

from convnlp import outputs, standard_input


def test_a_closed_input_has_no_lines(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert list(standard_input.lines()) == []
    assert not standard_input.is_terminal()


def test_a_closed_output_needs_a_file(monkeypatch):
    outputs.check_standard_output("output")
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(ValueError, match=r"^`output` must be given, since .* closed\. Received: none$"):
        outputs.check_standard_output("output")
