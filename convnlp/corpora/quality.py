"""Rules for recognising documents that nobody wrote to be read.

| rule | removes a document |
| --- | --- |
| `num_words` | with fewer than 50 words, or more than 100,000 |
| `word_length` | whose words have fewer than 3 or more than 10 characters on average |
| `symbols` | with more than one "#", or more than one ellipsis, per 10 words |
| `bullets` | if more than 90 % of its lines begin with a bullet |
| `ellipses` | if more than 30 % of its lines end with an ellipsis |
| `letters` | if less than 80 % of its words have a letter |
| `stop_words` | with fewer than two of the, be, to, of, and, that, have, with: only for English |
| `repeated_lines` | if over 30 % of its lines, or over 20 % of its characters, repeat earlier ones |
| `repeated_paragraphs` | likewise for paragraphs |
| `top_ngram` | whose most frequent run of 2, 3 or 4 words has more than 20, 18 or 16 % of its characters |
| `repeated_ngrams` | if over 15, 14, ... 10 % of it is repeated runs of 5, 6, ... 10 words |
| `placeholder` | with "lorem ipsum" |

Source: Rae et al., 2021, "Scaling Language Models" (Gopher), appendix A.1.1 and table A1,
https://arxiv.org/abs/2112.11446; `placeholder` is from C4: Raffel et al., 2020, section 2.2,
https://arxiv.org/abs/1910.10683. Departs from them: words are separated by white space, also in the rules
that count characters, whose total is that of all words; C4's rules that remove lines from a page are not
included.
"""

import collections
import re
from typing import NamedTuple

MIN_WORDS, MAX_WORDS = 50, 100_000
STOP_WORDS = frozenset(("the", "be", "to", "of", "and", "that", "have", "with"))
_BULLETS = ("-", "*", "\u2022", "\u2023", "\u25e6", "\u25aa", "\u25cf")
_ELLIPSES = ("...", "\u2026")
_TOP_NGRAMS = {2: 0.20, 3: 0.18, 4: 0.16}
_REPEATED_NGRAMS = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}


class Document(NamedTuple):
    """A text, cut in the ways that the rules need; see `cut`."""

    text: str
    words: list
    lines: list
    paragraphs: list


def cut(text):
    """Returns the `Document` of a text, a string."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    return Document(text, text.split(), lines, paragraphs)


def num_words(document, least=MIN_WORDS):
    """Returns whether the document is too short or too long."""
    return not least <= len(document.words) <= MAX_WORDS


def word_length(document):
    """Returns whether the document's words are too short or too long."""
    return not 3 <= _characters(document.words) / max(len(document.words), 1) <= 10


def symbols(document):
    """Returns whether the document has too many hash signs, or too many ellipses."""
    most = 0.1 * len(document.words)
    ellipses = sum(map(document.text.count, _ELLIPSES))
    return document.text.count("#") > most or ellipses > most


def bullets(document):
    """Returns whether the document is a list."""
    return _share(line.startswith(_BULLETS) for line in document.lines) > 0.9


def ellipses(document):
    """Returns whether the document consists of beginnings of texts."""
    return _share(line.endswith(_ELLIPSES) for line in document.lines) > 0.3


def letters(document):
    """Returns whether the document consists of numbers and symbols."""
    return _share(any(map(str.isalpha, word)) for word in document.words) < 0.8


def stop_words(document):
    """Returns whether the document lacks the words that hold English sentences together."""
    return len(STOP_WORDS & {word.strip(".,;:!?\"'()").casefold() for word in document.words}) < 2


def repeated_lines(document):
    """Returns whether too many lines repeat earlier ones."""
    return _repeats(document.lines)


def repeated_paragraphs(document):
    """Returns whether too many paragraphs repeat earlier ones."""
    return _repeats(document.paragraphs)


def top_ngram(document):
    """Returns whether a run of a few words occurs again and again."""
    total = _characters(document.words)
    for size, most in _TOP_NGRAMS.items():
        counts = collections.Counter(_ngrams(document.words, size))
        if counts:
            ngram, count = max(counts.items(), key=lambda item: (item[1], _characters(item[0]), item[0]))
            if count > 1 and count * _characters(ngram) > most * total:
                return True
    return False


def repeated_ngrams(document):
    """Returns whether too much of the document is repeated runs of words; each word counts once."""
    total = _characters(document.words)
    for size, most in _REPEATED_NGRAMS.items():
        seen, repeated, place = set(), 0, 0
        runs = _ngrams(document.words, size)
        while place < len(runs):
            if runs[place] in seen:
                repeated += _characters(runs[place])
                place += size
            else:
                seen.add(runs[place])
                place += 1
        if repeated > most * total:
            return True
    return False


def placeholder(document):
    """Returns whether the document is a page with placeholder text."""
    return "lorem ipsum" in document.text.casefold()


RULES = {
    rule.__name__: rule
    for rule in (
        num_words,
        word_length,
        symbols,
        bullets,
        ellipses,
        letters,
        stop_words,
        repeated_lines,
        repeated_paragraphs,
        top_ngram,
        repeated_ngrams,
        placeholder,
    )
}


def broken(text, names=tuple(RULES), min_words=MIN_WORDS):
    """Returns the name of the first rule that removes a text, or None.

    Args:
        text: string.
        names: sequence of strings, the rules in `RULES` to apply. Defaults to all.
        min_words: int, minimum for `num_words`. Defaults to 50.

    Example:
    >>> broken("A short text."), broken("A short text of the river and the hill.", min_words=2)
    ('num_words', None)
    """
    document = cut(text)
    for name in names:
        if num_words(document, min_words) if name == "num_words" else RULES[name](document):
            return name
    return None


def _ngrams(words, size):
    return list(zip(*(words[place:] for place in range(size)), strict=False))


def _characters(parts):
    return sum(map(len, parts))


def _share(values):
    values = list(values)
    return sum(values) / max(len(values), 1)


def _repeats(parts):
    """Returns whether too many parts repeat earlier ones, by their number or by their characters."""
    seen, repeated = set(), []
    for part in parts:
        if part in seen:
            repeated.append(part)
        seen.add(part)
    return len(repeated) > 0.3 * len(parts) or _characters(repeated) > 0.2 * _characters(parts)
