"""The tables of docs/paper.md, one function each, from the finished cells."""

import numpy as np

from benchmarks import pages
from benchmarks.comparison.gains import gain, mean_gain
from benchmarks.comparison.intervals import student
from benchmarks.comparison.summary import compared, runs_of, scores_of
from benchmarks.comparison.summary_page import difference
from benchmarks.comparison.variants import Variant
from benchmarks.questions.table import BASELINE, CONVOLUTIONS
from benchmarks.scoring.paired import share_closed


def accuracy(by_seed, name="accuracy"):
    """Returns the mean over seeds with its interval as text, or "" without a seed.

    Args:
        by_seed: dict, seed -> result.
        name: str, of the score.
    """
    return student([run[name] for run in by_seed.values()]).percent() if by_seed else ""


def signed(interval):
    """Formats a gain: `+3.4 ± 3.0`.

    Example:
    >>> from benchmarks.comparison.intervals import Interval
    >>> signed(Interval(0.034, 0.03, 3)), signed(Interval(-0.01, None, 1))
    ('+3.4 ± 3.0', '-1.0')
    """
    sign = "+" if interval.mean >= 0 else ""
    return sign + interval.percent()


def gains(plans, find):
    """RQ1: from scratch, pre-trained, and the gain, for each task and mixer; then the mean gain.

    Args:
        plans: list of (tokens, task, `Plan`), see `benchmarks.questions.table.plans`.
        find: function of a `Cell` that returns its result, or None.
    """
    mixers = plans[0][2].mixers
    lines, runs = [], {mixer: {} for mixer in mixers}
    for _, task, plan in plans:
        for mixer in mixers:
            runs[mixer][task] = runs_of(plan, mixer, find)
        lines.append([task, *(_from_to(runs[mixer][task]) for mixer in mixers)])
    means = [mean_gain(runs[mixer]) for mixer in mixers]
    last = ["**mean gain**"]
    for found in means:
        text = ""
        if found:
            interval, tasks = found
            text = (
                f"**{signed(interval)}** ({_count(len(tasks), 'task')}, {_count(interval.num_seeds, 'seed')})"
            )
        last.append(text)
    return pages.table(["test accuracy", *mixers], [*lines, last])


