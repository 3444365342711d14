"""A Dask cluster of worker processes on this machine, for the tests that need Apache Beam and Dask."""

import contextlib
import importlib.util

import pytest

IS_INSTALLED = all(map(importlib.util.find_spec, ("apache_beam", "distributed")))


def needs_dask(test):
    """Marks a test that runs on a cluster."""
    skip = pytest.mark.skipif(not IS_INSTALLED, reason="Apache Beam with Dask is not installed")
    return pytest.mark.beam(pytest.mark.multiprocess(skip(test)))


@contextlib.contextmanager
def running(num_workers=1):
    """A `LocalCluster` of workers with two threads each."""
    import dask
    from distributed import LocalCluster

    slow_machine = {"distributed.comm.timeouts.connect": "300s"}
    with (
        dask.config.set(slow_machine),
        LocalCluster(n_workers=num_workers, threads_per_worker=2, dashboard_address=":0") as cluster,
    ):
        yield cluster
