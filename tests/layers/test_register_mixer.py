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

    name = "own"


def test_a_registered_mixer_is_built_in_a_model_and_loaded_from_a_preset(tmp_path):
    assert register_mixer(Own) is Own
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
    register_mixer(Own)
    assert keras.saving.get_registered_object("convnlp_mixer>own") is Own
    register_mixer(DilatedConv)
    assert keras.saving.get_registered_name(DilatedConv) == "convnlp>DilatedConv"


def test_the_same_definition_again_replaces_it():
    register_mixer(Own)
    again = type("Own", (LightweightConv,), {"__module__": __name__, "name": "own"})
    register_mixer(again)
    assert type(build_mixer("own", hidden_dim=8, num_heads=2)) is again


def named(name):
    return type("Other", (Own,), {"name": name})


class SeparateMasks(TokenMixer):
    name = "own"

    def mix(self, x, padding_mask, segment_ids, training):
        return x


class WithoutCausal(TokenMixer):
    name = "own"

    def __init__(self, hidden_dim, **kwargs):
        super().__init__(hidden_dim, **kwargs)


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (named("dilated_conv"), r"`name` must not be taken: 'dilated_conv' is convnlp\..*DilatedConv.*Other"),
        (named("own-conv"), r"`name` of Other must be an identifier. Received: name='own-conv'"),
        (named(None), r"`name` of Other must be an identifier. Received: name=None"),
        (keras.layers.Dense, r"`cls` must be a subclass of TokenMixer. Received: .*Dense"),
        (Own(8, 2), r"`cls` must be a subclass of TokenMixer. Received: "),
        (SeparateMasks, r"`cls` must have a method mix\(self, x, masks, training\).*segment_ids"),
        (WithoutCausal, r"must name `causal` .*Received: WithoutCausal\(hidden_dim, kwargs\)"),
    ],
    ids=str,
)
def test_what_cannot_be_registered_is_named(cls, message):
    before = dict(MIXERS)
    with pytest.raises(ValueError, match=message):
        register_mixer(cls)
    assert before == MIXERS


def test_a_module_that_cannot_be_imported_is_named():
    with pytest.raises(ValueError, match=r"`--modules` must name .*Received: 'no_such_mixers' \(No mod"):
        programs.import_modules(["no_such_mixers"])
