r"""Writes labelled texts to try the programs on: questions to a bank, labelled by what the customer wants.

    convnlp example-data --output=data

writes data/train.csv and data/test.csv, with the columns `text` and `category`, and data/README.md, which
names their source (Banking77, CC BY 4.0).
"""

import csv
import gzip
import importlib.resources
import io
import pathlib

from absl import flags

from convnlp import outputs
from convnlp.programs import run

FILES = ("train.csv", "test.csv")

_OUTPUT = flags.DEFINE_string("output", None, "Directory to write to.", required=True)


def main(_):
    """Files of the package -> plain files."""
    package, folder = importlib.resources.files("convnlp.example"), pathlib.Path(_OUTPUT.value)
    for name in FILES:
        outputs.check_file("output", folder / name)
    for name in FILES:
        data = gzip.decompress(package.joinpath(f"{name}.gz").read_bytes())
        outputs.write_file(folder / name, data)
        rows = sum(1 for _ in csv.reader(io.StringIO(data.decode("utf-8")))) - 1
        print(f"{folder / name}  {rows:,} rows")
    outputs.write_file(folder / "README.md", package.joinpath("README.md").read_bytes())


if __name__ == "__main__":
    run(main)
