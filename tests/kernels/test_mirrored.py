import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.multiprocess
def test_kernels_on_two_mirrored_devices():
    program = subprocess.run(
        [sys.executable, "-m", "tests.kernels.mirrored_program"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert program.stdout.split() == ["equal"], program.stderr[-3000:]
