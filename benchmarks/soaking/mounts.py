"""A small disk for the soak alone, which can be full or read-only: a tmpfs in a mount namespace.

No other process sees it, and it disappears with the process, however that ends. It needs root, or user
namespaces; without them there is no disk, and faults that need it are refused.
"""

import errno
import os
import subprocess
import sys

_MARK = "CONVNLP_SOAK_NAMESPACE"
_WAYS = (
    ("unshare", "--mount", "--propagation=private"),
    ("unshare", "--user", "--map-root-user", "--mount", "--propagation=private"),
)


def enter(module):
    """Restarts this program, `python -m module`, in a mount namespace of its own, if it can have one."""
    if _MARK in os.environ:
        return
    for way in _WAYS:
        # A trial mount in the namespace shows whether mounting is allowed there.
        trial = [*way, "mount", "-t", "tmpfs", "none", "/tmp"]
        try:
            done = subprocess.run(trial, capture_output=True)
        except OSError:  # `unshare` is missing
            return
        if done.returncode == 0:
            environment = {**os.environ, _MARK: "1"}
            os.execvpe(way[0], [*way, sys.executable, "-m", module, *sys.argv[1:]], environment)


def is_private():
    """Returns whether `enter` has given this process a mount namespace of its own."""
    return _MARK in os.environ


class Disk:
    """A directory with room for so many megabytes.

    Args:
        path: pathlib.Path, created if missing.
        megabytes: int.
    """

    def __init__(self, path, megabytes):
        self.path = path
        self._ballast = path / "ballast"
        path.mkdir(parents=True, exist_ok=True)
        _mount("-t", "tmpfs", "-o", f"size={megabytes}m", "soak", path)

    def fill(self, left=0):
        """Takes up all space but `left` bytes."""
        with open(self._ballast, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            file.truncate(max(0, file.tell() - left))

    def free(self):
        """Frees the space again."""
        self._ballast.unlink(missing_ok=True)


def make_read_only(folder):
    """Makes a directory read-only for everybody; files that are open for writing stay so."""
    _mount("--bind", folder, folder)
    _mount("-o", "remount,bind,ro", folder)


def make_writable(folder):
    """Undoes `make_read_only`, if it was called."""
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)
