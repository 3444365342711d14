"""What Bazel runs for a test file: pytest, without the slow tests."""

import sys

import pytest

if __name__ == "__main__":
    code = pytest.main(["-m", "not slow", "-p", "no:cacheprovider", *sys.argv[1:]])
    sys.exit(0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code)
