"""From right to left, in all mixers: against reversed rows, in a stack, and where it is refused.

`convnlp.testing.prefix` has values and reach of one layer.
"""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers import MIXERS, Encoder
from convnlp.layers.relative_position_bias import RelativePositionBias
from convnlp.models import Seq2SeqBackbone
from convnlp.testing import DIM, random_rows
from convnlp.testing.cases import TIME, Case
from convnlp.testing.contract import influence
from tests.mixer_table import MIXER_TABLE

NO_PREFIX = tf.zeros([2, TIME], tf.bool)
# As many positions in front as behind: a mirror image is the same mixer with other weights.
SYMMETRIC = {
    "lightweight_conv": {"num_heads": 2, "kernel_size": 5},
    "dynamic_conv": {"num_heads": 2, "kernel_size": 3, "dilation_rate": 2},
    "dilated_conv": {"kernel_size": 3, "dilation_rate": 2},
    "gated_dilated_conv": {"kernel_size": 3},
    "conv_s2s": {"kernel_size": 5},
    "self_attention": {"num_heads": 2},
    "local_attention": {"num_heads": 2, "window_size": 5},
    "focal_attention": {"num_heads": 2, "window_size": 5, "pool_sizes": (2, 4), "num_windows": 2},
    "relative_attention": {"num_heads": 2, "max_sequence_length": 20},
    "muse": {"num_heads": 2, "intermediate_dim": 12, "kernel_sizes": (3, 5)},
    "linear_attention": {"num_heads": 2, "feature_dim": 4, "short_kernel_size": 3},
    "gated_long_conv": {"num_heads": 2, "num_waves": 3},
}


def mirrored(mixer, options):
    """The mixer that does to reversed rows what `mixer` does to rows, written weight by weight."""
    again = type(mixer)(hidden_dim=DIM, **options)
    again.build((None, None, DIM))
    again.set_weights([_mirrored_weight(mixer, weight) for weight in mixer.weights])
    return again


def _mirrored_weight(mixer, weight):
    value = weight.numpy()
    if weight.name == "kernel" and "generator" in weight.path:  # [D,H*K]
        return value.reshape(DIM, mixer.num_heads, -1)[..., ::-1].reshape(value.shape)
    if weight.name == "kernel" and value.ndim == 3:  # [K,D,2D]
        return value[::-1]
    if weight.name == "offset_weights" or (weight.name == "kernel" and value.shape[1] in (3, 5)):  # [H,K]
        return value[:, ::-1]
    if weight.name in ("local_bias", "window_bias") or weight.name.startswith("pool_weights"):
        return value[..., ::-1]
    if weight.name == "table":  # buckets of what is in front, then of what is behind
        half = value.shape[1] // 2
        swapped = np.concatenate([value[:, half:], value[:, :half]], axis=1)
        swapped[:, 0] = value[:, 0]  # at distance 0, which is in front
        return swapped
    return value


def test_every_mixer_with_a_prefix_has_a_direction():
    assert [name for name, cls in MIXERS.items() if cls.supports_right_to_left] == [
        name for name, cls in MIXERS.items() if cls.supports_prefix
    ]
    assert set(SYMMETRIC) == {name for name, cls in MIXERS.items() if cls.supports_right_to_left}


@pytest.mark.parametrize("name", [name for name in SYMMETRIC if name != "gated_long_conv"])
def test_it_is_the_mirror_image_from_left_to_right_of_the_reversed_row(name):
    mixer, x = Case(name, SYMMETRIC[name], causal=False).build(), random_rows()
    image = mirrored(mixer, SYMMETRIC[name])
    expected = image(x[:, ::-1], prefix_mask=NO_PREFIX)[:, ::-1]
    np.testing.assert_allclose(mixer(x, right_to_left=True), expected, atol=1e-5)


@pytest.mark.parametrize("name", list(SYMMETRIC))
def test_reversing_the_row_alone_is_another_model(name):
    """The same weights would stand for what is in front and for what is behind."""
    mixer, x = Case(name, SYMMETRIC[name], causal=False).build(), random_rows()
    reversed_row = mixer(x[:, ::-1], prefix_mask=NO_PREFIX)[:, ::-1]
    assert np.abs(mixer(x, right_to_left=True) - reversed_row).max() > 0.01


def test_the_bias_of_mirrored_offsets_is_in_the_other_half_of_the_table():
    """What `_mirrored_weight` takes for granted of T5's buckets."""
    bias = RelativePositionBias(2, bidirectional=True)
    bias.build(None)
    bias.table.assign(np.random.default_rng(0).normal(size=bias.table.shape))
    places = tf.range(9)
    before = bias(places, places).numpy()
    value = bias.table.numpy()
    half = value.shape[1] // 2
    swapped = np.concatenate([value[:, half:], value[:, :half]], axis=1)
    swapped[:, 0] = value[:, 0]
    bias.table.assign(swapped)
    np.testing.assert_array_equal(bias(places, places), np.swapaxes(before, 1, 2))


def test_nothing_leaks_through_a_stack():
    mixers = [
        {"name": "lightweight_conv", "hidden_dim": DIM, "num_heads": 2, "kernel_size": 5},
        {"name": "self_attention", "hidden_dim": DIM, "num_heads": 2},
        {"name": "dynamic_conv", "hidden_dim": DIM, "num_heads": 2, "kernel_size": 4, "dilation_rate": 2},
    ]
    encoder = Encoder(mixers, intermediate_dim=12)
    depends = influence(lambda x: encoder(x, right_to_left=True), TIME)
    np.testing.assert_array_equal(depends, np.tri(TIME, dtype=bool).T)


def test_a_backbone_encodes_from_right_to_left():
    backbone = Seq2SeqBackbone(
        50, num_layers=2, num_decoder_layers=0, num_heads=2, hidden_dim=16, intermediate_dim=32
    )
    ids = np.random.default_rng(0).integers(3, 50, [1, 9])
    changed = ids.copy()
    changed[0, 4] = 3 + changed[0, 4] % 40
    one, other = (backbone.encode(each, right_to_left=True).numpy() for each in (ids, changed))
    differs = np.abs(one - other).max(-1)[0] > 0
    np.testing.assert_array_equal(differs, np.arange(9) <= 4)


@pytest.mark.parametrize("cls", [cls for cls in MIXERS.values() if not cls.supports_right_to_left])
def test_a_direction_needs_supports_right_to_left(cls):
    mixer = cls(hidden_dim=DIM, **MIXER_TABLE[cls.name].variants[0])
    with pytest.raises(ValueError, match=rf"`right_to_left` must be False for this {cls.__name__}"):
        mixer(random_rows(), right_to_left=True)


@pytest.mark.parametrize(("causal", "masks"), [(True, {}), (False, {"prefix_mask": NO_PREFIX})])
def test_two_directions_exclude_each_other(causal, masks):
    mixer = MIXERS["dynamic_conv"](hidden_dim=DIM, num_heads=2, causal=causal)
    with pytest.raises(ValueError, match=r"`right_to_left` must be False.*no prefix_mask"):
        mixer(random_rows(), right_to_left=True, **masks)


def test_merged_positions_and_a_direction_exclude_each_other():
    mixers = [{"name": "dynamic_conv", "hidden_dim": DIM, "num_heads": 2}]
    encoder = Encoder(mixers, intermediate_dim=12, pool_sizes=[2])
    with pytest.raises(ValueError, match=r"`right_to_left` must be False: pool_sizes=\[2\]"):
        encoder(random_rows(), right_to_left=True)
