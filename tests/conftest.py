"""What every test shares: a quiet TensorFlow on the CPU, and the same random numbers in each test."""

import collections
import gc
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import random
import sys

import numpy as np
import pytest

# How long a test takes, about, by its file or directory, where that is not half a second.
_SECONDS = {
    "gcs": 60,
    "test_your_own_task.py": 25,
    "export": 10,
    "models": 2,
    "objectives": 2,
    "tasks": 2,
    "testing": 2,
}


@pytest.hookimpl(trylast=True)  # when those that are not asked for have gone
def pytest_collection_modifyitems(config, items):
    """Puts the files that take longest first where processes share them, or one would end alone with them.

    xdist hands them out in this order (`--no-loadscope-reorder`); its own goes by the number of tests.
    """
    if not hasattr(config, "workerinput"):
        return
    seconds = collections.Counter()
    for item in items:
        starts_processes = item.get_closest_marker("multiprocess") or item.get_closest_marker("serving")
        about = _SECONDS.get(item.path.name) or _SECONDS.get(item.path.parent.name, 0.5)
        seconds[item.path] += max(about, 6) if starts_processes else about
    items.sort(key=lambda item: -seconds[item.path])  # the tests of a file keep their order


def pytest_collection_finish():
    """Keeps Python from looking for garbage in TensorFlow's modules, a twentieth of the time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True)
def _same_random_numbers():
    """Seeds Python and NumPy, and Keras and TensorFlow where the test uses them."""
    random.seed(0)
    np.random.seed(0)
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(0)


@pytest.fixture(autouse=True)
def _own_measurements(monkeypatch):
    """Lets a test measure, or pretend to, what a process measures once."""
    if "convnlp.product_speed" in sys.modules:
        monkeypatch.setattr(sys.modules["convnlp.product_speed"], "_settled", [])


@pytest.fixture
def own_mixers():
    """Takes away the mixers that the test registers."""
    from convnlp.layers import MIXERS

    ours = dict(MIXERS)
    yield
    MIXERS.clear()
    MIXERS.update(ours)


@pytest.fixture
def own_presets():
    """Takes away the presets that the test registers."""
    from keras_hub.src.utils import preset_utils

    from convnlp.models import preset_names

    tables = (
        preset_utils.BUILTIN_PRESETS,
        preset_utils.BUILTIN_PRESETS_FOR_BACKBONE,
        preset_names._directories,
    )
    ours = [
        {key: dict(value) if isinstance(value, dict) else value for key, value in table.items()}
        for table in tables
    ]
    yield
    for table, before in zip(tables, ours, strict=True):
        table.clear()
        table.update(before)
