"""One page of metrics from those of all workers."""


def merged(pages):
    r"""The page that shows every sample of every worker, with the label `worker` before its own.

    A sum would fall when a worker dies, and Prometheus would take that for a restart and count all of it once
    more. Of series of their own it sees which one began again; queries that sum over labels sum over workers.

    Args:
        pages: dict of int to str. The page of `convnlp.serving.core.metrics` of each worker, by its number.

    Returns:
        str.

    Example:
    >>> print(merged({1: '# TYPE :n counter\n:n{a="x"} 3\n', 2: '# TYPE :n counter\n:n{} 1\n'}), end="")
    # TYPE :n counter
    :n{worker="1",a="x"} 3
    :n{worker="2"} 1
    """
    families = {}
    for number, page in sorted(pages.items()):
        samples = None
        for line in page.splitlines():
            if line.startswith("# TYPE "):
                samples = families.setdefault(line, [])
            elif line:
                name, labels = line.split("{", 1)  # no name has a brace, but values of labels may
                comma = "" if labels.startswith("}") else ","
                samples.append(f'{name}{{worker="{number}"{comma}{labels}')
    return "".join(f"{line}\n" for family, samples in families.items() for line in (family, *samples))
