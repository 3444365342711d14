"""The addresses of the processes that train together, and the TF_CONFIG of each."""

import contextlib
import json
import socket

INDEX = "JOB_COMPLETION_INDEX"  # set by Kubernetes in the pods of an indexed Job


def loopback(num_workers):
    """Returns addresses on this machine, a list of strings, with ports that are free now."""
    with contextlib.ExitStack() as stack:  # all open at the same time, so that they differ
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(num_workers)]
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]


def addresses(pattern, num_workers):
    """Returns the addresses that a pattern such as "train-{index}.train:2222" stands for.

    Args:
        pattern: string, with "{index}" in place of a worker's index, and a port.
        num_workers: int.

    Returns:
        list of strings, one address per worker.

    Raises:
        ValueError: if the pattern is malformed.

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
    """Returns the index of the worker that Kubernetes has assigned to this machine.

    Args:
        environment: dict, the environment variables of this process.
        num_workers: int.

    Raises:
        ValueError: if the variable is missing or its index is out of range.
    """
    text = environment.get(INDEX, "")
    if not text.isdecimal() or int(text) >= num_workers:
        raise ValueError(
            f"{INDEX} must be an index below --num_workers={num_workers}, as in the pods of an indexed Job; "
            f"elsewhere, set --index. Received: {INDEX}={text!r}"
        )
    return int(text)


def tf_config(addresses, index):
    """Returns the value of TF_CONFIG for a worker, a string.

    Example:
    >>> tf_config(["a:1", "b:1"], 1)
    '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
    """
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
