import pytest

from tests.run_program import run_program


@pytest.mark.multiprocess
def test_kernels_on_two_mirrored_devices():
    program = run_program("tests.kernels.mirrored_program")
    assert program.stdout.split() == ["equal"], program.stderr[-3000:]
