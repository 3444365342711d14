"""A gate behind the convolutions too, as a model's option; and what is not to change without it."""

import numpy as np
import pytest

from convnlp import kernels
from convnlp.layers import GLUConvBlock
from convnlp.models import Seq2SeqBackbone

SMALL = {"vocabulary_size": 50, "num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}
IDS = np.random.default_rng(0).integers(3, 50, [2, 6])


@pytest.mark.parametrize("mixer", ["lightweight_conv", "dynamic_conv", "dilated_conv"])
def test_an_option_of_the_mixers(mixer, tmp_path):
    backbone = Seq2SeqBackbone(**SMALL, mixer=mixer, mixer_options={"double_gate": True})
    one_gate = Seq2SeqBackbone(**SMALL, mixer=mixer)
    assert backbone.count_params() == one_gate.count_params() + 4 * SMALL["hidden_dim"] ** 2  # four layers
    assert backbone.cost(6, 5)["parameters"] == backbone.count_params()
    encoded = backbone.encode(IDS)
    whole = backbone.decode(IDS, encoded)
    state, parts = backbone.init_decoder_state(encoded, np.ones_like(IDS, bool), max_length=6), []
    for index in range(6):
        part, state = backbone.decode_step(IDS[:, index : index + 1], state, index)
        parts.append(part)
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=2e-6)  # sums in another order
    backbone.save_to_preset(str(tmp_path / "preset"))
    again = Seq2SeqBackbone.from_preset(str(tmp_path / "preset"))
    np.testing.assert_array_equal(again.encode(IDS), encoded)


def test_the_shipped_preset_gives_bit_for_bit_what_a_block_of_one_gate_gives(monkeypatch):
    backbone = Seq2SeqBackbone.from_preset("dynamic_conv_mini_en")
    assert not any(layer.mixer.double_gate for layer in backbone.encoder.layers)
    ids = np.random.default_rng(0).integers(5, 7000, [3, 40])
    ids[1, 30:] = 0
    mask = ids != 0
    y = np.asarray(backbone.encode(ids, mask))

    def one_gate(self, x, masks, training):
        """What there was before there was an option."""
        mask_of_gate, masks = masks.padding_mask, masks._replace(padding_mask=None)
        gated = kernels.gated_linear_unit(self.gate(x), mask_of_gate)
        return self.output_projection(self.mixer(gated, **masks._asdict(), training=training))

    monkeypatch.setattr(GLUConvBlock, "mix", one_gate)
    np.testing.assert_array_equal(np.asarray(backbone.encode(ids, mask))[mask], y[mask])
