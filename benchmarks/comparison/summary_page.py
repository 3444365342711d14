"""How several tasks are shown together: tables and sentences."""

from benchmarks.comparison.ranks import SIGNIFICANCE


def table_cells(summary):
    """Returns mean scores and ranks as (header, lines), all of str, the ranked mixers first.

    Args:
        summary: dict, see `benchmarks.comparison.summary.collect`.
    """
    scores, tasks, ranking = summary["scores"], summary["tasks"], summary["ranking"]
    ranks = ranking.ranks if ranking else {}
    order = [*ranks, *(mixer for mixer in scores if mixer not in ranks)]
    lines = [
        [
            mixer,
            *(f"{100 * scores[mixer][task]:.1f}" if task in scores[mixer] else "" for task in tasks),
            f"{ranks[mixer]:.2f}" if mixer in ranks else "",
        ]
        for mixer in order
    ]
    return ["mixer", *tasks, "mean rank"], lines


def paired_cells(summary):
    """Returns differences from the best mixer by mean rank, (header, lines); no lines without a ranking."""
    tests = summary["paired"]
    lines = [
        [mixer, *(difference(tests[task][mixer]) for task in tests)]
        for mixer in (list(summary["ranking"].ranks)[1:] if summary["ranking"] else ())
    ]
    return ["mixer", *tests], lines


def difference(test):
    """Formats a difference in points for the tables.

    Args:
        test: see `benchmarks.comparison.summary.compared`.

    Example:
    >>> difference((-0.023, -0.04, -0.005, 0.012))
    '-2.3 (-4.0 to -0.5), p 0.012'
    >>> difference((0.2, 0.1, 0.3, 0.0))
    '+20.0 (+10.0 to +30.0), p < 1e-99'
    """
    mean, low, high = (100 * value for value in test[:3])
    p_value = ""
    if test[3] is not None:
        p_value = f", p {test[3]:.2g}" if test[3] > 1e-99 else ", p < 1e-99"  # 0 if it underflows
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f}){p_value}"


def notes(summary):
    """Returns what a reader must know about the figures, a list of sentences."""
    ranking = summary["ranking"]
    if ranking is None:
        return ["No two mixers are finished on a common task yet."]
    friedman = ""
    if ranking.p_value is not None:
        alike = "may be alike" if ranking.p_value >= SIGNIFICANCE else "are not all alike"
        friedman = f" By Friedman's test they {alike} (p = {ranking.p_value:.2g})."
    first, apart = next(iter(ranking.ranks)), f"{ranking.critical_difference:.2f}"
    tasks = counted_tasks(ranking.num_tasks)
    return [
        f"Mean ranks are over the {tasks} that all ranked mixers have; 1 is the best."
        f"{friedman} Mean ranks that differ by less than {apart} may be alike by Nemenyi's test.",
        f"The second table gives the points by which a mixer differs from {first}, with the 95% interval "
        "of a paired bootstrap over the test examples, the seeds averaged, and the p-value of McNemar's "
        "exact test for one seed of each. One in twenty such tests is below 0.05 by chance.",
    ]


def counted_tasks(count):
    """Returns a number of tasks as text: `one task`, `2 tasks`."""
    return "one task" if count == 1 else f"{count} tasks"
