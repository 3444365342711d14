"""The resources of a process, sampled repeatedly: memory, threads, open files and sockets."""

import os
import threading
import time

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def sample(pid):
    """Returns the resources that a process uses now.

    Args:
        pid: int.

    Returns:
        dict of `memory_mb` (resident), `threads`, `files` (all open descriptors) and `sockets` (those of
        the descriptors that are sockets); None if the process no longer exists.
    """
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        links = []
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                links.append(os.readlink(f"/proc/{pid}/fd/{name}"))
            except FileNotFoundError:  # closed in the meantime
                continue
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    sockets = sum(link.startswith("socket:") for link in links)
    if not pages:  # a zombie
        return None
    return {
        "memory_mb": pages * _PAGE_BYTES / 2**20,
        "threads": threads,
        "files": len(links),
        "sockets": sockets,
    }


class Sampler:
    """Samples a process at intervals, in a thread.

    Args:
        seconds: float, between two samples.
        started: float, of `time.monotonic`, the time from which `seconds` in the rows count.
        rows: list of dict, earlier samples. Default: none.

    Attributes:
        rows: list of dict: `sample`, with `seconds` and the facts given to `watch`.
    """

    def __init__(self, seconds, started, rows=()):
        self.rows = list(rows)
        self._seconds, self._started = seconds, started
        self._watched = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def watch(self, pid, **facts):
        """Samples this process from now on, with the facts in each row; facts may be functions."""
        self._watched = pid, facts

    def close(self):
        """Ends the thread."""
        self._ended.set()
        self._thread.join()

    def _work(self):
        while not self._ended.wait(self._seconds):
            if self._watched is None:
                continue
            pid, facts = self._watched
            if row := sample(pid):
                values = {name: fact() if callable(fact) else fact for name, fact in facts.items()}
                self.rows.append({"seconds": round(time.monotonic() - self._started, 1), **values, **row})
