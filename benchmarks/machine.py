"""The machine: equal threads and memory settings for both sides, its description, and its best rate."""

import ctypes
import datetime
import importlib.metadata
import os
import platform
import subprocess
import sys

PACKAGES = ("tensorflow", "keras", "keras_nlp", "torch", "numpy")
FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_tile")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h


def use_threads(count):
    """Gives TensorFlow, PyTorch (if installed) and child processes `count` threads.

    Call it before anything runs.

    Args:
        count: int.

    Raises:
        RuntimeError: if TensorFlow already runs with another number of threads.
    """
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ[name] = str(count)
    import tensorflow as tf

    threading = tf.config.threading
    if threading.get_intra_op_parallelism_threads() != count:
        threading.set_intra_op_parallelism_threads(count)
        threading.set_inter_op_parallelism_threads(count)
    if torch := optional_torch():
        torch.set_num_threads(count)


def tune_allocator(arenas=None):
    """Keeps freed memory in the process instead of returning it to the system after each large array.

    PyTorch calls malloc for every output. By default, glibc then maps and clears new pages each time, which
    makes PyTorch up to three times slower. Both sides of a comparison get the same settings.

    Args:
        arenas: int, how many memory pools the threads share. By default, each thread has its own.

    Returns:
        bool, whether the C library accepted the settings.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {_M_MMAP_THRESHOLD: 1 << 30, _M_TRIM_THRESHOLD: (1 << 31) - 1}
    if arenas is not None:
        settings[_M_ARENA_MAX] = arenas
    return all(mallopt(name, value) for name, value in settings.items())


def optional_torch():
    """Returns the module torch, or None if PyTorch is not installed (requirements-bench.txt)."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def describe(threads):
    """Returns a dict of where figures come from: processor, memory, versions, date, commit, command, ..."""
    cpu = _cpu()
    return {
        "cpu": cpu.get("model name", platform.processor() or platform.machine()),
        "cores": os.cpu_count(),
        "threads": threads,
        "flags": [flag for flag in FLAGS if flag in cpu.get("flags", "").split()],
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") != "0",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "command": _command(),
    }


def has_flag(name):
    """Returns whether the processor has an instruction set, named as in /proc/cpuinfo: "avx512_vnni"."""
    return name in _cpu().get("flags", "").split()


def _cpu():
    """Returns what /proc/cpuinfo says about the first processor, as a dict."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = [text.partition(":") for text in file.read().split("\n\n")[0].splitlines()]
    except FileNotFoundError:
        return {}
    return {key.strip(): value.strip() for key, _, value in lines}


def version(package):
    """Returns the installed version of a package, or None."""
    try:
        return importlib.metadata.version(package.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit():
    """Returns the short commit hash of the checkout, with "+" if files differ from it; None outside git."""
    folder = os.path.dirname(os.path.abspath(__file__))
    command = ["git", "-C", folder, "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _command():
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = ["-m", spec.name] if spec else [os.path.basename(sys.argv[0])]
    return " ".join(["python", *program, *sys.argv[1:]])


def matmul(dtype, rows=8192, inner=512, columns=2048):
    """Makes a plain matrix product in TensorFlow, whose rate is the ceiling of a training step.

    Time it in turns with the step, so that both see the same machine.

    Args:
        dtype: str, "float32" or "bfloat16".
        rows: int.
        inner: int.
        columns: int.

    Returns:
        (function without arguments that computes it, its floating-point operations, two per multiply-add).
    """
    import tensorflow as tf

    left = tf.cast(tf.random.stateless_normal([rows, inner], (0, 1)), dtype)
    right = tf.cast(tf.random.stateless_normal([inner, columns], (0, 2)), dtype)
    product = tf.function(tf.matmul, autograph=False)
    # Fetching one value suffices to wait for the product; copying all would take a third longer.
    return lambda: product(left, right)[0, 0].numpy(), 2 * rows * inner * columns
