from convnlp.layers import MIXERS
from tests.mixer_table import CASES, MIXER_TABLE


def test_every_mixer_has_a_row():
    assert set(MIXER_TABLE) == set(MIXERS)


def test_every_mixer_is_tried_in_every_direction_it_supports():
    tried = {(case.name, case.causal) for case in CASES}
    supported = {(name, False) for name in MIXERS} | {
        (name, True) for name in MIXERS if MIXERS[name].supports_causal
    }
    assert tried == supported
