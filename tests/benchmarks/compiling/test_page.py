"""What the page says of cells, with figures that can be worked out by hand."""

import doctest
import re

import pytest

from benchmarks.compiling import page
from benchmarks.cost import PAPER_RUN
from convnlp.layers import MIXERS


def compiled(mixer="dynamic_conv", chip="v5e", size="base", batch_size=8, optimizer=None, **figures):
    """A step of 1 ms of operations and 2 ms of bytes on a v5e, 3 ms by its cycles."""
    return {
        "cell": {
            "chip": chip,
            "size": size,
            "mixer": mixer,
            "batch_size": batch_size,
            "input_length": 512,
            **({"optimizer": optimizer} if optimizer else {}),
        },
        "commit": "abc1234",
        "tensorflow": "2.21.0",
        "jax": "0.10.2",
        "libtpu": "0.0.52",
        "parameters": 50_000_000,
        "multiply_adds": 25e9,
        "flops": 197e9,
        "bytes_accessed": 9 * 819e6,
        "moved_bytes": 2 * 819e6,
        "transcendentals": 0.0,
        "memory": {"arguments": 2**30, "outputs": 0, "temporaries": 2**31, "code": 2**20},
        "cycles": 3e-3 * 197e12 / (2 * 128 * 128 * 4),
        "matrix_cycles": 1e-3 * 197e12 / (2 * 128 * 128 * 4),
        "cycles_by_part": {"mixer": 3e-3 * 197e12 / (2 * 128 * 128 * 4)},
        "num_fusions": 12,
        "operations": {"copy": 3, "gather": 1},
        **figures,
    }


def refused(operation="Where", **rest):
    found = compiled("fourier", size="mini")
    refusal = {"stage": "lowering", "operation": operation, "reason": "no | form", **rest}
    return {
        **{key: found[key] for key in ("cell", "commit", "parameters", "multiply_adds")},
        "refusal": refusal,
    }


def rows(text):
    """The tables of a page: lists of cells, each under the cells of its header."""
    found, header = [], None
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            header = None
        elif header is None:
            header = cells
        elif set(cells) != {"---"}:
            found.append(dict(zip(header, cells, strict=True)))
    return found


def row(text, **named):
    (found,) = [each for each in rows(text) if named.items() <= each.items()]
    return found


def test_costs_stand_beside_cost_and_the_roofline():
    text = page.text({"a": compiled()})
    costs = row(text, **{"GB in all": "3.00"})
    assert costs["mixer"] == "dynamic_conv"
    assert costs["of `cost()`"] == "1.31"  # 197 of 6 x 25
    assert costs["GB accessed"] == "7.37"
    assert costs["GB moved"] == "1.64"
    assert costs["GB temporary"] == "2.00"
    assert costs["other instructions"] == "3 copy, 1 gather"
    times = row(text, **{"bound by": "memory"})
    assert times["ms of FLOPs"] == "1.00"
    assert times["ms of bytes"] == "2.00"
    assert times["ms by cycles"] == "3.00"
    assert times["% of the peak"] == "25"  # 150 GFLOP of cost() in 3 ms, where 197 take one
    assert times["% in products"] == "33"
    assert times["% mixer"] == "100"
    assert times["% loss"] == "0"


def test_the_optimizer_is_named_unless_it_is_that_of_the_paper():
    cells = [compiled(optimizer=optimizer) for optimizer in (None, "adafactor", "adamw")]
    text = page.text(dict(zip("abc", cells, strict=True)))
    found = [each["mixer"] for each in rows(text) if "GB in all" in each]
    assert found == ["dynamic_conv", "dynamic_conv", "dynamic_conv, adamw"]
    assert len([each for each in rows(text) if "ms of all-reduce" in each]) == 2


def test_the_papers_run_in_hours():
    text = page.text({"a": compiled(), "b": compiled("fourier"), "c": compiled(batch_size=64)})
    found = [each for each in rows(text) if "ms of all-reduce" in each]
    assert [each["mixer"] for each in found] == [
        "dynamic_conv"
    ]  # fourier has no decoder; 64 rows are no paper's
    reduced = 2 * 15 / 16 * 200e6 / 100e9  # of 4 x 4 chips of a pod
    assert found[0]["ms of all-reduce"] == f"{1e3 * reduced:.1f}"
    hours = (0.002 + reduced) * PAPER_RUN["steps"] / 3600
    assert float(found[0]["hours by the roofline"]) == pytest.approx(hours, abs=0.06)
    assert found[0]["hours by cycles"] == f"{(0.003 + reduced) * PAPER_RUN['steps'] / 3600:.1f}"


def test_refusals_are_listed_by_name():
    memory = refused(
        "memory", needed_bytes=24 * 2**30, needed_for="temporaries", memory_bytes=round(15.75 * 2**30)
    )
    text = page.text(
        {"a": refused(), "b": {**memory, "cell": compiled(batch_size=128)["cell"]}, "c": compiled()}
    )
    assert "**1 of 3 steps compiled.** Too large for the chip's memory: 1. Refused: 1." in text
    assert row(text, **{"because of": "`Where`"})["reason"] == "no \\| form"
    assert row(text, **{"because of": "`memory`"})["reason"] == "temporaries alone need 24.0 GB of 15.8"


def test_what_was_not_asked_is_said():
    text = page.text({"a": compiled(), "b": refused()})
    lines = text.partition("## Not compiled yet")[2].splitlines()
    assert "- v4, size mini: all mixers" in lines
    (mini,) = [line for line in lines if line.startswith("- v5e, size mini: ")]
    assert "fourier" not in mini
    assert len(mini.partition(": ")[2].split(", ")) == len(MIXERS) - 1
    (base,) = [line for line in lines if line.startswith("- v5e, size base: ")]
    assert "dynamic_conv" not in base


def test_a_page_of_nothing_is_no_mistake():
    assert "**0 of 0 steps compiled.**" in page.text({})


def test_examples():
    found = doctest.testmod(page)
    assert found.attempted
    assert not found.failed
