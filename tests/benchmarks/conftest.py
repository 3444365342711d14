"""What the tests of the programs share."""

import pytest
from absl import flags


@pytest.fixture(autouse=True)
def _parsed_flags():
    """The programs read their flags while they run."""
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()  # without the check of flags that other programs require
