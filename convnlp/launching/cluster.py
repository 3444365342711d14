"""Which processes train together: their addresses, and the TF_CONFIG that tells each of them."""

import contextlib
import json
import socket

INDEX = "JOB_COMPLETION_INDEX"  # that Kubernetes gives the pods of an indexed Job


def loopback(num_workers):
    """Addresses on this machine, with ports that are free now."""
    with contextlib.ExitStack() as stack:  # all at a time, so that they differ
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(num_workers)]
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]


def addresses(pattern, num_workers):
    """The addresses that a pattern such as "train-{index}.train:2222" stands for.

    Args:
        pattern: string with "{index}" in the place of a worker's index, and a port.
        num_workers: int.

    Raises:
        ValueError: if it is no such pattern.

    Example:
    >>> addresses("train-{index}.train:2222", 2)
    ['train-0.train:2222', 'train-1.train:2222']
    """
    host, _, port = pattern.rpartition(":")
    if "{index}" not in host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(
            f"`address` must be HOST:PORT with {{index}} in the host's name. Received: address={pattern!r}"
        )
    return [pattern.replace("{index}", str(index)) for index in range(num_workers)]


def own_index(environment, num_workers):
    """The index of the worker that this machine is to run, by Kubernetes.

    Args:
        environment: dict, the variables of this process.
        num_workers: int.

    Raises:
        ValueError: if it is not said, or there is no such worker.
    """
    text = environment.get(INDEX, "")
    if not text.isdecimal() or int(text) >= num_workers:
        raise ValueError(
            f"{INDEX} must be an index below --num_workers={num_workers}, as in the pods of an indexed Job; "
            f"--index says it elsewhere. Received: {INDEX}={text!r}"
        )
    return int(text)


def tf_config(addresses, index):
    """The value of TF_CONFIG for a worker.

    Example:
    >>> tf_config(["a:1", "b:1"], 1)
    '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
    """
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
