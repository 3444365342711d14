import pathlib

import pytest
import tensorflow as tf

from convnlp import product_speed
from convnlp.runs import components


def test_products_are_measured():
    for dtype in ("float32", "bfloat16"):
        assert 1e8 < product_speed.products_per_second(dtype) < 1e15
    assert 1e-3 < product_speed.time_share() < 1e3


@pytest.mark.parametrize(("share", "is_faster"), [(0.79, True), (0.81, False), (1.6, False)])
def test_bfloat16_must_be_clearly_faster(share, is_faster, monkeypatch):
    monkeypatch.setattr(product_speed, "time_share", lambda: share)
    assert product_speed.bfloat16_is_faster() == is_faster


def test_a_process_has_one_answer(monkeypatch):
    shares = iter([0.5])
    monkeypatch.setattr(product_speed, "time_share", shares.__next__)
    assert product_speed.bfloat16_is_faster()
    assert product_speed.bfloat16_is_faster()
    product_speed.settle(False)
    assert not product_speed.bfloat16_is_faster()


@pytest.mark.parametrize(
    ("flags", "is_faster", "expected"),
    [
        ("avx2 avx512_bf16 amx_bf16", None, True),
        ("avx2 avx512_bf16", True, True),
        ("avx2 avx512_bf16", False, False),
        ("avx2 avx512f", None, False),
    ],
)
def test_only_a_processor_with_bfloat16_and_no_matrix_unit_is_timed(flags, is_faster, expected, monkeypatch):
    def timed():
        assert is_faster is not None, "was timed"
        return is_faster

    monkeypatch.setattr(product_speed, "bfloat16_is_faster", timed)
    monkeypatch.setattr(pathlib.Path, "exists", lambda path: True)
    monkeypatch.setattr(pathlib.Path, "read_text", lambda path: f"flags\t\t: fpu {flags} vme\n")
    strategy = tf.distribute.get_strategy()
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    assert components._has_fast_bfloat16(strategy) == expected
