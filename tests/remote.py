"""Where tests put files behind a URL: in memory, or where CONVNLP_TESTS_URL says, as in `tests.gcs`."""

import os

ROOT = os.environ.get("CONVNLP_TESTS_URL", "ram://")


def url(path):
    """The URL of a path."""
    return ROOT + path
