"""What a model took to be loaded is returned to the system."""

import subprocess
import sys

import pytest

from convnlp.serving.core import loader
from convnlp.serving.core.metrics import Metrics
from tests.serving import server_process

# The last block holds the others' memory in the process, as whatever stays of a model does.
CODE = """
import ctypes
from convnlp.serving.core.spare_memory import give_back
libc = ctypes.CDLL(None)
if not hasattr(libc, "malloc_trim"):
    raise SystemExit(77)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
blocks = [libc.malloc(50_000) for _ in range(2000)]
for block in blocks:
    ctypes.memset(block, 1, 50_000)
for block in blocks[:-1]:
    libc.free(block)
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
before = resident()
give_back()
assert resident() < before - 80e6, (before, resident())
"""


def test_freed_memory_is_given_back():
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=server_process.ROOT, capture_output=True, text=True, timeout=300
    )
    if done.returncode == 77:
        pytest.skip("the C library is not glibc")
    assert done.returncode == 0, done.stderr


def test_it_is_after_every_load(model_folder, monkeypatch, tmp_path):
    given_back = []
    monkeypatch.setattr(loader, "give_back", lambda: given_back.append(True))
    load = loader.Loader(Metrics())
    load("affine", 1, str(model_folder / "affine" / "1")).close()
    assert len(given_back) == 1
    with pytest.raises(Exception, match="saved_model"):
        load("broken", 1, str(tmp_path))
    assert len(given_back) == 2
