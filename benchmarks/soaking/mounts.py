"""A small disk of the soak's own, which can be full or read-only: a tmpfs in a mount namespace.

Nobody else sees it, and it is gone with the process, however that ends. It takes root, or user namespaces;
without them there is none, and a fault that needs it is refused.
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
    """Runs this program, `python -m module`, once more in a mount namespace of its own, if there is one."""
    if _MARK in os.environ:
        return
    for way in _WAYS:
        # A mount that is tried in the namespace shows that mounting is allowed there.
        trial = [*way, "mount", "-t", "tmpfs", "none", "/tmp"]
        try:
            done = subprocess.run(trial, capture_output=True)
        except OSError:  # no unshare
            return
        if done.returncode == 0:
            environment = {**os.environ, _MARK: "1"}
            os.execvpe(way[0], [*way, sys.executable, "-m", module, *sys.argv[1:]], environment)


def is_private():
    """Whether this process has a mount namespace of its own, by `enter`."""
    return _MARK in os.environ


class Disk:
    """A directory with room for so many bytes.

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
        """Takes all the room but `left` bytes."""
        with open(self._ballast, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            file.truncate(max(0, file.tell() - left))

    def free(self):
        """Gives the room back."""
        self._ballast.unlink(missing_ok=True)


def make_read_only(folder):
    """Lets nobody write to a directory from now on; files that are open stay so."""
    _mount("--bind", folder, folder)
    _mount("-o", "remount,bind,ro", folder)


def make_writable(folder):
    """Takes `make_read_only` back, if it was called."""
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)
