"""Texts of made-up words that keep all rules of quality: no two have a run of five words in common."""

import random

_SYLLABLES = [
    "ba",
    "den",
    "ti",
    "mor",
    "sal",
    "ke",
    "lun",
    "pri",
    "go",
    "ver",
    "ha",
    "ston",
    "mi",
    "fel",
    "ra",
]


def prose(seed, num_words=80):
    """A text of so many words, in lines of ten, with English words that hold it together."""
    rng = random.Random(seed)
    words = ["".join(rng.choices(_SYLLABLES, k=rng.choice((2, 2, 3)))) for _ in range(num_words)]
    words[::7] = [("the", "of", "and", "to", "that")[place % 5] for place in range(len(words[::7]))]
    return "\n".join(" ".join(words[start : start + 10]) + "." for start in range(0, num_words, 10))


def changed(text, count, seed=0):
    """The text with `count` of its words replaced, far from each other."""
    words = text.split(" ")
    places = random.Random(seed).sample(range(len(words)), count)
    for place in places:
        words[place] = f"altered{place}"
    return " ".join(words)
