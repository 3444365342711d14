"""Imports pyarrow on demand: only some formats need it, so it need not be installed."""

from convnlp.data.errors import SourceError


def pyarrow(path):
    """Returns the module `pyarrow` with `ipc` and `parquet` imported.

    Args:
        path: string, the file that needs it, to be named in the error.

    Raises:
        SourceError: if pyarrow is not installed; the message says how to install it.
    """
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise SourceError(f"{path}: cannot be read without pyarrow: pip install pyarrow") from error
    return pyarrow
