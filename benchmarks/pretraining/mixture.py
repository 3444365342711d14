r"""Writes the mixture of texts that the shipped presets are pre-trained on.

    python -m benchmarks.pretraining.mixture --data_dir=DATA/pretrain --output_dir=DIR

DATA/pretrain holds SET.train.jsonl.gz and SET.valid.jsonl.gz, one {"text"} per line. The weight of a set in
`WEIGHTS` says how often its documents are used: 1.5 is all of them once, and half of them once more. The
documents are shuffled and written to DIR/mixture-NN.train.jsonl.gz and DIR/mixture.valid.jsonl.gz. The same
files and flags give the same bytes. Validation documents are used once, up to `VALIDATION_BYTES` per set.
"""

import gzip
import json
import pathlib

import numpy as np
from absl import flags, logging

from convnlp import programs

# Only sets whose licence allows us to ship weights; the names are those of the files. Classifiers mostly
# read web pages, news and informal text. The sets have little of it, so sets that contain it weigh more.
WEIGHTS = {
    "c4": 4.0,
    "wikipedia": 1.5,
    "weblog": 1.5,
    "chat": 1.5,
    "press": 0.6,
    "spoken": 0.5,
    "stories": 1.0,
    "classics": 0.5,
    "books": 0.5,
    "speeches": 0.4,
    "docs": 0.6,
}
NUM_SHARDS = 8
VALIDATION_BYTES = 200_000


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("data_dir", None, "Directory of SET.{train,valid}.jsonl.gz.", required=True)
    flags.DEFINE_string("output_dir", None, "Directory to write to.", required=True)
    flags.DEFINE_integer("seed", 0, "Seed of the shuffle and of the documents that a fraction selects.")


def main(argv):
    """Flags -> files."""
    del argv
    args = flags.FLAGS
    data, output = pathlib.Path(args.data_dir), pathlib.Path(args.output_dir)
    missing = [
        str(path)
        for name in WEIGHTS
        for split in ("train", "valid")
        if not (path := _path(data, name, split)).is_file()
    ]
    if missing:
        raise ValueError(f"`--data_dir` must hold all sets. Received: without {', '.join(missing)}")
    output.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(args.seed)

    documents = []
    for name, weight in WEIGHTS.items():
        found = _documents(_path(data, name, "train"))
        chosen = repeated(len(found), weight, generator)
        documents += [found[i] for i in chosen]
        size = sum(len(found[i]) for i in chosen)
        logging.info("%s: %d documents, %.1f MB", name, len(chosen), size / 1e6)
    generator.shuffle(documents)
    for shard in range(NUM_SHARDS):
        _write(output / f"mixture-{shard:02d}.train.jsonl.gz", documents[shard::NUM_SHARDS])

    held_out = []
    for name in WEIGHTS:
        size = 0
        for document in _documents(_path(data, name, "valid")):
            if size + len(document) > VALIDATION_BYTES:
                break
            size += len(document)
            held_out.append(document)
    generator.shuffle(held_out)
    _write(output / "mixture.valid.jsonl.gz", held_out)


def repeated(count, weight, generator):
    """Returns indices below `count`: each of them int(weight) times, and a random part of them once more.

    Example:
    >>> sorted(repeated(4, 1.5, np.random.default_rng(0)).tolist())
    [0, 1, 2, 2, 3, 3]
    """
    whole, part = int(weight), weight % 1
    once_more = generator.permutation(count)[: round(count * part)]
    return np.concatenate([np.tile(np.arange(count), whole), once_more])


def _path(data, name, split):
    return data / f"{name}.{split}.jsonl.gz"


def _documents(path):
    """Returns the documents of a file, each as the bytes of a JSON line."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    return [json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n" for text in texts]


def _write(path, documents):
    """Writes a file completely or not at all, with the same bytes for the same documents."""
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
        file.writelines(documents)
    partial.rename(path)


if __name__ == "__main__":
    define_flags()
    programs.run(main)
