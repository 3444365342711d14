"""The labelled sets that the shipped preset is scored on, and what they are read as."""

import dataclasses

from convnlp.data import Label, Source, sources


@dataclasses.dataclass(frozen=True)
class TextSet:
    """A set of DATA/classification, a file each for training, validation (where there is one) and test.

    Attributes:
        name: str, of its files.
        title: str.
        classes: int.
        split: str, what of the training file is used.
        has_validation: bool; without, `finetune` holds a tenth of the training texts out.
    """

    name: str
    title: str
    classes: int
    split: str = "train"
    has_validation: bool = True

    def file(self, data_dir, part):
        """The source string of "train", "valid" or "test"."""
        return f"jsonl:{data_dir}/classification/{self.name}.{part}.jsonl.gz"

    def read(self, data_dir, part):
        """(texts, classes), lists, of "train" or "test"."""
        split = self.split if part == "train" else "train"
        source = Source(self.file(data_dir, part), split)
        rows = sources.read(source, label=Label("label", self.classes)).as_numpy_iterator()
        texts, labels = zip(*((row["text"].decode(), int(row["label"])) for row in rows), strict=True)
        return list(texts), list(labels)


SETS = {
    found.name: found
    for found in (
        TextSet("sst2", "SST-2, sentences", 2),
        TextSet("trec6", "TREC-6", 6, has_validation=False),
        TextSet("ag_news", "AG News, 22,000 texts", 4),
        TextSet("sentiment140", "Sentiment140", 2),
        TextSet("jigsaw_toxicity", "Jigsaw toxicity", 2),
        TextSet("sst5", "SST-5", 5),
        TextSet("imdb", "IMDb", 2, has_validation=False),
    )
}
