"""Beam's runners, and the one line that says what to install where Beam is missing."""

import importlib
import logging

RUNNERS = ("DirectRunner", "DaskRunner", "FlinkRunner", "SparkRunner", "DataflowRunner")


def load_pipeline(module, program, runner):
    """Imports a module that needs Beam.

    Args:
        module: string, such as "convnlp.bulk.pipeline".
        program: string, the program to name in the error.
        runner: string. On this machine and on Dask errors are raised to us, so that Beam need not log them;
            of other runners its log is all there is.

    Returns:
        The module.

    Raises:
        ValueError: if Beam is not installed, or for the DaskRunner Dask.
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
            "pip install -r requirements-beam.txt, in an environment of its own"
        ) from error
