"""Keeps the notes that TensorFlow writes while it starts off a program's output.

TensorFlow 2.21 writes them from C++ before it reads any log level (TF_CPP_MIN_LOG_LEVEL hides none of them),
in front of a program's first line and of the one line that says what is wrong. So stderr is held back while
TensorFlow starts, and what is no such note is written after all.
"""

import contextlib
import os
import re
import sys
import tempfile

# Information, its heading and its second line; "no driver" (303), where there is no GPU.
_NOTE = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog|I\d{4} |To enable the following instructions: "
    rb"|E\d{4} .*failed call to cuInit: .*\(303\)"
)
_STDERR = 2


@contextlib.contextmanager
def notes_hidden():
    """While it lasts, nothing reaches stderr; at its end all but TensorFlow's start-up notes does.

    TF_CPP_MIN_LOG_LEVEL=0, which asks for them, shows them as they come. A closed stderr stays closed.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0" or not _is_open(_STDERR):
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        stderr = os.dup(_STDERR)
        os.dup2(held.fileno(), _STDERR)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, _STDERR)
            os.close(stderr)
            held.seek(0)
            _write(b"".join(line for line in held if not _NOTE.match(line)))


def _is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _write(data):
    while data:
        data = data[os.write(_STDERR, data) :]
