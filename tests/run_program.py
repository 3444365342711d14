"""Runs a command-line program in a fresh process, as a user would."""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run_program(module, *arguments, stdin=None):
    """`python -m module arguments`: the finished process, with its outputs as text."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=300, check=False
    )
