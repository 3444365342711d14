r"""Asks about the examples that a command line names, and writes one JSON line per example.

    convnlp ask --model=classifier --text="a gripping film" --text="dull"
    convnlp ask --model=classifier --input=texts.txt --output=answers.jsonl
    convnlp ask --url=grpc://127.0.0.1:8500 --model=classifier --text="dull"

A file holds one example per line: plain text or, if its name ends in .jsonl, JSON (an object with a value for
every input, or the value itself if there is only one input). Each line of the output is the prediction for
the same line of the input. A failure is one line on standard error; the exit code is 1 for a failure, 2 for a
wrong flag, 130 if interrupted, and 141 if the reader of the output has gone.
"""

import argparse
import contextlib
import json
import os
import sys

from convnlp.serving.client.answers import open_answers
from convnlp.serving.client.connection import connect
from convnlp.serving.client.errors import RequestError, one_line
from convnlp.serving.client.examples import Lines, Texts, batches
from convnlp.serving.client.retries import DEFAULT_RETRIES

_FAILED, _INTERRUPTED, _BROKEN_PIPE = 1, 130, 141


def main(arguments=None):
    """Runs the command line, and returns its exit code."""
    flags = _flags().parse_args(arguments)
    try:
        _run(flags)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        code = _BROKEN_PIPE
    except (RequestError, OSError, ValueError, OverflowError, KeyboardInterrupt) as error:
        print(f"error: {one_line(_message(error))}", file=sys.stderr)
        code = _INTERRUPTED if isinstance(error, KeyboardInterrupt) else _FAILED
    else:
        return 0
    _drop_output()
    return code


def _run(flags):
    if flags.batch_size < 1:
        raise ValueError(f"`--batch_size` must be at least 1. Received: {flags.batch_size}")
    with contextlib.closing(connect(flags.url, flags.timeout_seconds, flags.retries)) as client:
        if flags.status:
            print(json.dumps(client.status(flags.model, flags.version)))
        else:
            _answer_all(flags, client)


def _answer_all(flags, client):
    """Writes answers to all examples that have none yet; an error names the place at which it stopped."""

    def ask(batch):
        return client.predict(flags.model, batch, flags.signature_name, flags.version, flags.label)

    if flags.input and flags.output and _is_same_file(flags.input, flags.output):
        raise ValueError(f"`--output` must not be the file of `--input`. Received: {flags.output!r}")
    examples = Lines(flags.input) if flags.input else Texts(flags.text)
    with contextlib.closing(open_answers(flags.output, _task(flags, examples), sys.stdout)) as answers:
        if examples.identity is not None and answers.count > len(examples):
            raise ValueError(f"{answers.place} has {answers.count} answers to {len(examples)} examples")
        with contextlib.closing(_progress(flags, examples, answers.count)) as progress:
            try:
                for batch in batches(examples.starting_at(answers.count), flags.batch_size):
                    for predictions in _in_parts(ask, batch):
                        answers.write(predictions)
                        progress.update(len(predictions))
            except BrokenPipeError:
                raise
            except (RequestError, OSError, ValueError, OverflowError, KeyboardInterrupt) as error:
                message = f"{examples.place(answers.count)}{_message(error)}"
                kept = f" ({answers.kept})" if answers.kept else ""
                raise _same_kind(error)(message + kept) from error
        answers.finish()


def _in_parts(ask, batch):
    """Yields the predictions for a batch, in parts if the server refuses it as a whole.

    This saves the answers before an example that the server refuses, and shows which example that is.
    """
    try:
        predictions = ask(batch)
    except RequestError as error:
        if not error.is_refused or len(batch) == 1:
            raise
    else:
        yield predictions
        return
    half = len(batch) // 2
    yield from _in_parts(ask, batch[:half])
    yield from _in_parts(ask, batch[half:])


def _task(flags, examples):
    """Returns what is asked, as far as the answers depend on it."""
    if examples.identity is None:
        return None
    names = ("model", "signature_name", "version", "label")
    return {**examples.identity, **{f"--{name}": getattr(flags, name) for name in names}}


def _is_same_file(one, other):
    with contextlib.suppress(OSError):
        return os.path.isfile(one) and os.path.samefile(one, other)
    return False


def _same_kind(error):
    return KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else ValueError


def _message(error):
    return str(error) or ("interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__)


def _drop_output():
    """Keeps Python from flushing a broken standard output on exit, which would fail again."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _NoProgress:
    """Stands in for tqdm's bar if there is no tqdm, or nobody to see it."""

    def update(self, count):
        """Counts examples."""

    def close(self):
        """Ends the bar."""


def _progress(flags, examples, done):
    """Returns a progress bar, on a terminal and from one file to another."""
    if not (flags.input and flags.output and sys.stderr and sys.stderr.isatty()):
        return _NoProgress()
    try:
        from tqdm import tqdm
    except ImportError:
        return _NoProgress()
    return tqdm(total=len(examples) or None, initial=done, unit=" examples")


def _flags():
    parser = argparse.ArgumentParser(
        prog="convnlp ask",
        description="Asks a server for predictions, over REST or over gRPC.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--url", default="http://127.0.0.1:8501", help="the server, http:// or grpc:// (default: %(default)s)"
    )
    parser.add_argument("--model", required=True, help="the model's name")
    parser.add_argument("--signature_name", help="the signature (default: the model's own)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", type=int, help="the version (default: the newest)")
    which.add_argument("--label", help="the version, by its label")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--text", action="append", help="a text; may be repeated")
    what.add_argument("--input", type=os.path.expanduser, help="a file of examples, one per line")
    what.add_argument("--status", action="store_true", help="show the states of the model's versions")
    parser.add_argument(
        "--output",
        type=os.path.expanduser,
        help="the file to write, or to continue if it is unfinished (default: standard output)",
    )
    parser.add_argument(
        "--batch_size", type=int, default=32, help="examples per request (default: %(default)s)"
    )
    parser.add_argument(
        "--timeout_seconds",
        "--timeout",
        type=float,
        default=60.0,
        help="seconds to wait for an answer (default: %(default)s)",
    )
    parser.add_argument(
        "--retries",
        type=int,
        default=DEFAULT_RETRIES,
        help="how often to repeat a request if the server is too busy or the connection is lost "
        "(default: %(default)s)",
    )
    return parser
