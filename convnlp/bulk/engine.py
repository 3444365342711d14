"""What differs between engines: options, how the parts of an input are distributed, and errors.

Of Beam's transforms, the DaskRunner (Beam 2.77) supports Create, ParDo, GroupByKey and Flatten, and these
only in part. Our pipelines work around its limitations:

| DaskRunner | our pipelines |
| --- | --- |
| `Reshuffle` does nothing: a task continues with what it has yielded | find the parts first, one task each |
| a step finishes a whole task before the next step begins | predict a part in a single step |
| a tagged output has the elements of all outputs of the step | use `tagged` |
| tasks in one process share the list of what they yield | use processes as workers, see `options` |
| a side input is computed inside the task that needs it | use no side inputs, so no default for a sum |
| only what the last transform needs is computed | end with the summary, which needs everything |
"""

import contextlib

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

_DASK = "apache_beam.runners.dask.dask_runner.DaskRunner"
# Beam's own DirectRunner first looks for a program to download; Dask's runner is known only by this name.
_RUNNERS = {"DirectRunner": "FnApiRunner", "DaskRunner": _DASK}
# More parts than this share tasks: to group n tasks, Dask creates about 2 * n^1.5 small ones.
_MOST_TASKS = 256


class WorkerError(ValueError):
    """An error that our code has raised for users in a worker.

    A plain ValueError from another process no longer shows that our own `raise` statement raised it, which
    `convnlp.programs.user_message` relies on.
    """


def options(runner, arguments):
    """Returns Beam's `PipelineOptions`.

    Args:
        runner: string, one of `runners.RUNNERS`.
        arguments: list of strings, Beam's own flags.

    Raises:
        ValueError: if Beam does not know a flag, or if Dask's workers would be threads of this process.
    """
    if runner == "DaskRunner":
        from apache_beam.runners.dask import dask_runner  # noqa: F401 - adds its flags
    found, unknown = PipelineOptions([f"--runner={_RUNNERS.get(runner, runner)}", *arguments]), []
    found.get_all_options(
        add_extra_args_fn=lambda parser: unknown.extend(parser.parse_known_args(arguments)[1])
    )
    if unknown:
        raise ValueError(f"Beam has no such flag. Received: {unknown[0]!r}")
    for argument in arguments:
        if runner == "DaskRunner" and "inproc:" in argument:
            raise ValueError(f"Dask's workers must be separate processes. Received: {argument!r}")
    return found


@contextlib.contextmanager
def open_pipeline(beam_options):
    """Yields a `beam.Pipeline`, which runs to its end when the `with` block ends.

    Args:
        beam_options: see `options`.

    Raises:
        ValueError: if a worker fails with an error whose class Beam does not preserve, such as a full disk,
            or if all workers that try a part die.
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
            f"{error.allowed_failures + 1} workers died, one after the other, on the same part of the work, "
            f"the last one at {error.last_worker.address}; see their logs (often they ran out of memory)"
        ) from error
    except ValueError as error:
        if type(error) is ValueError and _module(error).partition(".")[0] == "convnlp":
            raise WorkerError(str(error)) from error
        raise
    finally:
        if result := getattr(pipeline, "result", None):
            result.client.close()  # and so a cluster on this machine that was started for us


def _module(error):
    """Returns the name of the module in which an error was raised."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_globals.get("__name__", "")


def runs_steps_whole(pipeline):
    """Returns whether a step keeps everything that it yields for a task in memory until the task ends."""
    return _is_dask(pipeline.options)


def parts(pipeline, inputs):
    """Returns the `Part`s of an input, distributed over the workers.

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
    """Returns the elements of those pairs (tag, element) that have this tag.

    Args:
        pairs: PCollection.
        tag: string.

    Returns:
        PCollection.
    """
    return pairs | tag >> beam.FlatMap(lambda pair: [pair[1]] if pair[0] == tag else [])


def _is_dask(beam_options):
    return beam_options.view_as(StandardOptions).runner == _DASK
