"""Beam's runners, and an error that says what to install if Beam is missing."""

import importlib
import logging

RUNNERS = ("DirectRunner", "DaskRunner", "FlinkRunner", "SparkRunner", "DataflowRunner")


def load_pipeline(module, program, runner):
    """Imports a module that needs Beam.

    Args:
        module: string, such as "convnlp.bulk.pipeline".
        program: string, the program to name in the error.
        runner: string, one of `RUNNERS`. Beam logs errors only for runners that do not raise them here: not
            for those of this machine and Dask.

    Returns:
        The module.

    Raises:
        ValueError: if Beam is not installed, or Dask for the DaskRunner.
    """
    level = logging.CRITICAL if runner in ("DirectRunner", "DaskRunner") else logging.WARNING
    logging.getLogger("apache_beam").setLevel(level)
    needed = {"apache_beam": "Apache Beam"} | ({"distributed": "Dask"} if runner == "DaskRunner" else {})
    try:
        for package in needed:
            importlib.import_module(package)
        return importlib.import_module(module)
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in needed:
            raise
        raise ValueError(
            f"{program} needs {needed[package]}: "
            "pip install -r requirements-beam.txt, in a separate environment"
        ) from error
