"""What follows from the measured times: computation and exchange, efficiency, rate of the all-reduces."""

import statistics

from benchmarks.distributing.model import strong_efficiency, weak_efficiency


def scaling(cells, rows, num_bytes, is_weak):
    """Compares each number of workers with one worker.

    Args:
        cells: list of dicts, see `runs.together`.
        rows: int, of every worker (weak), or of all together (strong).
        num_bytes: int, of the gradients.
        is_weak: bool.

    Returns:
        list of dicts, one for each number of workers: "num_workers", "num_cores", "rows" of each worker;
        per step "seconds", "compute_seconds" (of one worker with as many rows, times the workers per core)
        and "exchange_seconds", the rest; "tokens_per_second"; "efficiency", by the clock; "cpu_seconds" per
        row, and "cpu_efficiency", one worker's CPU time per row divided by that; "bytes_per_second" that
        each worker sent, None if workers shared cores or nothing was exchanged.
    """
    found = []
    first = _alone(cells, rows)
    for cell in cells:
        count = cell["num_workers"]
        if cell["threads"] > 1 or cell["rows"] != (rows if is_weak else rows // count):
            continue
        seconds = statistics.median(cell["seconds"])
        compute = _seconds(_alone(cells, cell["rows"])) * count / cell["num_cores"]
        exchange = seconds - compute
        if is_weak:
            efficiency = weak_efficiency(compute, seconds)
        else:
            efficiency = strong_efficiency(_seconds(first), seconds, cell["num_cores"])
        cpu_seconds = _cpu_seconds_a_row(cell)
        is_exchange = count > 1 and count == cell["num_cores"] and exchange > 0
        found.append(
            {
                **{key: cell[key] for key in ("num_workers", "num_cores", "rows")},
                "seconds": seconds,
                "compute_seconds": compute,
                "exchange_seconds": exchange,
                "tokens_per_second": cell["tokens"] / seconds,
                "efficiency": efficiency,
                "cpu_seconds": cpu_seconds,
                "cpu_efficiency": _cpu_seconds_a_row(first) / cpu_seconds,
                "bytes_per_second": 2 * (count - 1) / count * num_bytes / exchange if is_exchange else None,
            }
        )
    return found


def all_reduce_rate(cells, rows, num_bytes):
    """Returns the bytes per second that a worker sends in weak scaling.

    It is that of the largest number of workers that have cores of their own.

    Returns:
        float, or None if no two workers had cores of their own.
    """
    rates = [each["bytes_per_second"] for each in scaling(cells, rows, num_bytes, is_weak=True)]
    return next((rate for rate in reversed(rates) if rate), None)


def machine_points(cells):
    """Returns (rows, seconds) of one worker with all cores, a list; with one core, of the worker on it."""
    threads = max(cell["threads"] for cell in cells)
    return [
        (cell["rows"], _seconds(cell))
        for cell in cells
        if cell["num_workers"] == 1 and cell["threads"] == threads
    ]


def _alone(cells, rows):
    """Returns the cell of one worker on one core with so many rows."""
    return next(
        cell for cell in cells if (cell["num_workers"], cell["threads"], cell["rows"]) == (1, 1, rows)
    )


def _seconds(cell):
    return statistics.median(cell["seconds"])


def _cpu_seconds_a_row(cell):
    return cell["cpu_seconds"] / (cell["num_workers"] * cell["rows"])
