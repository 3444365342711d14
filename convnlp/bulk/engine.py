"""What differs from engine to engine: options, how the parts of an input are spread, what an error becomes.

Of Beam's transforms the DaskRunner (Beam 2.77) knows Create, ParDo, GroupByKey and Flatten, and of these not
everything. Our pipelines are built so that none of it matters:

| there | here |
| --- | --- |
| `Reshuffle` does nothing: a task goes on with what it has yielded | the parts are found first, a task each |
| a step ends with all of a task before the next one begins | a part is predicted in one step |
| an output with a tag has the elements of all of the step's outputs | see `tagged` |
| tasks in one process share the list of what they yield | workers are processes, see `options` |
| a side input is computed inside of the task that asks for it | no side inputs, thus no default of a sum |
| only what the last transform needs is computed | the last one is the summary, which needs everything |
"""

import contextlib

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

_DASK = "apache_beam.runners.dask.dask_runner.DaskRunner"
# Beam's own DirectRunner looks for a program to download first; it knows Dask's by this name alone.
_RUNNERS = {"DirectRunner": "FnApiRunner", "DaskRunner": _DASK}
# Parts beyond these share tasks: Dask groups n tasks by some 2 * n^1.5 small ones.
_MOST_TASKS = 256


class WorkerError(ValueError):
    """What our code in a worker has raised for users.

    A plain ValueError from another process no longer shows that a `raise` statement of ours has raised it,
    which is what `convnlp.programs.user_message` goes by.
    """


def options(runner, arguments):
    """Beam's options.

    Args:
        runner: string, of `runners.RUNNERS`.
        arguments: list of strings, Beam's own flags.

    Raises:
        ValueError: if Beam does not know one of them, or Dask's workers would be threads of this process.
    """
    if runner == "DaskRunner":
        from apache_beam.runners.dask import dask_runner  # noqa: F401 - which adds its flags
    found, unknown = PipelineOptions([f"--runner={_RUNNERS.get(runner, runner)}", *arguments]), []
    found.get_all_options(
        add_extra_args_fn=lambda parser: unknown.extend(parser.parse_known_args(arguments)[1])
    )
    if unknown:
        raise ValueError(f"Beam has no such flag. Received: {unknown[0]!r}")
    for argument in arguments:
        if runner == "DaskRunner" and "inproc:" in argument:
            raise ValueError(f"Dask's workers must be processes of their own. Received: {argument!r}")
    return found


@contextlib.contextmanager
def open_pipeline(beam_options):
    """A `beam.Pipeline`, which runs at the end of the `with` block, and has ended when that has.

    Args:
        beam_options: see `options`.

    Raises:
        ValueError: if a worker fails by an error whose class Beam does not keep, such as a full disk, or if
            all workers that take up a part die.
    """
    pipeline = beam.Pipeline(options=beam_options)
    try:
        with _on_dask(pipeline) if _is_dask(beam_options) else contextlib.nullcontext(), pipeline:
            yield pipeline
    except RuntimeError as error:
        raise ValueError("\n".join(str(part) for part in (error, error.__cause__) if part)) from error


@contextlib.contextmanager
def _on_dask(pipeline):
    from distributed import KilledWorker

    try:
        yield
    except KilledWorker as error:
        raise ValueError(
            f"{error.allowed_failures + 1} workers have died, one after the other, of the same part of the "
            f"work, the last one at {error.last_worker.address}; their logs say why (often: no memory)"
        ) from error
    except ValueError as error:
        if type(error) is ValueError and _module(error).partition(".")[0] == "convnlp":
            raise WorkerError(str(error)) from error
        raise
    finally:
        if result := getattr(pipeline, "result", None):
            result.client.close()  # and with it a cluster on this machine that was started for us


def _module(error):
    """The module that an error was raised in."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_globals.get("__name__", "")


def runs_steps_whole(pipeline):
    """Whether a step holds all that it yields of a task in memory, until the task has ended."""
    return _is_dask(pipeline.options)


def parts(pipeline, inputs):
    """The `Part`s of an input, each for a worker of its own.

    Args:
        pipeline: see `open_pipeline`.
        inputs: see `convnlp.bulk.inputs.open_input`.

    Returns:
        PCollection.
    """
    files = range(len(inputs.paths))
    if not _is_dask(pipeline.options):
        return (
            pipeline
            | "files" >> beam.Create(files)
            | "spread files" >> beam.Reshuffle()
            | "parts" >> beam.FlatMap(inputs.parts)
            | "spread parts" >> beam.Reshuffle()
        )
    from apache_beam.runners.dask.dask_runner import DaskOptions

    found = [part for file in files for part in inputs.parts(file)]
    dask = pipeline.options.view_as(DaskOptions)
    if not (dask.npartitions or dask.partition_size):
        dask.partition_size = max(-(-len(found) // _MOST_TASKS), 1)
    return pipeline | "parts" >> beam.Create(found)


def tagged(pairs, tag):
    """The elements of the pairs (tag, element) that have this tag.

    Args:
        pairs: PCollection.
        tag: string.

    Returns:
        PCollection.
    """
    return pairs | tag >> beam.FlatMap(lambda pair: [pair[1]] if pair[0] == tag else [])


def _is_dask(beam_options):
    return beam_options.view_as(StandardOptions).runner == _DASK
