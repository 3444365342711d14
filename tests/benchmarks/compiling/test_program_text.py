"""Cycles and operations, counted in a program small enough to count by hand."""

import doctest
import re

from benchmarks.compiling import program_text

# A loop of three turns, a fusion around a product, a fusion without one, a copy that costs nothing.
# <NAME CYCLES> stands for what the compiler writes behind a fusion.
_TEXT = """HloModule jit_step, is_scheduled=true

%fused_product (p0: bf16[8,8], p1: bf16[8,8]) -> bf16[8,8] {
  %p0 = bf16[8,8]{1,0} parameter(0)
  %p1 = bf16[8,8]{1,0} parameter(1)
  ROOT %convolution.1 = bf16[8,8]{1,0} convolution(%p0, %p1), dim_labels=bf_io->bf
}

%fused_sum (p0: bf16[8,8]) -> bf16[8,8] {
  %p0 = bf16[8,8]{1,0} parameter(0)
  %gather.9 = bf16[8,8]{1,0} gather(%p0, %p0), slice_sizes={1,8}
  ROOT %add.1 = bf16[8,8]{1,0} add(%gather.9, %p0)
}

%body (s: (s32[], bf16[8,8])) -> (s32[], bf16[8,8]) {
  %s = (s32[], bf16[8,8]{1,0}) parameter(0)
  %x = bf16[8,8]{1,0} get-tuple-element(%s), index=1
  %fusion.2 = bf16[8,8]{1,0} fusion(%x), kind=kLoop, calls=%fused_sum, <encoder/layer/mixing/muse/add 10>
  ROOT %tuple = (s32[], bf16[8,8]{1,0}) tuple(%s, %fusion.2)
}

%condition (s: (s32[], bf16[8,8])) -> pred[] {
  %s = (s32[], bf16[8,8]{1,0}) parameter(0)
  ROOT %less = pred[] compare(%s, %s), direction=LT
}

ENTRY %main (a: bf16[8,8], b: bf16[8,8]) -> bf16[8,8] {
  %a = bf16[8,8]{1,0} parameter(0)
  %b = bf16[8,8]{1,0} parameter(1)
  %fusion.1 = bf16[8,8]{1,0:T(8,128)} fusion(%a, %b), calls=%fused_product, <layer_1/feed_forward/MatMul 100>
  %copy.1 = bf16[8,8]{0,1:T(8,128)S(1)} copy(%fusion.1)
  %start.1 = (bf16[8,8]{1,0:S(1)}, bf16[8,8]{1,0}, u32[]{:S(2)}) copy-start(%b)
  %done.1 = bf16[8,8]{1,0:S(1)} copy-done(%start.1)
  %while.1 = (s32[], bf16[8,8]{1,0}) while(%copy.1), condition=%condition, body=%body, <turns>
  ROOT %out = bf16[8,8]{1,0} fusion(%b), kind=kLoop, calls=%fused_sum, <adafactor/AssignSubVariableOp 7>
}
"""

_FUSION = r'metadata={op_name="\1"}, backend_config={"window_config":{"estimated_cycles":"\2"}}'
TEXT = re.sub(r"<(\S+) (\d+)>", _FUSION, _TEXT).replace(
    "<turns>", 'backend_config={"known_trip_count":{"n":"3"}}'
)


def test_figures_of_a_small_program():
    found = program_text.figures(TEXT)
    assert found["cycles"] == 100 + 3 * 10 + 7
    assert found["matrix_cycles"] == 100
    assert found["cycles_by_part"] == {"feed-forward": 100, "mixer": 30, "optimizer": 7}
    assert found["num_fusions"] == 3
    assert found["operations"] == {"copy": 1, "gather": 1, "while": 1}
    # Of arrays of 128 bytes: fusion.1 three, copy.1 one, as its result is in the fast memory, start.1 one,
    # whose target is there too, fusion.2 two in each turn, out two.
    assert found["moved_bytes"] == 128 * (3 + 1 + 1 + 3 * 2 + 2)


def test_parts_are_those_of_a_step():
    names = {
        "encoder_1/layer_3_1/dropout_2/stateless_random_uniform/StatelessRandomUniformV2": "dropout",
        "adafactor/AssignSubVariableOp_7": "optimizer",
        "adam_w/ResourceApplyAdam_4": "optimizer",
        "global_norm/L2Loss_3": "clipping",
        "gradient_tape/decoder_1/layer_1_1/mixing_1/gate_1/Tensordot/MatMul/MatMul": "mixer",
        "encoder_1/layer_3_1/feed_forward_1/inner_1/Tensordot/MatMul": "feed-forward",
        "decoder_1/layer_2_1/cross_norm_1/moments/variance": "norm",
        "encoder_1/final_norm_1/moments/mean": "norm",
        "decoder_1/layer_2_1/key_1/Tensordot/MatMul": "cross-attention",
        "decoder_1/layer_2_1/transpose/transpose": "cross-attention",
        "gradient_tape/encoder_1/layer_0_1/self_attention_1/add/Sum": "mixer",
        "decoder_1/layer_0_1/self_attention_1/einsum/Einsum": "mixer",
        "decoder_1/layer_0_1/self_attention_1/dropout_1/GreaterEqual": "dropout",
        "SparseSoftmaxCrossEntropyWithLogits/SparseSoftmaxCrossEntropyWithLogits": "loss",
        "gradient_tape/Tensordot/MatMul/MatMul": "loss",
        "token_embedding/GatherV2": "embedding",
        "Cast_4": "other",
    }
    assert {name: program_text.part(f'metadata={{op_name="{name}"}}') for name in names} == names


def test_examples():
    found = doctest.testmod(program_text)
    assert found.attempted
    assert not found.failed
