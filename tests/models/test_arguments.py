"""Arguments that do not exist and number types that do not work: one line, before anything is built."""

import keras
import pytest

from convnlp.models import (
    Seq2SeqBackbone,
    Seq2SeqLM,
    Seq2SeqLMPreprocessor,
    TextClassifier,
    TextClassifierPreprocessor,
    Tokenizer,
    arguments,
)
from tests import corpus

SIZES = {
    "vocabulary_size": 50,
    "num_layers": 1,
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 16,
    "kernel_size": 3,
}


@pytest.fixture
def no_layers(monkeypatch):
    """Fails the test if a layer is built."""
    from convnlp.models import backbone_layers

    def refuse(*args, **kwargs):
        raise AssertionError("a layer was built")

    monkeypatch.setattr(backbone_layers, "Encoder", refuse)


@pytest.mark.parametrize(
    ("received", "message"),
    [
        ({"dropuot": 0.5}, r"`dropuot` is not an argument of \w+; did you mean `dropout`\?$"),
        ({"frobnicate": 1}, r"`frobnicate` is not an argument of \w+$"),
        ({"activation": "softmax"}, r"`activation` is not an argument of \w+\. The model gives logits"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_unknown_argument_of_a_model(backbone, saved, received, message, no_layers):
    builders = [
        lambda: TextClassifier(backbone, 2, **received),
        lambda: TextClassifier.from_preset(str(saved / "classifier"), **received),
        lambda: Seq2SeqBackbone(**SIZES, **received),
        lambda: Seq2SeqBackbone.from_preset(str(saved / "lm"), **received),
    ]
    if "dropuot" not in received:  # a language model has no dropout of its own
        builders += [
            lambda: Seq2SeqLM(backbone, **received),
            lambda: Seq2SeqLM.from_preset(str(saved / "lm"), **received),
        ]
    for build in builders:
        with pytest.raises(ValueError, match=message):
            build()


@pytest.mark.parametrize(
    ("cls", "arguments", "wrong", "meant"),
    [
        (Tokenizer, [corpus.tiny_proto()], "num_sentinel", "num_sentinels"),
        (TextClassifierPreprocessor, [None], "sequence_lenght", "sequence_length"),
        (Seq2SeqLMPreprocessor, [None], "decoder_sequence_len", "decoder_sequence_length"),
    ],
)
def test_an_unknown_argument_of_what_stands_in_front_of_it(cls, arguments, wrong, meant):
    with pytest.raises(ValueError, match=f"`{wrong}` is not an argument of .*; did you mean `{meant}`"):
        cls(*arguments, **{wrong: 8})


def test_the_arguments_of_keras_stay(backbone):
    assert TextClassifier(backbone, 2, name="mine", activation=None).name == "mine"
    assert Seq2SeqBackbone(**SIZES, name="mine", trainable=False).trainable is False
    assert Tokenizer(corpus.tiny_proto(), add_eos=True, name="mine").add_eos


def test_a_subclass_may_have_arguments_of_its_own():
    class Base(keras.Model):  # of TextClassifier, keras_nlp might load the subclass in its place
        def __init__(self, backbone, pooling="mean", **kwargs):
            super().__init__(**kwargs)

    class Mine(Base):
        def __init__(self, backbone, margin, **kwargs):
            super().__init__(backbone, **kwargs)

    assert {"margin", "pooling", "name"} <= set(arguments.names(Mine))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int8", "bfloat17"])
def test_a_dtype_that_does_not_work(saved, dtype, no_layers):
    message = f"`dtype` must be one of float32, mixed_bfloat16, mixed_float16.*Received: dtype='{dtype}'"
    for build in (
        lambda: Seq2SeqBackbone(**SIZES, dtype=dtype),
        lambda: Seq2SeqBackbone.from_preset(str(saved / "lm"), dtype=dtype),
        lambda: TextClassifier.from_preset(str(saved / "classifier"), dtype=dtype),
        lambda: Seq2SeqLM.from_preset(str(saved / "lm"), dtype=dtype),
    ):
        with pytest.raises(ValueError, match=message) as error:
            build()
        assert "\n" not in str(error.value)


def test_a_global_policy_that_does_not_work(saved, no_layers):
    keras.config.set_dtype_policy("bfloat16")
    try:
        for build in (
            lambda: Seq2SeqBackbone(**SIZES),
            lambda: TextClassifier.from_preset(str(saved / "classifier")),
        ):
            with pytest.raises(ValueError, match=r"^`dtype` must .*dtype='bfloat16' \(the global policy\)$"):
                build()
    finally:
        keras.config.set_dtype_policy("float32")


def test_quantize_is_refused_and_changes_nothing(classifier, lm):
    before = classifier.predict(["the river"], verbose=0)
    for model in (classifier, classifier.backbone, lm):
        with pytest.raises(NotImplementedError, match=r"`quantize` is not supported.*export-tflite.*'int8'"):
            model.quantize("int8")
    assert (classifier.predict(["the river"], verbose=0) == before).all()
    assert classifier.head.quantization_mode is None
