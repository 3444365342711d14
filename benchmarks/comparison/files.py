"""The files that a comparison reads, looked for before anything is computed."""

from benchmarks.comparison import cells
from convnlp.data import Source, sources


def check(plan, kinds, workdir):
    """Checks that the data of the cells that are still to be computed exist.

    Args:
        plan: `benchmarks.comparison.plan.Plan`.
        kinds: sequence of str, the `cells.KINDS` to compute.
        workdir: path.

    Raises:
        SourceError: if a source has no files, or no such split.
    """
    missing = set()
    for mixer in plan.mixers:
        wanted = [cell for cell in plan.cells(mixer) if cell.kind in kinds]
        missing |= {cell.kind for cell in cells.missing(wanted, workdir)}
    for name, split in set().union(*(_sources(plan, kind) for kind in missing)):
        sources.paths(Source(plan.path(name), split))


def _sources(plan, kind):
    """Returns the set of (source, split) that the cells of a kind read."""
    if kind == "measure":
        return set()
    if kind.startswith("pretrain"):
        return {(plan.pretraining.source, split) for split in plan.pretraining.splits or ("train",)}
    data = plan.trial_data or plan.data if kind == "finetune_trial" else plan.data
    found = {
        (data.source, data.split),
        (data.validation_source or data.source, data.validation_split),
    }
    return found | ({(data.test_source, data.test_split)} if kind == "finetune" else set())
