"""What Linux tells about processes: children, the workers of `convnlp launch`, cores, CPU time, memory."""

import contextlib
import json
import os
import pathlib

_TICK = os.sysconf("SC_CLK_TCK")


def cores(folder="/sys/devices/system/cpu"):
    """Returns one logical processor of each physical core that this process may use, a list of numbers.

    Two workers on one core would seem to disturb each other. If the system does not tell, each logical
    processor counts as a core.
    """
    found = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        path = pathlib.Path(folder, f"cpu{cpu}", "topology", "thread_siblings_list")
        siblings = path.read_text(encoding="ascii").strip() if path.exists() else str(cpu)
        found.setdefault(siblings, cpu)
    return list(found.values())


def children(pid):
    """Returns the process ids of its children, a list."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return list(map(int, file.read().split()))


def workers(launcher):
    """Returns the worker processes that a launcher has started: a dict, index -> process id.

    Args:
        launcher: int, its process id.
    """
    found, gone = {}, contextlib.suppress(FileNotFoundError, ProcessLookupError)
    pids = []
    with gone:
        pids = children(launcher)
    for pid in pids:
        with gone:
            for variable in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if variable.startswith(b"TF_CONFIG="):
                    found[json.loads(variable.partition(b"=")[2])["task"]["index"]] = pid
    return found


def pin(pid, cpus):
    """Restricts a process, with all its current threads, to these logical processors."""
    for task in _tasks(pid):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(task, cpus)


def require_pinned(pid, cpus):
    """Raises RuntimeError if a thread of a process may run outside `cpus`."""
    for task in _tasks(pid):
        with contextlib.suppress(ProcessLookupError):
            if os.sched_getaffinity(task) != set(cpus):
                raise RuntimeError(
                    f"thread {task} of process {pid} must run only on {sorted(cpus)}, but may run on "
                    f"{sorted(os.sched_getaffinity(task))}"
                )


def cpu_seconds(pid):
    """Returns the CPU time of a process, user and system, of all threads but not of its children."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        values = file.read().rpartition(")")[2].split()
    return sum(map(int, values[11:13])) / _TICK


def machine_cpu_seconds():
    """Returns the CPU time of all processes of the machine since boot, and of other guests of its host."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICK


def resident(key, pid="self"):
    """Returns the bytes of a process in /proc/PID/status: "VmRSS" now, "VmHWM" at the peak."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for text in file:
            name, _, value = text.partition(":")
            if name == key:
                return int(value.split()[0]) * 1024
    raise KeyError(key)


def _tasks(pid):
    return [int(path.name) for path in pathlib.Path(f"/proc/{pid}/task").iterdir()]
