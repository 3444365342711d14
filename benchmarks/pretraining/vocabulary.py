r"""How well a vocabulary covers texts: what it does not know, and into how many pieces it splits a word.

    python -m benchmarks.pretraining.vocabulary --tokenizer=spm.model --json=vocabulary.json \
        --source=sst2=jsonl:sst2.test.jsonl.gz --source=jigsaw=jsonl:jigsaw.test.jsonl.gz

Use --preset instead of --tokenizer for the vocabulary of a preset. Words are separated by whitespace. An
unknown piece is one or more characters for which the vocabulary has no piece; the model sees the same id
for all of them. The last column shows the most frequent ones.
"""

import collections
import dataclasses
import json
import os

import sentencepiece
from absl import flags

from benchmarks import pages
from benchmarks.shared_flags import check_json, define_output
from convnlp import outputs, programs
from convnlp.data import Source, sources
from convnlp.models import Tokenizer, preset_names
from convnlp.models.tokenizer import SPACE

_SHOWN = 8


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("tokenizer", None, "SentencePiece model.")
    flags.DEFINE_string("preset", None, "Name or directory of a preset with the vocabulary.")
    flags.DEFINE_multi_string("source", None, "NAME=jsonl:GLOB or another source; repeatable.", required=True)
    flags.DEFINE_string("split", "train", "Split of the sources, optionally with a slice.")
    flags.DEFINE_string("text_field", "text", "Field of the text.")
    define_output("json", "File to write the figures to.")


@dataclasses.dataclass
class Counts:
    """The counts of a data set."""

    texts: int = 0
    words: int = 0
    unknown_words: int = 0
    pieces: int = 0
    unknown_pieces: int = 0
    unknown: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def add(self, model, text):
        """Counts a text.

        Args:
            model: `sentencepiece.SentencePieceProcessor`.
            text: str.
        """
        words = text.split()
        ids, pieces = model.encode(text), model.encode(text, out_type=str)
        both = zip(ids, pieces, strict=True)
        unknown = [piece.strip(SPACE) for i, piece in both if i == model.unk_id()]
        self.texts += 1
        self.words += len(words)
        self.pieces += len(ids)
        self.unknown_pieces += len(unknown)
        self.unknown.update(unknown)
        if unknown:  # saves encoding the words of most texts: a word alone gives the same pieces
            self.unknown_words += sum(model.unk_id() in model.encode(word) for word in words)

    def row(self, name):
        """Returns a dict for the table and the model card; rates are 0 if nothing was counted."""
        return {
            "set": name,
            "texts": self.texts,
            "pieces per word": round(self.pieces / max(self.words, 1), 3),
            "unknown pieces": round(self.unknown_pieces / max(self.pieces, 1), 6),
            "words with one": round(self.unknown_words / max(self.words, 1), 6),
            "such as": " ".join(piece for piece, _ in self.unknown.most_common(_SHOWN)),
        }


def main(argv):
    """Vocabulary, sources -> counts -> table and file."""
    del argv
    args = flags.FLAGS
    if (args.tokenizer is None) == (args.preset is None):
        raise ValueError(
            "one of `--tokenizer` and `--preset` must be given. "
            f"Received: --tokenizer={args.tokenizer}, --preset={args.preset}"
        )
    named = named_sources(args.source, args.split)
    read = [path for source in named.values() for path in sources.paths(source)]
    path = args.tokenizer or os.path.join(preset_names.locate(args.preset), "assets/tokenizer/vocabulary.spm")
    check_json(args.json, inputs=[path, *read])
    model = load(path)
    rows = [count(model, source, args.text_field).row(name) for name, source in named.items()]
    print(table(rows))
    if args.json:
        outputs.write_file(args.json, f"{json.dumps(rows, indent=2, ensure_ascii=False)}\n".encode())


def named_sources(given, split):
    """Returns {name: `Source`} for the values of --source.

    Raises:
        ValueError: if a value has no name, or a name is used twice.
    """
    named = {}
    for value in given:
        name, separator, source = value.partition("=")
        if not separator or not name or ":" in name or name in named:
            raise ValueError(f"`--source` must be NAME=SOURCE, each name once. Received: {value!r}")
        named[name] = Source(source, split)
    return named


def load(path):
    """Loads a SentencePiece model; raises ValueError if its special ids are not those that ours have."""
    Tokenizer.from_file(path)
    return sentencepiece.SentencePieceProcessor(model_file=path)


def count(model, source, field="text"):
    """Returns the `Counts` of all texts of a `Source`."""
    counts = Counts()
    for row in sources.read(source, fields=(field,)).as_numpy_iterator():
        counts.add(model, row[field].decode("utf-8"))
    return counts


def table(rows):
    """Returns the rows as a Markdown table."""
    return pages.table(
        list(rows[0]), [[str(value).replace("|", "\\|") for value in row.values()] for row in rows]
    )


if __name__ == "__main__":
    define_flags()
    programs.run(main)
