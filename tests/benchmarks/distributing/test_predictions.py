"""Computations out of records, networks out of published rates, the paper's run: against numbers by hand."""

import json

import pytest

from benchmarks.compiling.chips import CHIPS
from benchmarks.cost import PAPER_RUN
from benchmarks.distributing import predictions
from benchmarks.distributing.model import Computation
from convnlp.models import Seq2SeqBackbone
from tests.benchmarks.compiling.test_page import compiled
from tests.documentation import ROOT

MODELS = {
    "measured": {"parameters": 5e6, "multiply_adds": 1e9},
    "mini": {"parameters": 10e6, "multiply_adds": 4e9},
    "base": {"parameters": 200e6, "multiply_adds": 80e9},
}
NETWORK = predictions.Network("1 GB/s", lambda n: 1e9, lambda n: 2 * (n - 1), 1e-3)


def test_weak_scaling_by_hand():
    # 8 rows: 0.2 + 8 * 0.1 = 1 s. 500 MB over 4: 0.75 s and two times 6 hops of 1 ms. The backward pass of
    # the rows takes 0.533 s, which hides as much.
    found = predictions.weak(Computation(0.2, 0.1), NETWORK, 500e6, 4)
    assert found.exchange_seconds == pytest.approx(0.762)
    assert found.seconds == pytest.approx((1.762, 1.762 - 1.6 / 3))
    assert found.efficiencies == pytest.approx((1 / 1.762, 1 / (1.762 - 1.6 / 3)))


def test_strong_scaling_by_hand():
    # 128 rows alone: 13 s. 32 rows each: 3.4 s, whose backward pass hides all of the exchange.
    found = predictions.strong(Computation(0.2, 0.1), NETWORK, 500e6, 4)
    assert found.rows == 32
    assert found.seconds == pytest.approx((3.4 + 0.762, 3.4))
    assert found.efficiencies == pytest.approx((13 / (4 * 4.162), 13 / (4 * 3.4)))
    assert found.days == pytest.approx((4.162 * 524288 / 86400, 3.4 * 524288 / 86400))
    assert predictions.strong(Computation(0.2, 0.1), NETWORK, 500e6, 256) is None


def test_one_worker_exchanges_nothing():
    for predict in (predictions.weak, predictions.strong):
        found = predict(Computation(0.2, 0.1), NETWORK, 500e6, 1)
        assert found.exchange_seconds == 0.0
        assert found.efficiencies == pytest.approx((1.0, 1.0))


def test_ethernet_carries_less_than_its_bits_and_no_more_than_the_software():
    found = predictions.ethernet(10)
    assert found.rate(64) == pytest.approx(1.25e9 * 1460 / 1538)
    assert found.num_hops(64) == 126
    assert predictions.as_measured(0.7e9, 10).rate(64) == 0.7e9
    assert predictions.as_measured(7e9, 10).rate(64) == found.rate(64)


def test_the_interconnect_is_that_of_the_slice():
    found = predictions.interconnect(CHIPS["v5e"])
    # 400 MB over 16 chips at 100 GB/s: 7.5 ms; two times 12 hops of 1 us.
    assert found.exchange_seconds(400e6, 16) == pytest.approx(7.5e-3 + 24e-6)


def test_a_record_divides_into_what_grows_with_rows_and_what_does_not():
    clock = CHIPS["v5e"].cycles_per_second
    record = compiled(
        cycles=8e-3 * clock,
        cycles_by_part={"mixer": 6e-3 * clock, "optimizer": 1.5e-3 * clock, "clipping": 0.5e-3 * clock},
    )
    found = predictions.of_record(record)
    assert (found.fixed_seconds, found.seconds_per_row) == pytest.approx((2e-3, 6e-3 / 8))
    # A roofline above the cycles counts: 16 ms of bytes, divided in the same way.
    slower = predictions.of_record({**record, "moved_bytes": 16 * 819e6})
    assert (slower.fixed_seconds, slower.seconds_per_row) == pytest.approx((4e-3, 12e-3 / 8))


def test_a_measured_step_becomes_one_of_another_model():
    # 0.1 s and 0.02 s a row; mini has twice the parameters and four times the multiply-adds.
    found = predictions.of_cpu([(5, 0.2), (10, 0.3)], MODELS, "mini")
    assert (found.fixed_seconds, found.seconds_per_row) == pytest.approx((0.2, 0.08))


def test_the_nearest_record_is_taken_and_another_size_scaled():
    records = {
        "a": compiled(size="mini", batch_size=64),
        "b": compiled(size="mini", batch_size=8),
        "c": compiled("muse", size="mini"),
        "d": {**compiled(size="base"), "refusal": {"stage": "compiling", "operation": "memory"}},
    }
    assert predictions.find_record(records, "mini", "v5e") is records["b"]
    assert predictions.find_record(records, "base", "v5e") is None
    assert predictions.find_record(records, "mini", "v4") is None
    (mini,) = predictions.of_chip(records, MODELS, "mini", "v5e").values()
    assert mini == predictions.of_record(records["b"])
    scaled, peak = predictions.of_chip(records, MODELS, "base", "v5e").values()
    assert scaled.seconds_per_row == pytest.approx(20 * mini.seconds_per_row)
    assert peak.seconds(8) == pytest.approx(6 * 80e9 * 8 / 197e12)


def test_the_models_are_those_that_ship_and_were_compiled(monkeypatch):
    monkeypatch.setattr(predictions, "SIZES", ("mini",))  # base takes a gigabyte
    found = predictions.models()
    encoder = Seq2SeqBackbone.from_preset("dynamic_conv_mini_en").encoder_only()
    assert found["measured"]["parameters"] == encoder.count_params()
    record = json.loads((ROOT / "docs" / "tpu.json").read_text())["v5e-mini-dynamic_conv-8x512"]
    assert found["mini"]["parameters"] == record["parameters"]
    assert found["mini"]["multiply_adds"] * 8 == record["multiply_adds"]
    assert PAPER_RUN["batch_size"] == predictions.ROWS * PAPER_RUN["chips"]
