"""Whether a program keeps the memory of large arrays, by the pages that it asks the system for."""

import os
import platform

import pytest

from tests import test_startup

pytestmark = [
    pytest.mark.multiprocess,
    pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the settings are glibc's"),
]
PAGES = (100 << 20) // os.sysconf("SC_PAGE_SIZE")
CODE = """
import ctypes, resource, threading
from convnlp import allocator

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
libc.free.argtypes = (ctypes.c_void_p,)
libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)

def fill():
    array = libc.malloc(100 << 20)
    libc.memset(array, 1, 100 << 20)
    libc.free(array)

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    thread = threading.Thread(target=fill)
    thread.start()
    thread.join()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

os.cpu_count = lambda: 2
"""


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in [name for name in os.environ if name.startswith("MALLOC_") or name == "GLIBC_TUNABLES"]:
        monkeypatch.delenv(name)


def run(code, **environment):
    """Returns the words that this code prints in a fresh process."""
    return test_startup.run(CODE + code, **environment).stdout.split()


def test_a_program_reuses_the_pages_of_a_large_array_in_any_thread():
    assert int(run("faults(); print(faults())")[0]) >= PAGES
    assert int(run("allocator.keep_memory(); faults(); print(faults())")[0]) < PAGES / 100


@pytest.mark.parametrize(
    "setting", [{"MALLOC_ARENA_MAX": "4"}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=4"}]
)
def test_settings_of_the_user_stay(setting):
    assert int(run("allocator.keep_memory(); faults(); print(faults())", **setting)[0]) >= PAGES


def test_many_cores_keep_a_pool_for_each_thread():
    """Threads might wait for each other. Arrays of a thread above 64 MB do not fit into its pool."""
    code = "os.cpu_count = lambda: 64; allocator.keep_memory(); faults(); print(faults())"
    assert int(run(code)[0]) >= PAGES


@pytest.mark.parametrize(
    ("module", "times"),
    [("convnlp.pretrain", 1), ("benchmarks.comparison.worker", 1), ("benchmarks.kernels", 0)],
)
def test_benchmarks_choose_settings_of_their_own(module, times):
    code = (
        "calls = []; allocator.keep_memory = lambda: calls.append(1);"
        f"sys.orig_argv = ['python', '-m', '{module}']; startup.begin(); print(len(calls))"
    )
    assert run(code) == [str(times)]
