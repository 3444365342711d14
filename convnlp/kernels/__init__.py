"""The hot operations, in forms for training on CPUs, for accelerators and for exported graphs.

No other part of convnlp knows how they are computed. All forms of a kernel give equal values and gradients;
`feed_forward` has only the form for exported graphs.
"""

from convnlp.kernels.cross_entropy import cross_entropy
from convnlp.kernels.depthwise import depthwise_conv
from convnlp.kernels.dynamic import dynamic_conv
from convnlp.kernels.feed_forward import feed_forward
from convnlp.kernels.fourier import real_dft, real_dft_of_texts
from convnlp.kernels.full_conv import full_conv, full_conv_valid
from convnlp.kernels.gated_linear_unit import gated_linear_unit
from convnlp.kernels.gram import banded, block_size, fold_time, merge_blocks, to_blocks, unfold_time
from convnlp.kernels.head_products import mix_by_head, scores_by_head
from convnlp.kernels.implementations import current_implementation, implementation
from convnlp.kernels.layer_norm import layer_norm
from convnlp.kernels.long_conv import (
    Waves,
    long_conv,
    long_conv_cost,
    long_conv_state_shape,
    long_conv_step,
)
from convnlp.kernels.masked_softmax import masked_softmax
from convnlp.kernels.offset_table import look_up_offsets
from convnlp.kernels.project import by_rows, project
from convnlp.kernels.relu import relu
from convnlp.kernels.shifts import (
    channels_by_head,
    depthwise_conv_valid,
    dynamic_conv_valid,
    left_taps,
    merge_heads,
    pad_for_taps,
    same_segment,
    seen_with_prefix,
    segment_numbers,
    shifted,
    split_heads,
    taps_in_segment,
)
from convnlp.kernels.softmax_parts import merge_softmax_parts, softmax_part
from convnlp.kernels.taylor_attention import (
    taylor_attention,
    taylor_attention_cost,
    taylor_attention_step,
    taylor_memory_shape,
)
from convnlp.kernels.zero_pads import zero_pads

__all__ = [
    "Waves",
    "banded",
    "block_size",
    "by_rows",
    "channels_by_head",
    "cross_entropy",
    "current_implementation",
    "depthwise_conv",
    "depthwise_conv_valid",
    "dynamic_conv",
    "dynamic_conv_valid",
    "feed_forward",
    "fold_time",
    "full_conv",
    "full_conv_valid",
    "gated_linear_unit",
    "implementation",
    "layer_norm",
    "left_taps",
    "long_conv",
    "long_conv_cost",
    "long_conv_state_shape",
    "long_conv_step",
    "look_up_offsets",
    "masked_softmax",
    "merge_blocks",
    "merge_heads",
    "merge_softmax_parts",
    "mix_by_head",
    "pad_for_taps",
    "project",
    "real_dft",
    "real_dft_of_texts",
    "relu",
    "same_segment",
    "scores_by_head",
    "seen_with_prefix",
    "segment_numbers",
    "shifted",
    "softmax_part",
    "split_heads",
    "taps_in_segment",
    "taylor_attention",
    "taylor_attention_cost",
    "taylor_attention_step",
    "taylor_memory_shape",
    "to_blocks",
    "unfold_time",
    "zero_pads",
]
