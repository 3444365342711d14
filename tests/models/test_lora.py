"""LoRA on a convolutional model: the projections take it, and nothing is frozen without a word."""

import keras
import numpy as np
import pytest

from convnlp.layers import MIXERS
from convnlp.models import (
    QuestionAnswerer,
    QuestionAnswererPreprocessor,
    Seq2SeqBackbone,
    Seq2SeqLM,
    Seq2SeqLMPreprocessor,
    TextClassifier,
    TextClassifierPreprocessor,
)
from tests import corpus


def encoder(mixer="dynamic_conv", vocabulary_size=200, **options):
    return Seq2SeqBackbone(
        vocabulary_size,
        1,
        2,
        16,
        32,
        num_decoder_layers=0,
        mixer=mixer,
        kernel_size=3,
        dropout=0.0,
        **options,
    )


@pytest.mark.parametrize("mixer", MIXERS)
def test_every_mixer_has_layers_that_take_it(mixer):
    backbone = encoder(mixer)
    names = backbone.default_lora_layer_names()
    assert names
    before = backbone.encode(np.array([[5, 6, 7, 1]]))
    backbone.enable_lora(2)
    trainable = {variable.path.rsplit("/", 1)[-1] for variable in backbone.trainable_variables}
    assert trainable == {"lora_kernel_a", "lora_kernel_b"}
    owners = {variable.path.split("/")[-2] for variable in backbone.trainable_variables}
    assert owners == set(names)
    np.testing.assert_array_equal(backbone.encode(np.array([[5, 6, 7, 1]])), before)  # B starts at zero


def test_it_learns_is_saved_merged_and_loads(tokenizer, tmp_path):
    backbone = encoder(vocabulary_size=tokenizer.vocabulary_size())
    classifier = TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 16), dropout=0.0)
    classifier.backbone.enable_lora(rank=4)
    frozen = {v.path: v.numpy() for v in backbone.variables if "lora" not in v.path}
    data = corpus.reviews(64)
    texts, labels = [row["text"] for row in data], np.array([row["label"] for row in data])
    classifier.compile(keras.optimizers.Adam(1e-2))
    loss = classifier.fit(texts, labels, epochs=15, batch_size=32, verbose=0).history["loss"]
    assert loss[-1] < 0.5 * loss[0]
    for variable in backbone.variables:
        if "lora" not in variable.path:
            np.testing.assert_array_equal(variable, frozen[variable.path])
    classifier.save_to_preset(str(tmp_path))
    loaded = TextClassifier.from_preset(str(tmp_path))
    assert not [v.path for v in loaded.variables if "lora" in v.path]
    # the update is added to the kernel in float32, in another order
    np.testing.assert_allclose(
        loaded.predict(texts[:4], verbose=0), classifier.predict(texts[:4], verbose=0), rtol=1e-4, atol=1e-5
    )


def test_predictions_from_before_do_not_stay(tokenizer):
    task_encoder = encoder(vocabulary_size=tokenizer.vocabulary_size())
    classifier = TextClassifier(task_encoder, 2, TextClassifierPreprocessor(tokenizer, 16))
    texts = ["the river", "an old hill"]
    classifier.predict(texts, verbose=0)
    task_encoder.enable_lora(2)
    for variable in task_encoder.trainable_variables:
        variable.assign(keras.random.normal(variable.shape))
    updated = classifier(classifier.preprocessor(texts))
    np.testing.assert_allclose(classifier.predict(texts, verbose=0), updated, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_graphs_from_before_do_not_stay_and_an_optimizer_is_refused(tokenizer, dtype):
    """Else `fit` would train the frozen weights."""
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 8, 16, kernel_size=3, dtype=dtype)
    model = Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 8, 6))
    kinds = ("train", "test", "predict", "generate")

    def graphs():
        for kind in kinds:
            getattr(model, f"make_{kind}_function")()
        return [getattr(model, f"{kind}_function") for kind in kinds]

    model.compile()
    before = graphs()
    assert graphs() == before
    backbone.enable_lora(2)
    after = graphs()
    assert not set(after) & set(before)
    assert graphs() == after
    model.optimizer.build(backbone.non_trainable_variables)  # as a `fit` before `enable_lora` does
    with pytest.raises(ValueError, match=r"`compile` must be called again, .*`enable_lora`.* such as .*lora"):
        graphs()
    model.compile()
    graphs()


def test_answers_from_before_do_not_stay(tokenizer):
    backbone = encoder(vocabulary_size=tokenizer.vocabulary_size())
    model = QuestionAnswerer(backbone, QuestionAnswererPreprocessor(tokenizer, 16, max_answer_length=2))
    asked = ["the river"], ["an old hill by the river"]
    (before,) = model.predict(*asked)
    backbone.enable_lora(2)
    for variable in backbone.trainable_variables:
        variable.assign(keras.random.normal(variable.shape))
    assert model.predict(*asked)[0]["score"] != before["score"]


def test_some_layers_by_name():
    backbone = encoder()
    backbone.enable_lora(np.int64(2), ["gate"])
    assert {v.path.split("/")[-2] for v in backbone.trainable_variables} == {"gate"}


@pytest.mark.parametrize(
    ("rank", "names", "message"),
    [
        (
            2,
            ["query_dense"],
            "`target_layer_names` must be a list of the layers that take LoRA: gate, .*query",
        ),
        (2, ["gate", "token_embedding"], "Received: .*token_embedding"),
        (2, "gate", "must be a list"),
        (2, [], "must be a list"),
        (0, None, "`rank` must be a whole number >= 1. Received: 0"),
        (1.5, None, "`rank` must be .*1.5"),
    ],
)
def test_what_reaches_no_layer_is_refused_and_freezes_nothing(rank, names, message):
    backbone = encoder()
    before = len(backbone.trainable_variables)
    with pytest.raises(ValueError, match=message):
        backbone.enable_lora(rank, names)
    assert len(backbone.trainable_variables) == before


def test_once_is_all_and_a_copy_is_refused():
    backbone = Seq2SeqBackbone(50, 1, 2, 8, 16, kernel_size=3)
    backbone.enable_lora(2)
    with pytest.raises(ValueError, match="was called before, with rank=2"):
        backbone.enable_lora(4)
    with pytest.raises(ValueError, match=r"build the classifier first, then call `classifier\.backbone"):
        TextClassifier(backbone, 2)


def test_the_update_alone_can_be_saved(tmp_path):
    backbone = encoder()
    backbone.enable_lora(2)
    for variable in backbone.trainable_variables:
        variable.assign(keras.random.normal(variable.shape))
    backbone.save_lora_weights(str(tmp_path / "update.lora.h5"))
    other = encoder()
    other.set_weights([v.numpy() for v in backbone.variables if "lora" not in v.path])
    other.load_lora_weights(str(tmp_path / "update.lora.h5"))
    ids = np.array([[5, 6, 7, 1]])
    np.testing.assert_array_equal(other.encode(ids), backbone.encode(ids))
