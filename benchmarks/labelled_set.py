"""What the searches share: the sets of labelled texts on which they fine-tune, and the choice of variants."""

import json
import typing

from benchmarks.run_once import run_once


class LabelledSet(typing.NamedTuple):
    """How to fine-tune on one set, `classification/NAME.SPLIT.jsonl.gz` in the directory of all data.

    Attributes:
        splits: (str, str), the splits of training and validation.
        num_classes: int; the labels are numbers from 0.
        length: int, a number of tokens that fits nearly all texts.
        num_epochs: float.
    """

    splits: tuple
    num_classes: int
    length: int
    num_epochs: float

    def fields(self, name, preset, data_dir, seed):
        """Returns the flags of `convnlp finetune`, as `run_once` takes them.

        Args:
            name: str, that of the set.
            preset: str or path.
            data_dir: str or path.
            seed: int or str.
        """
        split, validation_split = self.splits
        return {
            "config": "configs/finetune_classification.py",
            "config.seed": seed,
            "config.init_from": preset,
            "config.data.source": f"jsonl:{data_dir}/classification/{name}.{{split}}.jsonl.gz",
            "config.data.split": split,
            "config.data.validation_split": validation_split,
            "config.data.input_length": self.length,
            "config.task.label_names": tuple(str(label) for label in range(self.num_classes)),
            "config.task.num_epochs": self.num_epochs,
        }


def chosen_variants(numbers, variants, sets, data_dir):
    """Returns the numbers of the variants to run, checked before the first run.

    Args:
        numbers: list of str, as given by --variants; empty for all.
        variants: sized, the variants.
        sets: dict, name -> `LabelledSet`.
        data_dir: pathlib.Path, which holds classification/NAME.SPLIT.jsonl.gz.

    Returns:
        Sequence of int.

    Raises:
        ValueError: if a variant or a file does not exist, which would make the search fail later.
    """
    for number in numbers:
        if not number.isdigit() or int(number) >= len(variants):
            raise ValueError(f"`--variants` must be numbers below {len(variants)}. Received: {number!r}")
    for name, labelled_set in sets.items():
        for split in sorted({split.partition("[")[0] for split in labelled_set.splits}):
            path = data_dir / "classification" / f"{name}.{split}.jsonl.gz"
            if not path.is_file():
                raise ValueError(f"`--data_dir` must hold {path.relative_to(data_dir)}. Received: {data_dir}")
    return [int(number) for number in numbers] or range(len(variants))


def validation_accuracy(run, fields):
    """Fine-tunes, unless that has been done, and returns the validation accuracy.

    Args:
        run: pathlib.Path, the --workdir of `convnlp finetune`.
        fields: dict, its other flags, see `LabelledSet.fields`.

    Raises:
        ValueError: if it fails, see `run_once`.
    """
    results = run / "results.json"
    run_once("convnlp.finetune", run, fields, results)
    return json.loads(results.read_text(encoding="utf-8"))["validation"]["accuracy"]
