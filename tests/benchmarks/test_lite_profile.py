"""The profile of a TFLite file: names of microkernels, shares, and what goals ask of a core."""

import pytest

from benchmarks import lite_profile, machine
from benchmarks.inferring import microkernels, multiply_adds

REPORT = """
# Samples  Symbol
      6000  [.] xnn_qd8_f32_qc8w_gemm_minmax_ukernel_5x64c4__asm_amd64_avx512vnni
       500  [.] xnn_f32_rminmax_ukernel__avx512f_u64_acc4
       250  [.] xnn_f32_qu8_vcvt_ukernel__avx512skx_u128
      1250  [.] xnn_f32_vadd_ukernel__avx512f_u32
      1000  [.] tflite::Subgraph::InvokeImpl
       750  [.] _PyEval_EvalFrameDefault
       250  [k] clear_page_erms
"""


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("xnn_qd8_f32_qc8w_igemm_minmax_ukernel_1x8c8__avx256vnni", "products in int8"),
        ("xnn_qs8_qc8w_gemm_minmax_fp32_ukernel_4x16c8", "products in int8"),
        ("xnn_f32_gemm_minmax_ukernel_7x16__avx512f_broadcast", "products in float32"),
        ("xnn_f32_dwconv_minmax_ukernel_9p16c__avx512f", "depthwise convolution"),
        ("_ZN12_GLOBAL__N_113pack_lh_fx_qdIfh22xnn_f32_qs8_cvt_params", "quantisation of activations"),
        ("xnn_qs8_f32_vcvt_ukernel__avx512skx_u32", "embedding to float32"),
        ("xnn_f32_vmul_ukernel__avx512f_u32", "gate: product"),
        ("xnn_f32_vmulc_ukernel__avx512f_u32", "norms and masks: product with a number per token"),
        ("xnn_f32_rsum2_ukernel__avx512f_u64_acc4", "norms: mean of squares"),
        ("xnn_f32_rdsum_ukernel_7p7x__avx512f_u64", "pooling"),
        ("pthreadpool_parallelize_1d_tile_1d_dynamic", "calls of operations"),
        ("_PyObject_Malloc", microkernels.ELSEWHERE),
    ],
)
def test_what_a_microkernel_does(function, kind):
    assert microkernels.kind(function) == kind


def test_shares_of_a_report():
    found = microkernels.shares(REPORT.splitlines())
    assert found == {
        "products in int8": 0.6,
        "residual sums": 0.125,
        "calls of operations": 0.1,
        microkernels.ELSEWHERE: 0.1,
        "quantisation of activations": 0.075,
    }
    with pytest.raises(ValueError, match="perf has taken no samples"):
        microkernels.shares(["# nothing"])


def test_what_goals_ask_of_a_core():
    cells = [
        {"ask": "n = 512", "mixer": mixer, "threads": 1, "variant": variant, "milliseconds": ms}
        for mixer, variant, ms in (
            ("self_attention", "openvino-int8", 20.0),
            ("self_attention", "onnxruntime-int8", 30.0),
            ("self_attention", "litert-int8", 1.0),
            ("lightweight_conv", "openvino-int8", 10.0),
        )
    ]
    same, transformer = lite_profile.goals_in_multiply_adds({512: 10**9, 40: 1}, cells, 2e11)
    assert same == {"name": "inference, one text vs the same model elsewhere"} | {
        "length": 512,
        "goal": 1.0,
        "ms": 10.0,
        "share": pytest.approx(0.5),
    }
    assert (transformer["goal"], transformer["ms"]) == (4.0, 5.0)
    assert transformer["share"] == pytest.approx(1.0)
    line = "| 4.0x one text vs the Transformer | 512 | 5 | 100% |"
    assert lite_profile.asked_for([transformer]).splitlines()[-1] == line


def test_tables():
    profiles = {
        32: {"ms": 1.0, "kinds": {"products in int8": 0.8, "pooling": 0.2}},
        128: {"ms": 4.0, "kinds": {"pooling": 0.4, "products in int8": 3.2, "softmax": 0.4}},
    }
    assert lite_profile.table(profiles).splitlines()[2:] == [
        "| products in int8 | 0.8 (80%) | 3.2 (80%) |",
        "| pooling | 0.2 (20%) | 0.4 (10%) |",
        "| softmax | 0 (0%) | 0.4 (10%) |",
        "| all | 1 | 4 |",
    ]
    lines = lite_profile.ceiling({32: 10**8, 128: 4 * 10**8}, profiles, 2e11, "AMX").splitlines()
    assert lines[0] == "At best 200 billion multiply-adds per second, by AMX."
    assert lines[-1] == "| 128 | 400.0 | 2 | 4 | 3.2 | 62% |"


@pytest.mark.parametrize("unit", multiply_adds.UNITS, ids=lambda unit: unit.title)
def test_multiply_adds_are_counted_by_the_clock(unit):
    if not machine.has_flag(unit.flag):
        pytest.skip(f"the processor has no {unit.title}")
    try:
        run = multiply_adds.compiled(unit)
    except ValueError as error:
        pytest.skip(str(error))
    assert run(0) == 0  # the sum of no products
    assert run(3) == 3 * unit.a_round * 2  # each product is 2
    ticks = iter([0.0, 2.0, 2.0, 3.0, *[3.0, 9.0] * 5])
    assert multiply_adds.a_second(unit, lambda: next(ticks), 10 * unit.a_round) == 10 * unit.a_round


def test_a_unit_that_computes_nothing_has_no_rate(monkeypatch):
    monkeypatch.setattr(multiply_adds, "compiled", lambda unit: lambda rounds: -1)
    with pytest.raises(ValueError, match=r"the system must allow AMX\. Received: -1"):
        multiply_adds.a_second(multiply_adds.UNITS[0], iter(range(99)).__next__)


@pytest.mark.parametrize(
    ("flags", "title"), [({"amx_int8", "avx512_vnni"}, "AMX"), ({"avx512_vnni"}, "AVX512-VNNI")]
)
def test_the_fastest_unit_is_taken(flags, title, monkeypatch):
    monkeypatch.setattr(machine, "has_flag", lambda name: name in flags)
    assert multiply_adds.best().title == title


def test_a_processor_without_such_a_unit_is_refused(monkeypatch):
    monkeypatch.setattr(machine, "has_flag", lambda name: False)
    with pytest.raises(ValueError, match=r"the processor must have AMX \(amx_int8 in .*\) or AVX512-VNNI"):
        multiply_adds.best()
