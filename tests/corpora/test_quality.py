"""The rules of quality: sound text keeps all of them, and each defect is found by its rule."""

import pytest

from convnlp.corpora import quality
from tests.corpora.prose import prose

SOUND = prose(0)
WORDS = SOUND.split()
NUMBERS = " ".join(str(1000 + 7 * number) for number in range(21))


@pytest.mark.parametrize("seed", range(20))
def test_sound_text_stays(seed):
    assert quality.broken(prose(seed)) is None


def lines(count, line):
    return "\n".join(line(number) for number in range(count))


# rule: (a text that it removes, one just on this side of it)
DEFECTS = {
    "num_words": (" ".join(WORDS[:49]), " ".join(WORDS[:50])),
    "word_length": (SOUND.replace("a", "aaaaaaaaaaaaaaaaa"), SOUND),
    "symbols": (SOUND + " #" * 9, SOUND + " #" * 8),
    "bullets": (
        lines(11, lambda n: f"- {prose(n, 10)}"),
        lines(10, lambda n: ("- " if n else "") + prose(n, 10)),
    ),
    "ellipses": (
        lines(10, lambda n: prose(n, 10) + ("..." if n < 4 else "")),
        lines(10, lambda n: prose(n, 10) + ("..." if n < 3 else "")),
    ),
    "letters": (f"{SOUND} {NUMBERS}", f"{SOUND} {NUMBERS[5:]}"),
    "stop_words": (" ".join(w for w in WORDS if w.strip(".") not in quality.STOP_WORDS) + " the", SOUND),
    "repeated_lines": (
        lines(10, lambda n: prose(max(n - 4, 0), 10)),
        lines(12, lambda n: prose(max(n - 2, 0), 10)),
    ),
    "repeated_paragraphs": (
        "\n\n".join(prose(max(n - 2, 0), 20).replace("\n", f" line{n} ") for n in range(6))
        .replace(" line1 ", " line0 ")
        .replace(" line2 ", " line0 "),
        "\n\n".join(prose(n, 20) for n in range(6)),
    ),
    "top_ngram": (
        " ".join(f"{word} and more of" if place % 2 else word for place, word in enumerate(WORDS)),
        " ".join(f"{word} and more of" if place % 9 == 1 else word for place, word in enumerate(WORDS)),
    ),
    "repeated_ngrams": (SOUND + "\n" + " ".join(WORDS[20:45]), SOUND + "\n" + " ".join(WORDS[20:28])),
    "placeholder": (SOUND + "\nLorem ipsum dolor", SOUND),
}


def test_every_rule_has_a_defect():
    assert {*DEFECTS} == {*quality.RULES}
    assert all(f"| `{name}` |" in quality.__doc__ for name in quality.RULES)


@pytest.mark.parametrize("rule", DEFECTS)
def test_a_defect_is_found_by_its_rule(rule):
    bad, good = DEFECTS[rule]
    assert quality.broken(bad, [rule]) == rule
    assert quality.broken(good, [rule]) is None
    others = [name for name in quality.RULES if name != rule]
    if rule not in (
        "repeated_lines",
        "repeated_paragraphs",
        "top_ngram",
    ):  # what repeats has runs of words that do
        assert quality.broken(bad, others) is None


def test_rules_may_be_left_out_and_lengths_set():
    assert quality.broken("the end of it", rules := ["num_words", "stop_words"]) == "num_words"
    assert quality.broken("the end of it", rules, min_words=4) is None
    assert quality.broken("the end of it", []) is None


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        ("word_length", "it is of no use", "the end was near"),
        ("symbols", SOUND + " ..." * 9, SOUND + " ..." * 8),
        # By the number of lines alone, and by their characters alone.
        ("repeated_lines", lines(10, lambda n: "ab" if n < 5 else prose(n, 10)), "ab"),
        ("repeated_lines", lines(10, lambda n: prose(0, 40) if n < 2 else prose(n, 3)), prose(0, 40)),
        ("top_ngram", "the river and the river", "the river and the hill"),  # once is no repetition
    ],
)
def test_each_way_to_break_a_rule(rule, bad, good):
    assert quality.broken(bad, [rule]) == rule
    assert quality.broken(good, [rule]) is None


def test_texts_without_any_word():
    for text in ("", "\n\n", "#", "\u2026"):
        assert quality.broken(text) == "num_words"
        assert quality.broken(text, min_words=0) in quality.RULES
    assert quality.broken("the of " * 60_000) == "num_words"


def repeated_share(words, size):
    """The share of runs of words that stand there before, each word once, as a loop over places."""
    covered, seen, place = [False] * len(words), set(), 0
    while place + size <= len(words):
        run = " ".join(words[place : place + size])
        if run in seen:
            covered[place : place + size] = [True] * size
            place += size
        else:
            seen.add(run)
            place += 1
    return sum(len(word) for word, is_covered in zip(words, covered, strict=True) if is_covered) / sum(
        map(len, words)
    )


def test_repeated_runs_are_those_of_a_plain_loop():
    for repeated in range(5, 40, 3):
        text = SOUND + "\n" + " ".join(WORDS[10 : 10 + repeated])
        most = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
        expected = any(repeated_share(text.split(), size) > share for size, share in most.items())
        assert quality.repeated_ngrams(quality.cut(text)) == expected, repeated


def with_runs(num_words, size, times):
    """Returns a text of different words of four letters, in which a run of words occurs several times."""
    words = [f"w{number:03}" for number in range(num_words)]
    for place in range(times):
        words[place * (size + 1) : place * (size + 1) + size] = [f"r{number:03}" for number in range(size)]
    return " ".join(words)


@pytest.mark.parametrize(("size", "times", "most_words"), [(2, 10, 99), (3, 6, 99), (4, 4, 99)])
def test_the_limit_of_each_frequent_run(size, times, most_words):
    """In 100 words, these runs have just the share that is allowed: 20, 18 and 16 %."""
    assert quality.broken(with_runs(most_words, size, times), ["top_ngram"]) == "top_ngram"
    assert quality.broken(with_runs(most_words + 1, size, times), ["top_ngram"]) is None


@pytest.mark.parametrize(
    ("size", "most_words"), [(5, 33), (6, 42), (7, 53), (8, 66), (9, 81), (10, 99)]
)  # size / most_words is just above 15, 14, ... 10 %
def test_the_limit_of_each_repeated_run(size, most_words):
    assert quality.broken(with_runs(most_words, size, 2), ["repeated_ngrams"]) == "repeated_ngrams"
    assert quality.broken(with_runs(most_words + 1, size, 2), ["repeated_ngrams"]) is None
