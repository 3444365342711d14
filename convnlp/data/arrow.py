"""pyarrow, which some formats alone need, so that it need not be installed."""

from convnlp.data.errors import SourceError


def pyarrow(path):
    """The module, with `ipc` and `parquet`.

    Args:
        path: string, the file that cannot be read without it.

    Raises:
        SourceError: if it is not installed, with the command that installs it.
    """
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise SourceError(f"{path}: cannot be read without pyarrow: pip install pyarrow") from error
    return pyarrow
