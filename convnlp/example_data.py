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
    outputs.check_folder("output", _OUTPUT.value)
    package, folder = importlib.resources.files("convnlp.example"), pathlib.Path(_OUTPUT.value)
    tables = {name: gzip.decompress(package.joinpath(f"{name}.gz").read_bytes()) for name in FILES}
    write(folder, tables | {"README.md": package.joinpath("README.md").read_bytes()})
    for name, data in tables.items():
        rows = sum(1 for _ in csv.reader(io.StringIO(data.decode("utf-8")))) - 1
        print(f"{folder / name}  {rows:,} rows")


def write(folder, contents):
    """Writes files into a folder; those that are there already stay as they are.

    Args:
        folder: pathlib.Path.
        contents: dict, name -> bytes.

    Raises:
        ValueError: if a file is there with another content, which is somebody's own. Then none is written.
    """
    for name, data in contents.items():
        outputs.check_file("output", folder / name)
        if (folder / name).exists() and (folder / name).read_bytes() != data:
            raise ValueError(f"`output` must not hold another {name}. Received: output={folder}")
    for name, data in contents.items():
        outputs.write_file(folder / name, data)


if __name__ == "__main__":
    run(main)
