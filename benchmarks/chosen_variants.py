"""Which variants of a search are run, checked before the first of them."""


def chosen_variants(numbers, variants, splits, data_dir):
    """The numbers of the variants to run.

    Args:
        numbers: list of str, as given by --variants; none for all.
        variants: sized, the variants.
        splits: dict, name of a labelled set -> splits of it that are read, with or without a slice.
        data_dir: pathlib.Path, which holds classification/NAME.SPLIT.jsonl.gz.

    Returns:
        Sequence of int.

    Raises:
        ValueError: for what would end the search later: a number of no variant, a file that is not there.
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
