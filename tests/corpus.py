"""A small deterministic corpus and a tokenizer trained on it, for tests of every area.

proto = tests.corpus.tiny_proto()          # bytes of a SentencePiece model of 100 pieces
texts = tests.corpus.documents(100)        # a few sentences each
rows = tests.corpus.reviews(100)           # [{"text": ..., "label": 0 or 1}, ...]
tests.corpus.write_jsonl(path, rows)       # plain, or gzip where the name ends in .gz
"""

import functools
import gzip
import io
import json
import random

NOUNS = [
    "river",
    "mountain",
    "teacher",
    "garden",
    "engine",
    "letter",
    "music",
    "window",
    "market",
    "captain",
    "forest",
    "kitchen",
    "village",
    "story",
    "bridge",
]
VERBS = [
    "follows",
    "remembers",
    "builds",
    "paints",
    "carries",
    "watches",
    "finds",
    "opens",
    "describes",
    "crosses",
    "repairs",
    "admires",
]
ADJECTIVES = [
    "old",
    "quiet",
    "green",
    "narrow",
    "heavy",
    "famous",
    "simple",
    "broken",
    "distant",
    "early",
    "wooden",
    "empty",
]
PLACES = [
    "in the valley",
    "near the harbour",
    "behind the school",
    "at the station",
    "under the bridge",
    "on the hill",
]
PRAISE = ["wonderful", "brilliant", "moving", "charming", "superb", "delightful"]
BLAME = ["dreadful", "boring", "clumsy", "tedious", "awful", "pointless"]

TINY_PIECES = 100  # in the SentencePiece model of tiny_proto(); 100 sentinels come on top


def _sentence(rng):
    words = ["the", rng.choice(ADJECTIVES), rng.choice(NOUNS), rng.choice(VERBS), "the", rng.choice(NOUNS)]
    if rng.random() < 0.5:
        words.append(rng.choice(PLACES))
    return " ".join(words).capitalize() + "."


def documents(count, seed=0):
    """`count` documents of one to six sentences."""
    rng = random.Random(seed)
    return [" ".join(_sentence(rng) for _ in range(rng.randint(1, 6))) for _ in range(count)]


def reviews(count, seed=0):
    """`count` rows of {"text", "label"}: label 1 praises, label 0 blames; balanced."""
    rng = random.Random(seed)
    rows = []
    for i in range(count):
        label = i % 2
        opinion = f"A {rng.choice(PRAISE if label else BLAME)} film about the {rng.choice(NOUNS)}."
        rows.append({"text": f"{opinion} {_sentence(rng)}", "label": label})
    return rows


def write_jsonl(path, rows):
    """Writes rows as JSON-lines (gzip where `path` ends in .gz) and returns `path` as a string."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    data = text.encode("utf-8")
    with open(path, "wb") as file:
        file.write(gzip.compress(data, mtime=0) if str(path).endswith(".gz") else data)
    return str(path)


@functools.cache
def tiny_proto():
    """Bytes of a SentencePiece unigram model in the project's layout: pad 0, eos 1, unk 2, no bos."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(documents(400) + [row["text"] for row in reviews(200)]),
        model_writer=model,
        model_type="unigram",
        vocab_size=TINY_PIECES,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()
