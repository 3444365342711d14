from convnlp.layers import MIXERS, TokenMixer
from tests.mixer_table import CASES, MIXER_TABLE


def test_every_mixer_has_a_row():
    assert set(MIXER_TABLE) == set(MIXERS)


def test_every_mixer_is_tried_in_every_direction_it_supports():
    tried = {(case.name, case.causal) for case in CASES}
    supported = {(name, False) for name in MIXERS} | {
        (name, True) for name in MIXERS if MIXERS[name].supports_causal
    }
    assert tried == supported


def test_every_mixer_keeps_the_contracts_signatures():
    for cls in MIXERS.values():
        assert issubclass(cls, TokenMixer)
        for method in ("call", "init_state", "step"):
            assert getattr(cls, method) is getattr(TokenMixer, method), (
                f"{cls.__name__}.{method} skips the checks"
            )
