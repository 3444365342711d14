"""Parameter counts of the base models: by `cost()`, counted, and as the paper's release names them.

    python -m benchmarks.parameters --json=FILE

Builds each model (about a gigabyte of memory, a few seconds).
"""

import json

from absl import app, flags

from convnlp.layers import MIXERS
from convnlp.models import SIZES, Seq2SeqBackbone

VOCABULARY_SIZE = 32128  # T5's table
ENCODER_LENGTH, DECODER_LENGTH = 512, 114  # span corruption's
# From the list of checkpoints of google-research/pretrained_conv, in millions.
RELEASE = {"lightweight_conv": 210, "dynamic_conv": 324}

_JSON = flags.DEFINE_string("json", None, "File to write the rows to.")
_SIZE = flags.DEFINE_enum("size", "base", SIZES, "Size of the models.")


def rows(size):
    """One dict per causal mixer: parameters by formula and counted, and the cost of an example."""
    for mixer in (name for name, cls in MIXERS.items() if cls.supports_causal):
        backbone = Seq2SeqBackbone(
            VOCABULARY_SIZE, **SIZES[size], mixer=mixer, max_sequence_length=ENCODER_LENGTH
        )
        cost = backbone.cost(ENCODER_LENGTH, DECODER_LENGTH)
        yield {
            "mixer": mixer,
            "formula": cost["parameters"],
            "counted": backbone.count_params(),
            "release_millions": RELEASE.get(mixer) if size == "base" else None,
            "multiply_adds": cost["multiply_adds"],
            "receptive_field": cost["receptive_field"],
        }


def main(_):
    """Prints the table and writes the JSON."""
    results = []
    print("| mixer | by cost() | counted | release | multiply-adds | receptive field |")
    print("| --- | --- | --- | --- | --- | --- |")
    for row in rows(_SIZE.value):
        results.append(row)
        release = f"{row['release_millions']}M" if row["release_millions"] else ""
        print(
            f"| {row['mixer']} | {row['formula']:,} | {row['counted']:,} | {release} "
            f"| {row['multiply_adds'] / 1e9:.1f}G | {row['receptive_field']} |",
            flush=True,
        )
    if _JSON.value:
        with open(_JSON.value, "w", encoding="utf-8") as file:
            json.dump({"size": _SIZE.value, "rows": results}, file, indent=2)


if __name__ == "__main__":
    app.run(main)
