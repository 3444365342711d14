"""What programs that print rows share."""

import pytest

from tests.run_program import run_program


@pytest.mark.multiprocess
def test_help_shows_the_flags_that_they_share():
    shown = run_program("benchmarks.matmul", "--help").stdout
    for flag in ("--json:", "--[no]short:", "--threads:"):
        assert flag in shown
