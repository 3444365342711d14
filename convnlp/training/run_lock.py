"""Allows one run per directory: a second one would remove what the first is about to write.

    WORKDIR/run.lock    who writes to the directory

On a disk, the file is locked (flock); the lock ends with its process, even after `kill -9`. Where files
cannot be locked (gs:// and other URLs, some network file systems), the file is a lease, which its holder
renews every `BEAT_SECONDS`. A process that finds a lease watches it, gives up as soon as it is renewed, and
takes it over if it is not renewed for `TIMEOUT_SECONDS`. Clocks of different machines are never compared.
tf.io.gfile cannot create a file only if there is none, so the writer of a lease reads it again a moment
later, and before each checkpoint: of two processes that start at once, the one whose lease was overwritten
stops.
"""

import atexit
import contextlib
import datetime
import errno
import fcntl
import json
import os
import socket
import threading
import time
import uuid

from absl import logging

from convnlp.training import storage

BEAT_SECONDS = 10.0
TIMEOUT_SECONDS = 60.0
SETTLE_SECONDS = 1.0  # after which the last of two simultaneous writers is known
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_held = {}  # path -> lock, for locks that this process holds


class LockedError(ValueError):
    """Another running process uses the directory."""


def hold(workdir, argument="workdir"):
    """Locks the directory for this process, until `release` or the end of the process; idempotent.

    Args:
        workdir: path of the directory.
        argument: string, the name of the argument for errors. Defaults to "workdir".

    Returns:
        The lock; its `check` raises `LockedError` if another process has taken it over.

    Raises:
        LockedError: if another process uses the directory; names the process and its host.
    """
    path = _path(workdir)
    if path not in _held:
        storage.gfile.makedirs(os.path.dirname(path))
        _held[path] = (Lease if storage.is_remote(path) else _file_lock)(path, argument)
    return _held[path]


def is_held(workdir):
    """Returns whether this process holds the lock of the directory."""
    return _path(workdir) in _held


def release(workdir):
    """Unlocks the directory if this process holds its lock."""
    if lock := _held.pop(_path(workdir), None):
        lock.release()


@contextlib.contextmanager
def held(workdir, argument="workdir"):
    """Context manager for `hold`; a lock that was held before stays held."""
    before = is_held(workdir)
    try:
        yield hold(workdir, argument)
    finally:
        if not before:
            release(workdir)


@atexit.register
def _release_all():
    for path in list(_held):
        _held.pop(path).release()


def _path(workdir):
    workdir = os.fspath(workdir)
    return storage.join(workdir if storage.is_remote(workdir) else os.path.realpath(workdir), "run.lock")


def _file_lock(path, argument):
    try:
        return FileLock(path, argument)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return Lease(path, argument)


def _holder():
    """Returns the content of the file, a dict."""
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "started": started}


def _described(holder):
    if not holder:  # it has only just locked the file
        return "another process"
    return f"process {holder.get('pid')} on {holder.get('host')}, which started at {holder.get('started')}"


def _in_use(path, argument, holder):
    return (
        f"`{argument}` must be a directory that no other process is writing to. "
        f"Received: {argument}={os.path.dirname(path)!r}, in use by {_described(holder)}"
    )


def _parsed(content):
    with contextlib.suppress(ValueError):
        value = json.loads(content)
        if isinstance(value, dict):
            return value
    return {}


class FileLock:
    """A lock of the operating system on an open file.

    Args:
        path: string.
        argument: string, the name of the argument for errors. Defaults to "workdir".

    Raises:
        LockedError: if another process holds the lock.
        OSError: if the file system does not support locks.
    """

    def __init__(self, path, argument="workdir"):
        self._path, self._argument = path, argument
        self._file = self._locked()

    def _locked(self):
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(_holder()).encode(), 0)
        except BlockingIOError:
            holder = _parsed(os.pread(file, 1 << 16, 0))
            os.close(file)
            raise LockedError(_in_use(self._path, self._argument, holder)) from None
        except OSError as error:  # for example, a full disk
            os.close(file)
            error.filename = self._path
            raise
        return file

    def check(self):
        """Raises `LockedError` if the file was deleted, and another process has made and locked a new one."""
        try:
            is_ours = os.path.samestat(os.stat(self._path), os.fstat(self._file))
        except FileNotFoundError:
            is_ours = False
        if not is_ours:
            file = self._locked()
            os.close(self._file)
            self._file = file

    def release(self):
        os.ftruncate(self._file, 0)
        os.close(self._file)


class Lease:
    """A file that says who writes, renewed by a thread while the process lives.

    Args:
        path: string.
        argument: string, the name of the argument for errors. Defaults to "workdir".
        beat_seconds: float. Time between two renewals. Defaults to `BEAT_SECONDS`.
        timeout_seconds: float. A lease is free if not renewed for this long. Defaults to `TIMEOUT_SECONDS`.
        settle_seconds: float. Time until the lease is read again. Defaults to `SETTLE_SECONDS`.

    Raises:
        LockedError: if another process renews its lease while this one waits, or overwrites this lease.
    """

    def __init__(
        self,
        path,
        argument="workdir",
        beat_seconds=BEAT_SECONDS,
        timeout_seconds=TIMEOUT_SECONDS,
        settle_seconds=SETTLE_SECONDS,
    ):
        self._path, self._argument = path, argument
        self._timeout = timeout_seconds
        self._lease = {**_holder(), "owner": uuid.uuid4().hex, "beat": 0}
        self._wait_until_free(beat_seconds)
        self._write()
        time.sleep(settle_seconds)
        self.check()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, args=(beat_seconds,), daemon=True)
        self._thread.start()

    def _wait_until_free(self, beat_seconds):
        found = self._read()
        if not found:
            return
        logging.warning(
            "%s is held by %s; it will be taken over unless it is renewed within %g seconds",
            *(self._path, _described(found), self._timeout),
        )
        end = time.monotonic() + self._timeout
        while time.monotonic() < end:
            time.sleep(beat_seconds / 4)
            now = self._read()
            if not now and not storage.gfile.exists(self._path):
                return
            if now and now != found:
                raise LockedError(self._message(now))

    def _message(self, holder):
        return (
            f"{_in_use(self._path, self._argument, holder)}; "
            f"it becomes free {self._timeout:g} seconds after that process dies"
        )

    def _read(self):
        try:
            return _parsed(storage.read(self._path))
        except storage.tf.errors.NotFoundError:
            return {}

    def _write(self):
        storage.write_json(self._path, self._lease, writer=f"-{self._lease['owner']}")

    def check(self):
        """Raises `LockedError` if another process has taken over the lease."""
        found = self._read()
        if found and found.get("owner") != self._lease["owner"]:
            raise LockedError(self._message(found))

    def _renew(self, beat_seconds):
        while not self._stop.wait(beat_seconds):
            try:
                self.check()
                self._lease["beat"] += 1
                self._write()
            except LockedError:
                return  # the run notices before its next write
            except storage.ERRORS as error:  # the network is down for a while
                logging.warning("Could not renew %s: %s", self._path, storage.reason(error))

    def release(self):
        """Removes the lease if this process still holds it."""
        self._stop.set()
        self._thread.join()
        with contextlib.suppress(LockedError, *storage.ERRORS):
            self.check()
            storage.gfile.remove(self._path)
