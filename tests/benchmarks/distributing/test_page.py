"""What the page says of times and records that can be worked out by hand."""

import doctest

from benchmarks.distributing import page, predictions
from tests.benchmarks.compiling.test_page import compiled
from tests.benchmarks.distributing.test_measured import CELLS
from tests.benchmarks.distributing.test_predictions import MODELS


def result(cells):
    models = MODELS | {"measured": {"parameters": 6e6, "multiply_adds": 1e9}}
    return {
        "machine": {"cpu": "a CPU", "flags": ["avx2"], "threads": None},
        "settings": {"rows": 12, "num_cores": 2, "steps_per_call": 4},
        "cells": cells,
        "models": models,
        "chips": predictions.of_chips({"a": compiled(size="mini")}, models, page.CHIP),
    }


def lines(text, first):
    return [line for line in text.splitlines() if line.startswith(f"| {first} |")]


def test_measured_times_are_shown():
    text = page.text(result(CELLS))
    assert "**24.0 MB of gradients** per step; 2 cores. Rounds: 1. Every time is a median over" in text
    assert "a median over at least 3 calls of 4 steps each" in text
    assert "other processes used at most 2% of the machine" in text
    one, strong, *_ = lines(text, 1)
    assert one == "| 1 | 1 | 12 | 700 | 700 |  | 2,194 |  | 60 |  |  |"
    weak, strong, *_ = lines(text, 2)
    assert weak == "| 2 | 1 | 12 | 800 | 700 | 100 | 3,840 | 87 | 66.7 | 90 | 240 |"
    assert strong == "| 2 | 1 | 6 | 500 | 400 | 100 | 3,072 | 70 | 75 | 80 | 240 |"
    assert lines(text, 4)[0] == "| 4 | 0.5 | 12 | 1,750 | 1,400 | 350 | 3,511 | 80 | 66.7 | 90 |  |"
    assert "| 2 | 24 | 650 | 4,726 | 50 |" in text
    assert "| flags | avx2 |" in text
    assert "threads" not in text


def test_machines_are_predicted_from_them():
    text = page.text(result(CELLS))
    assert "| as measured, over 10 Gbit/s | 0.24 |" in text
    assert "| 100 Gbit/s | 11.9 |" in text
    # Size mini: 6 rows in 0.25 s and 24 in 0.65 s are a line of 0.1167 + 0.0222 rows, with ten sixths of the
    # parameters and four times the multiply-adds of the model that was measured. Eight rows take 0.9056 s;
    # 40 MB over two machines 1/6 s and two times two hops, which the backward pass hides, or nothing does.
    *_, first, second, _, _ = [line.split(" | ")[1:] for line in lines(text, 2)]
    weak, (rows, strong, days, *_) = first[0], second
    assert rows == "64"
    assert weak == f"{100 * 0.9056 / (0.9056 + 1 / 6 + 4e-5):.0f} to 100"
    alone, half = 0.19444 + 128 * 0.08889, 0.19444 + 64 * 0.08889
    assert strong == f"{100 * alone / (2 * (half + 1 / 6)):.0f} to {100 * alone / (2 * half):.0f}"
    assert days == f"{(half + 1 / 6) * 524288 / 86400:.0f} to {half * 524288 / 86400:.0f}"


def test_a_machine_with_one_core_says_nothing_of_the_software():
    alone = [cell for cell in CELLS if cell["num_workers"] == cell["threads"] == 1]
    text = page.text(result(alone))
    assert "nothing is known about the software" in text
    assert "as measured, over" not in text
    assert "nothing is known" not in page.text(result(CELLS))


def test_chips_need_no_measurement():
    text = page.text(result([]))
    assert "Not measured yet." in text
    assert "This needs the measurement." in text
    # Mini's record: 3 ms for 8 rows, nothing of it the optimizer's; 40 MB over 16 chips at 100 GB/s.
    exchange = 2 * 15 / 16 * 40e6 / 100e9 + 24e-6
    found = lines(text, 16)[0].split(" | ")
    assert found[1:5] == ["4x4", "100", "3.00", f"{1e3 * exchange:.2f}"]
    assert found[5] == f"{100 * 3e-3 / (3e-3 + exchange):.0f} to 100"
    assert found[6:8] == ["8", "3.00"]
    assert "scaled from the compiler's cycles for mini" in text
    assert "all operations at the published peak" in text
    assert lines(text, 256)[0].endswith("|  |  |  |  |")  # more chips than rows


def test_examples():
    found = doctest.testmod(page)
    assert found.attempted
    assert not found.failed
