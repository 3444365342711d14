"""A mixer of one's own stands wherever one of ours may."""

import keras
import numpy as np
import pytest

from convnlp import programs
from convnlp.layers import MIXERS, DilatedConv, LightweightConv, TokenMixer, build_mixer, register_mixer
from convnlp.models import Seq2SeqBackbone

pytestmark = pytest.mark.usefixtures("own_mixers")


class Own(LightweightConv):
    """A lightweight convolution by another name."""


def test_a_registered_mixer_is_built_in_a_model_and_loaded_from_a_preset(tmp_path):
    assert register_mixer("own", Own) is Own
    backbone = Seq2SeqBackbone(20, 1, 2, 8, 16, mixer="own", kernel_size=3)
    ids = np.array([[5, 6, 7, 1, 0]])
    expected = backbone.encode(ids, ids != 0)
    assert isinstance(backbone.encoder.layers[0].mixer, Own)
    backbone.save_to_preset(str(tmp_path))
    np.testing.assert_array_equal(Seq2SeqBackbone.from_preset(str(tmp_path)).encode(ids, ids != 0), expected)
    del MIXERS["own"]
    with pytest.raises(ValueError, match=r"register_mixer.*--modules.*Received: mixer='own'"):
        Seq2SeqBackbone.from_preset(str(tmp_path))


def test_it_is_registered_with_keras_unless_it_is_already():
    register_mixer("own", Own)
    assert keras.saving.get_registered_object("convnlp_mixer>own") is Own
    register_mixer("dilated_conv", DilatedConv)
    assert keras.saving.get_registered_name(DilatedConv) == "convnlp>DilatedConv"


def test_the_same_definition_again_replaces_it():
    register_mixer("own", Own)
    again = type("Own", (LightweightConv,), {"__module__": __name__})
    register_mixer("own", again)
    assert type(build_mixer("own", hidden_dim=8, num_heads=2)) is again


class SeparateMasks(TokenMixer):
    def mix(self, x, padding_mask, segment_ids, training):
        return x


class WithoutCausal(TokenMixer):
    def __init__(self, hidden_dim, **kwargs):
        super().__init__(hidden_dim, **kwargs)


@pytest.mark.parametrize(
    ("name", "cls", "message"),
    [
        ("dilated_conv", Own, r"`name` must not be taken: 'dilated_conv' is convnlp\..*DilatedConv.*Own"),
        ("own-conv", Own, r"`name` must be an identifier. Received: name='own-conv'"),
        (None, Own, r"`name` must be an identifier. Received: name=None"),
        ("own", keras.layers.Dense, r"`cls` must be a subclass of TokenMixer. Received: .*Dense"),
        ("own", Own(8, 2), r"`cls` must be a subclass of TokenMixer. Received: "),
        (
            "own",
            SeparateMasks,
            r"`cls` must have a method mix\(self, x, masks, training\).*segment_ids",
        ),
        ("own", WithoutCausal, r"must name `causal` .*Received: WithoutCausal\(hidden_dim, kwargs\)"),
    ],
    ids=str,
)
def test_what_cannot_be_registered_is_named(name, cls, message):
    before = dict(MIXERS)
    with pytest.raises(ValueError, match=message):
        register_mixer(name, cls)
    assert before == MIXERS


def test_a_module_that_cannot_be_imported_is_named():
    with pytest.raises(ValueError, match=r"`--modules` must name .*Received: 'no_such_mixers' \(No mod"):
        programs.import_modules(["no_such_mixers"])
