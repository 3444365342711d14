"""Merges the metrics pages of all workers."""


def merged(pages):
    r"""Returns a page with every sample of every worker, and the label `worker` before its other labels.

    A sum would fall when a worker dies; Prometheus would take that for a restart and count the whole sum
    again. With separate series it sees which one has restarted, and queries that sum over labels sum over
    workers.

    Args:
        pages: dict of int to str. The page of `convnlp.serving.core.metrics` of each worker, by worker
            number.

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
        for line in page.split("\n"):  # splitlines also ends lines at U+2028, which a model's name may have
            if line.startswith("# TYPE "):
                samples = families.setdefault(line, [])
            elif line:
                name, labels = line.split("{", 1)  # names have no braces, but the values of labels may
                comma = "" if labels.startswith("}") else ","
                samples.append(f'{name}{{worker="{number}"{comma}{labels}')
    return "".join(f"{line}\n" for family, samples in families.items() for line in (family, *samples))