def _count(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _from_to(runs):
    scratch, pretrained = (accuracy(runs.get(start)) for start in ("scratch", "pretrained"))
    if not scratch and not pretrained:
        return ""
    found = gain(runs)
    return f"{scratch or '?'} → {pretrained or '?'}" + (f"; {signed(found)}" if found else "")


def budgets(plans, find):
    """RQ2: pre-trained accuracy by task, labels and tokens, and the best convolution minus attention.

    The best convolution is the one with the highest validation accuracy: the test data do not choose it.

    Args:
        plans: as for `gains`.
        find: likewise.
    """
    mixers, lines = plans[0][2].mixers, []
    for tokens, task, plan in plans:
        runs = {mixer: _pretrained(plan, mixer, find) for mixer in mixers}
        if not any(runs.values()):
            continue
        convolutions = [mixer for mixer in CONVOLUTIONS if runs.get(mixer)]
        against = ""
        if convolutions and runs.get(BASELINE):
            best = max(convolutions, key=lambda mixer: _validation(runs[mixer]))
            against = f"{best} {difference(compared(runs[best], runs[BASELINE]))}"
        name, _, labels = task.partition(":")
        lines.append(
            [
                name,
                labels or "all",
                f"{tokens / 1e6:g}M",
                *(accuracy(runs[mixer]) for mixer in mixers),
                against,
            ]
        )
    header = ["task", "labels", "tokens", *mixers, f"best convolution less {BASELINE}"]
    return pages.table(header, lines)


def _pretrained(plan, mixer, find):
    return runs_of(plan, mixer, find).get("pretrained", {})


def _validation(by_seed):
    return float(np.mean([run["validation_accuracy"] for run in by_seed.values()]))


def differences(plans, find):
    """Returns how much better each mixer is than attention, pre-trained, with intervals over test examples.

    Args:
        plans: as for `gains`.
        find: likewise.

    Returns:
        str, "" if no two can be compared.
    """
    runs = {task: {mixer: _pretrained(plan, mixer, find) for mixer in plan.mixers} for _, task, plan in plans}
    told = [found for found in runs.values() if found[BASELINE]]

    def line(mixer):
        both = [(found[mixer], found[BASELINE]) for found in told]
        return [mixer, *(difference(compared(*each)) if each[0] else "" for each in both)]

    lines = [
        line(mixer)
        for mixer in plans[0][2].mixers
        if mixer != BASELINE and any(found[mixer] for found in told)
    ]
    header = [f"pre-trained, less {BASELINE}", *(task for task, found in runs.items() if found[BASELINE])]
    return pages.table(header, lines) if lines else ""


def pairs(plans, find, convolution="dynamic_conv"):
    """RQ4: scores on pairs, differences to a convolution, and the share of attention's that others reach.

    Intervals are by a paired bootstrap over the test examples, averaged over the seeds.

    Args:
        plans: as for `gains`.
        find: likewise.
        convolution: str, the row without anything else that relates the two texts.
    """
    mixers = plans[0][2].mixers
    columns = [
        (f"{task}{end}", name, scores, {mixer: _pretrained(plan, mixer, find) for mixer in mixers})
        for _, task, plan in plans
        for end, name, scores in plan.data.task_kind.columns
    ]
    lines = [[mixer, *(accuracy(runs[mixer], name) for _, name, _, runs in columns)] for mixer in mixers]
    parts = [pages.table(["pre-trained, test accuracy", *(column for column, *_ in columns)], lines)]
    others = [mixer for mixer in mixers if mixer != convolution]
    with_gap = [mixer for mixer in others if mixer != BASELINE]
    for title, rows, needed, cell in (
        (f"points more than {convolution}", others, (convolution,), _more),
        ("share of the gap that is closed", with_gap, (convolution, BASELINE), _closed),
    ):
        told = [column for column in columns if all(column[3][mixer] for mixer in needed)]
        lines = [[row, *(cell(runs, row, convolution, scores) for *_, scores, runs in told)] for row in rows]
        if any(any(line[1:]) for line in lines):
            parts.append(pages.table([title, *(column for column, *_ in told)], lines))
    return "\n\n".join(parts)


def _more(runs, mixer, convolution, scores):
    """Returns by how many points a row is better than the convolution, or "" without a run."""
    return difference(compared(runs[mixer], runs[convolution], scores)) if runs[mixer] else ""


def _closed(runs, mixer, convolution, scores):
    """Returns the share of the gap that a row closes, or "no gap" if the gap itself may be 0."""
    if not runs[mixer]:
        return ""
    found = share_closed(*(scores_of(runs[name], scores) for name in (mixer, convolution, BASELINE)))
    if found is None:
        return "no gap"
    share, low, high = (100 * value for value in found)
    return f"{share:.0f}% ({low:.0f} to {high:.0f})"


def variants(plans, find, costs):
    """RQ5: what each variant sees and costs, its held-out losses, and its accuracy.

    The first loss is that of the best trial, at any of the rates that were tried.

    Args:
        plans: as for `gains`.
        find: likewise.
        costs: dict, see `benchmarks.questions.costs.model_costs`, for two lengths: the costs shown are
            those of the first, the receptive field is that of the second, which must exceed that of any
            convolution.
    """
    mixers, lines = plans[0][2].mixers, []
    for mixer in mixers:
        cost, of_long = costs[mixer].values()
        runs = [_pretrained(plan, mixer, find) for _, _, plan in plans]
        trials = [trial["score"] for trial in trials_of(plans[0][2], mixer, find) if trial]
        pretraining = pretraining_of(plans[0][2], mixer, find)
        lines.append(
            [
                mixer,
                of_long["receptive_field"],
                f"{cost['parameters'] / 1e6:.2f}M",
                f"{cost['multiply_adds'] / 1e6:.1f}M",
                _loss(max((score for score in trials if score is not None), default=None)) if trials else "",
                _loss(pretraining["score"]) if pretraining else "",
                *map(accuracy, runs),
            ]
        )
    length = next(iter(next(iter(costs.values()))))
    pretraining = plans[0][2].pretraining
    amounts = (pretraining.trial_amount, pretraining.amount)
    header = [
        "variant",
        "tokens seen",
        "parameters",
        f"multiply-adds at {length} tokens",
        *(f"held-out loss, {amount / 1e6:g}M tokens" for amount in amounts),
    ]
    return pages.table([*header, *(task for _, task, _ in plans)], lines)


def trials_of(plan, mixer, find):
    """Returns the results of a row's trials of pre-training, None for each that has not been run."""
    return [find(cell) for cell in plan.cells(mixer) if cell.kind == "pretrain_trial"]


def pretraining_of(plan, mixer, find):
    """Returns the result of a row's pre-training, or None."""
    (cell,) = (cell for cell in plan.cells(mixer) if cell.kind == "pretrain")
    return find(cell)


def pretrainings(plans, find):
    """Shows how each encoder was pre-trained: its trials, the chosen rate, and its loss.

    Args:
        plans: as for `gains`, of several questions.
        find: likewise.
    """
    rows = {}
    for tokens, _, plan in plans:
        for mixer in plan.mixers:
            rows.setdefault((tokens, str(Variant.parse(mixer).without("task"))), plan)
    rates, lines = plans[0][2].pretraining.learning_rates, []
    for (tokens, mixer), plan in rows.items():
        trials = trials_of(plan, mixer, find)
        if not any(trials):
            continue
        losses = ["" if trial is None else _loss(trial["score"]) for trial in trials]
        found = pretraining_of(plan, mixer, find)
        rest = [f"{found['learning_rate']:g}", _loss(found["score"])] if found else ["", ""]
        lines.append([mixer, *losses, f"{tokens / 1e6:g}M", *rest])
    trial = f"{plans[0][2].pretraining.trial_amount / 1e6:g}M"
    header = [
        "held-out loss",
        *(f"{rate:g}, {trial} tokens" for rate in rates),
        "tokens",
        "rate taken",
        "loss",
    ]
    return pages.table(header, lines)


def _loss(score):
    return "diverged" if score is None else f"{-score:.3f}"


def speeds(costs, measured):
    """RQ3: multiply-adds per token by the length of the text, and speeds if they were measured.

    Args:
        costs: dict, see `benchmarks.questions.costs.model_costs`.
        measured: dict, mixer -> length -> result of a measurement.
    """
    lengths = list(next(iter(costs.values())))
    lines = [
        [mixer, *(f"{by_length[length]['multiply_adds'] / length / 1e6:.2f}" for length in lengths)]
        for mixer, by_length in costs.items()
    ]
    parts = [pages.table(["million multiply-adds of a token, text of", *lengths], lines)]
    for name, title in (("train", "training"), ("predict", "inference")):
        rates = {
            mixer: {length: result[f"{name}_tokens_per_second"] for length, result in by_length.items()}
            for mixer, by_length in measured.items()
        }
        lines = [
            [mixer, *(_speed(rates, mixer, length, measured) for length in lengths)] for mixer in measured
        ]
        if lines:
            parts.append(pages.table([f"{title}, tokens/s (and times those of attention)", *lengths], lines))
    return "\n\n".join(parts)


def _speed(rates, mixer, length, measured):
    """Returns `12,345 (1.20)`: a speed and its ratio to attention's, marked if the machine was busy."""
    if length not in rates[mixer]:
        return ""
    rate, of_attention = rates[mixer][length], rates.get(BASELINE, {}).get(length)
    ratio = f" ({rate / of_attention:.2f})" if of_attention and mixer != BASELINE else ""
    return f"{rate:,.0f}{ratio}{' †' if measured[mixer][length]['busy'] else ''}"
