"""Writes answers, one per line, to a stream or to a file that a later run can continue."""

import contextlib
import json
import os
import stat

from convnlp.serving.client.http_exchange import to_base64

try:
    import fcntl
except ImportError:  # not on Windows, where two runs at the same time go unnoticed
    fcntl = None


class Stream:
    """Standard output, or anything else that takes lines and cannot be read back.

    Args:
        file: a text file, which is left open.

    Attributes:
        count: int. The number of answers written.
        place: str. Where they are.
        kept: str. Where the answers so far are, for a message.
    """

    def __init__(self, file):
        self._file = file
        self.place = "standard output"
        self.count = 0

    @property
    def kept(self):
        return f"answers written: {self.count}" if self.count else ""

    def write(self, predictions):
        """Writes answers, and flushes them so that a reader has them at once."""
        for prediction in predictions:
            self._file.write(_line(prediction, self._file.encoding or "utf-8"))
        self._file.flush()
        self.count += len(predictions)

    def finish(self):
        """Says that these are all."""

    def close(self):
        """Leaves the file to whoever opened it."""


class AnswersFile:
    """A file that appears under its name when it is complete.

    Until then, the answers are in PATH.part, and PATH.part.json says what was asked. A later run that asks
    the same continues after the last whole line; any other run is refused. A run without any answer leaves
    neither file.

    Args:
        path: str.
        task: dict of a flag to its value, or to the sum of what it names; None if the examples cannot be read
            again, so that nothing can be continued.

    Attributes:
        count: int. The number of answers in the file.
        place: str. The file.
        kept: str. Where the answers so far are, for a message.

    Raises:
        OSError: if it cannot be written.
        ValueError: if it holds answers to something else.
    """

    def __init__(self, path, task):
        self._path = os.path.realpath(path)  # a link stays a link
        if os.path.isdir(self._path):
            raise ValueError(f"`--output` must be a file. Received: {path!r}, a directory")
        self.place, self._about = f"{self._path}.part", f"{self._path}.part.json"
        self._task = task
        self.count = 0
        self._is_finished = False
        # Unbuffered: what has been written is in the file, whatever happens next.
        self._file = open(self.place, "a+b", buffering=0)  # noqa: SIM115 (closed by `close`)
        try:
            self._lock()
            self.count = self._repair()
            self._compare() if self.count else self._begin()
        except BaseException:
            self._file.close()
            raise

    @property
    def kept(self):
        if not self.count:
            return ""
        rest = "the same command continues" if self._task is not None else "delete it to start anew"
        return f"answers kept: {self.count}, in {self.place}; {rest}"

    def write(self, predictions):
        """Adds answers."""
        content = memoryview("".join(_line(prediction, "utf-8") for prediction in predictions).encode())
        while content:
            content = content[self._file.write(content) :]
        self.count += len(predictions)

    def finish(self):
        """Gives the file its name."""
        os.fsync(self._file.fileno())
        if fcntl is None:
            self._file.close()  # Windows cannot rename an open file
        os.replace(self.place, self._path)
        self._is_finished = True
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._about)

    def close(self):
        """Closes the file, and removes it if it holds no answer."""
        if not self.count and not self._is_finished:
            for path in (self.place, self._about):
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)
        self._file.close()

    def _lock(self):
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The other run may have given the file its final name since it was opened here.
            is_ours = os.path.samestat(os.fstat(self._file.fileno()), os.stat(self.place))
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        if not is_ours:
            raise ValueError(f"another run is writing {self.place}")

    def _repair(self):
        """Cuts off what an interrupted run has half written, and returns the number of whole lines."""
        count = size = end = 0
        with open(self.place, "rb") as file:
            for number, line in enumerate(file, 1):
                size += len(line)
                if not _is_answer(line):
                    continue
                if number != count + 1:
                    raise ValueError(
                        f"{self.place}:{count + 1} is not an answer; delete the file to start anew"
                    )
                count, end = number, size
        self._file.truncate(end)
        return count

    def _begin(self):
        try:
            with open(self._about, "w", encoding="utf-8") as file:
                json.dump(self._task, file, indent=2)
        except BaseException:
            self.close()
            raise

    def _compare(self):
        anew = f"delete {self.place} to start anew"
        try:
            with open(self._about, encoding="utf-8") as file:
                earlier = json.load(file)
        except (OSError, ValueError):
            raise ValueError(f"nothing says of what the answers in {self.place} are; {anew}") from None
        if self._task is None or not isinstance(earlier, dict):
            raise ValueError(f"{self.place} cannot be continued, as its input cannot be read again; {anew}")
        for flag in {**earlier, **self._task}:
            before, now = earlier.get(flag), self._task.get(flag)
            if before == now:
                continue
            if flag in ("--input", "--text"):
                raise ValueError(f"`{flag}` has changed since {self.place} was begun; {anew}")
            raise ValueError(
                f"`{flag}` must be {before!r} to continue {self.place}; {anew}. Received: {now!r}"
            )


def open_answers(path, task, standard_output):
    """Returns where answers go.

    Args:
        path: str or None. A file; standard output if None. If it exists and is not a regular file, such as a
            pipe or /dev/null, it is written to directly.
        task: as for `AnswersFile`.
        standard_output: a text file.

    Raises:
        The errors of `AnswersFile`.
    """
    if path is None:
        if standard_output is None:
            raise ValueError("standard output is closed")
        return Stream(standard_output)
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            return Stream(open(path, "w", encoding="utf-8"))  # until the process ends
    return AnswersFile(path, task)


def _line(prediction, encoding):
    """Returns one answer as JSON: readable, or escaped if the encoding lacks a character."""
    line = json.dumps(prediction, ensure_ascii=False, default=to_base64)
    try:
        line.encode(encoding)
    except UnicodeEncodeError:
        line = json.dumps(prediction, default=to_base64)
    return f"{line}\n"


def _is_answer(line):
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return line.endswith(b"\n")
