"""Pieces of an explanation as words."""

from convnlp.prediction import words


def test_an_unknown_piece_belongs_to_its_word():
    tokens = [" caf", " \u2047 ", "s", " ", " \u2047 ", " day", ""]
    assert words.of_pieces(tokens, [0.5, 0.25, 0.125, 1.0, 2.0, -1.0, 0.0]) == [
        ["caf\u2047s", 0.875],
        ["\u2047", 3.0],
        ["day", -1.0],
    ]
