"""Addresses and indices of workers."""

import re

import pytest

from convnlp.launching import cluster


def test_ports_of_this_machine_differ():
    found = cluster.loopback(3)
    assert len(set(found)) == 3
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+", address) for address in found)


@pytest.mark.parametrize(
    "pattern", ["train:2222", "{index}:train", "train-{index}", "train:{index}", "a-{index}:0"]
)
def test_no_pattern_of_an_address(pattern):
    with pytest.raises(ValueError, match=r"`address` must be HOST:PORT with {index} .* Received: address="):
        cluster.addresses(pattern, 2)


def test_the_index_of_a_pod():
    assert cluster.own_index({"JOB_COMPLETION_INDEX": "2"}, 3) == 2
    for environment in ({}, {"JOB_COMPLETION_INDEX": "3"}, {"JOB_COMPLETION_INDEX": "-1"}):
        with pytest.raises(ValueError, match=r"JOB_COMPLETION_INDEX must be an index below --num_workers=3"):
            cluster.own_index(environment, 3)
