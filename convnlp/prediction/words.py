"""Turns the pieces of an explanation into words with their importances."""

_UNKNOWN = " \u2047 "  # what SentencePiece writes for a piece that it does not know


def of_texts(tokens, importances, num_texts):
    """Returns the words of each text that a row holds, a list of what `of_pieces` returns.

    Args:
        tokens: as for `of_pieces`; the end of each text is a "".
        importances: list of float, one per token.
        num_texts: int. 2 if the row is a pair.

    Example:
    >>> of_texts([" a", " cat", "", " a", " dog", "", ""], [0.0, 0.5, 0.0, 0.0, 0.25, 0.0, 0.0], 2)
    [[['a', 0.0], ['cat', 0.5]], [['a', 0.0], ['dog', 0.25]]]
    """
    found, start = [], 0
    for _ in range(num_texts):
        end = tokens.index("", start)
        found.append(of_pieces(tokens[start:end], importances[start:end]))
        start = end + 1
    return found


def of_pieces(tokens, importances):
    """Joins pieces to words; the importance of a word is the sum over its pieces.

    A piece that the vocabulary does not know belongs to the word around it.

    Args:
        tokens: list of str, as the signature "explain" returns them: a space begins a word, "" is padding,
            and " \u2047 " is an unknown piece.
        importances: list of float, one per token.

    Returns:
        list of [word, importance], in the order of the text.

    Example:
    >>> of_pieces([" un", "kind", " day", ""], [0.5, 0.25, -0.1, 0.0])
    [['unkind', 0.75], ['day', -0.1]]
    """
    words = []
    for token, importance in zip(tokens, importances, strict=True):
        if not token:
            continue
        token = token.strip() if token == _UNKNOWN else token
        if token.startswith(" ") or not words:
            words.append(["", 0.0])
        words[-1][0] += token.removeprefix(" ")
        words[-1][1] += importance
    return [[word, float(f"{importance:.4g}")] for word, importance in words if word]
