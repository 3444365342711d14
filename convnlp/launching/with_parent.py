"""Runs a command that ends with the process that started it, even if that process is killed by kill -9.

    python with_parent.py PARENT COMMAND ...

PARENT is the ID of that process. On Linux, the kernel ends the command; elsewhere, the heartbeat of a worker
notices (see `convnlp.training.heartbeat`).
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # prctl.h


def main(parent, *command):
    """Replaces this process by the command."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):  # it has died already
            sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
