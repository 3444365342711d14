"""Beam's runners, and the one line that says what to install where Beam is missing."""

import importlib
import logging

RUNNERS = ("DirectRunner", "FlinkRunner", "SparkRunner", "DataflowRunner")


def load_pipeline(module, program, runner):
    """Imports a module that needs Beam.

    Args:
        module: string, such as "convnlp.bulk.pipeline".
        program: string, the program to name in the error.
        runner: string. On this machine errors are raised to us, so that Beam need not log them; of other
            runners its log is all there is.

    Returns:
        The module.

    Raises:
        ValueError: if Beam is not installed.
    """
    level = logging.CRITICAL if runner == "DirectRunner" else logging.WARNING
    logging.getLogger("apache_beam").setLevel(level)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if not (error.name or "").startswith("apache_beam"):
            raise
        raise ValueError(
            f"{program} needs Apache Beam: pip install -r requirements-beam.txt, in an environment of its own"
        ) from error
