"""The choice of the variants of a search, checked before the first run."""


def chosen_variants(numbers, variants, splits, data_dir):
    """Returns the numbers of the variants to run.

    Args:
        numbers: list of str, as given by --variants; empty for all.
        variants: sized, the variants.
        splits: dict, name of a labelled set -> the splits of it that are read, with or without a slice.
        data_dir: pathlib.Path, which holds classification/NAME.SPLIT.jsonl.gz.

    Returns:
        Sequence of int.

    Raises:
        ValueError: if a variant or a file does not exist, which would make the search fail later.
    """
    for number in numbers:
        if not number.isdigit() or int(number) >= len(variants):
            raise ValueError(f"`--variants` must be numbers below {len(variants)}. Received: {number!r}")
    for name, own_splits in splits.items():
        for split in sorted({split.partition("[")[0] for split in own_splits}):
            path = data_dir / "classification" / f"{name}.{split}.jsonl.gz"
            if not path.is_file():
                raise ValueError(f"`--data_dir` must hold {path.relative_to(data_dir)}. Received: {data_dir}")
    return [int(number) for number in numbers] or range(len(variants))
