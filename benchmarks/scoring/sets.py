"""The labelled sets on which the shipped preset is scored, and how they are read."""

import dataclasses
import pathlib

from benchmarks.shared_flags import check_among
from convnlp.data import Label, Source, sources


@dataclasses.dataclass(frozen=True)
class TextSet:
    """Texts of DATA/classification to train on, and the test texts by which they are scored.

    Attributes:
        name: str, of its row.
        title: str.
        classes: int.
        file: str; FILE.test.jsonl.gz is read. Defaults to the name.
        train_file: str; TRAIN_FILE.train.jsonl.gz is read. Defaults to `file`.
        split: str, the part of the training file that is used.
        has_validation: bool, whether FILE.valid.jsonl.gz is used; otherwise `finetune` holds out a tenth of
            the training texts.
        after: str, a set whose fine-tuned model, of seed 0, is the start instead of the preset; "" for
            none.
    """

    name: str
    title: str
    classes: int
    file: str = ""
    train_file: str = ""
    split: str = "train"
    has_validation: bool = True
    after: str = ""

    def source(self, data_dir, part):
        """Returns the source string of "train", "valid" or "test"."""
        file = self.file or self.name
        if part == "train":
            file = self.train_file or file
        return f"jsonl:{data_dir}/classification/{file}.{part}.jsonl.gz"

    @property
    def is_part(self):
        """Whether the training file has more texts than are used."""
        return self.split != "train"

    @property
    def parts(self):
        """The files that are read."""
        return ("train", "valid", "test") if self.has_validation else ("train", "test")

    @property
    def held_out(self):
        """((part, split) to train on, (part, split) to judge by) where the test texts may not be read."""
        if self.has_validation:
            return ("train", "train"), ("valid", "train")
        return ("train", "train[:90%]"), ("train", "train[90%:]")

    def read(self, data_dir, part):
        """Returns (texts, classes) of "train" or "test", two lists."""
        split = self.split if part == "train" else "train"
        source = Source(self.source(data_dir, part), split)
        rows = sources.read(source, label=Label("label", self.classes)).as_numpy_iterator()
        texts, labels = zip(*((row["text"].decode(), int(row["label"])) for row in rows), strict=True)
        return list(texts), list(labels)


_FEW = {"split": "train[:1000]", "has_validation": False}

SETS = {
    found.name: found
    for found in (
        TextSet("sst2", "SST-2, sentences", 2),
        TextSet("sst2_phrases", "SST-2, with phrases", 2, file="sst2", train_file="sst2_phrases"),
        TextSet("sst2_after_imdb", "SST-2, sentences, after IMDb", 2, file="sst2", after="imdb"),
        TextSet("trec6", "TREC-6", 6, has_validation=False),
        TextSet("ag_news", "AG News, 22,000 texts", 4),
        TextSet("imdb", "IMDb", 2, has_validation=False),
        TextSet("sentiment140", "Sentiment140", 2),
        TextSet("jigsaw_toxicity", "Jigsaw toxicity", 2),
        TextSet("sst5", "SST-5", 5),
        TextSet("ag_news_1000", "AG News, 1,000 texts", 4, file="ag_news", **_FEW),
        TextSet("imdb_1000", "IMDb, 1,000 texts", 2, file="imdb", **_FEW),
        TextSet("sst5_1000", "SST-5, 1,000 texts", 5, file="sst5", **_FEW),
    )
}

_NO_VALIDATION = {"has_validation": False}

# Of `benchmarks.scoring.other_sets`: no score on them ever decided anything.
OTHER_SETS = {
    found.name: found
    for found in (
        TextSet("rt_polarity", "film reviews, sentences (MR)", 2, **_NO_VALIDATION),
        TextSet("custrev", "product reviews, sentences (CR)", 2, **_NO_VALIDATION),
        TextSet("mpqa", "polarity of phrases (MPQA)", 2, **_NO_VALIDATION),
        TextSet("subj", "subjectivity (SUBJ)", 2, **_NO_VALIDATION),
        TextSet("clinc150", "150 intents (CLINC150)", 150),
        TextSet("tweet_emotion", "tweets, emotion", 4),
        TextSet("tweet_hate", "tweets, hate", 2),
        TextSet("tweet_irony", "tweets, irony", 2),
        TextSet("tweet_offensive", "tweets, offensive", 2),
        TextSet("hate_speech", "tweets, hateful or offensive", 3, **_NO_VALIDATION),
        TextSet("r8", "Reuters news (R8)", 8, **_NO_VALIDATION),
        TextSet("newsgroups", "20 Newsgroups, bodies", 20, **_NO_VALIDATION),
        TextSet("sms_spam", "spam in short messages", 2, **_NO_VALIDATION),
    )
}
ALL_SETS = SETS | OTHER_SETS


def check(names, data_dir):
    """Checks, before anything is computed, that sets are known and that their files exist.

    Args:
        names: list of str, the value of `--sets`.
        data_dir: path.

    Raises:
        ValueError: if a set is not known, or one of its files is missing.
    """
    check_among("sets", names, ALL_SETS)
    for name in names:
        for text_set in (ALL_SETS[name], *([ALL_SETS[ALL_SETS[name].after]] if ALL_SETS[name].after else [])):
            for part in text_set.parts:
                path = pathlib.Path(text_set.source(data_dir, part).partition(":")[2])
                if not path.exists():
                    raise ValueError(
                        f"`--data_dir` must hold classification/{path.name}. Received: {data_dir}"
                    )
