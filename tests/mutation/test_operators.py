import doctest
import textwrap

import pytest

from tests.documentation import ROOT
from tests.mutation import operators
from tests.mutation.files import mixer_names, parts_of
from tests.mutation.operators import mutants


def changes(body):
    """What becomes of the lines of a method."""
    source = "class Mixer:\n    def mix(self, x, padding_mask):\n" + textwrap.indent(body, " " * 8)
    return [(mutant.kind, mutant.shown(source)[1]) for mutant in mutants(source)]


def test_examples():
    done = doctest.testmod(operators)
    assert done.attempted
    assert not done.failed


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a + b", [("sign", "return a - b")]),
        ("return (a) - (b)", [("sign", "return (a) + (b)")]),
        ("return -a", [("sign", "return a")]),
        ("return zero_pads(a, m)", [("pad", "return a")]),
        ("return tf.pad(a, [[0, 0], [1, n]])", [("pad", "return tf.pad(a, [[0, 0], [n, 1]])")]),
        ("return mix(a, segment_ids)", [("mask", "return mix(a, None)")]),
        ("return mix(a, m=padding_mask)", [("mask", "return mix(a, m=None)")]),
        ("return mix(a, masks.segment_ids)", [("mask", "return mix(a, None)")]),
        ("return mix(a, masks)", [("mask", "return mix(a, type(masks)())")]),
        ("return a <= b", [("mask", "return a < b")]),
        ("return (a > 0) & b", [("mask", "return (a > 0) | b"), ("mask", "return (a >= 0) & b")]),
        ("return tf.where(a, b, c)", [("mask", "return tf.where(a, c, b)")]),
        ("return mix(self.causal)", [("mask", "return mix((not self.causal))")]),
        ("return a[:, 1:]", [("index", "return a[:, 2:]")]),
        ("return mean(a, axis=-1)", [("index", "return mean(a, axis=0)")]),
        ("é = a[0]  # [B,T,D]", [("index", "é = a[1]  # [B,T,D]")]),
        ('return f"{a + b}" + "c"', []),
        ('raise ValueError(f"{a - b}", a - b)', []),
        ("return a * b", []),
    ],
)
def test_a_line_is_changed(line, expected):
    assert sorted(changes(line)) == sorted(expected)


def test_constructors_and_formulae_are_left_alone():
    source = "def cost(self, n):\n    return n + 1\ndef __init__(self):\n    self.a = -b\ntable = a[1]\n"
    assert mutants(source) == []


def test_only_the_named_definitions_are_changed():
    source = "def a(x):\n    return x + 1\n\ndef b(x):\n    return x - 1\n"
    assert [mutant.line for mutant in mutants(source, {"b"})] == [5]


def test_every_mixer_has_places_to_change_and_stays_python():
    names = mixer_names(ROOT)
    assert len(names) >= 15
    for name in names:
        parts, kinds = parts_of(ROOT, name), set()
        assert not any("token_mixer" in path for path in parts)
        for path, used in parts.items():
            source = (ROOT / path).read_text(encoding="utf-8")
            for mutant in mutants(source, used):
                compile(mutant.apply(source), path, "exec")
                assert mutant.apply(source) != source
                kinds.add(mutant.kind)
        assert kinds >= {"mask", "index"}, name


def test_a_mixer_consists_of_its_file_and_of_what_it_extends():
    assert parts_of(ROOT, "self_attention")["convnlp/layers/masks.py"] >= {"Masks", "visible_in_cache"}
    parts = parts_of(ROOT, "lightweight_conv")
    assert next(iter(parts)) == "convnlp/layers/mixers/lightweight_conv.py"
    assert parts["convnlp/layers/conv_mixer.py"] == {"StaticConvMixer", "ConvMixer", "WindowMixer"}
