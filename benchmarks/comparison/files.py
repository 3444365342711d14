"""The files that a comparison reads, looked for before anything is computed."""

from convnlp.data import Source, sources


def check(plan, kinds, workdir):
    """Checks that there are the data of a plan's cells, unless none of these is to be computed.

    Args:
        plan: `benchmarks.comparison.plan.Plan`.
        kinds: sequence of str, the `cells.KINDS` to compute.
        workdir: pathlib.Path.

    Raises:
        SourceError: if a source has no files, or no such split.
    """
    training = [kind for kind in kinds if kind != "measure"]  # a measurement reads no data
    every_cell = (cell for mixer in plan.mixers for cell in plan.cells(mixer) if cell.kind in training)
    if any(cell.result(workdir) is None for cell in every_cell):
        for name, split in _sources(plan):
            sources.paths(Source(plan.path(name), split))


def _sources(plan):
    """Returns the set of (source, split) that the cells of a plan read."""
    found = {(plan.data.test_source, plan.data.test_split)}
    for data in filter(None, (plan.data, plan.trial_data)):
        found |= {
            (data.source, data.split),
            (data.validation_source or data.source, data.validation_split),
        }
    if plan.pretraining:
        found |= {(plan.pretraining.source, split) for split in plan.pretraining.splits or ("train",)}
    return found
