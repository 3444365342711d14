"""`compile()` without arguments is the recipe of configs/finetune_classification.py, schedule included."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.adamw import AdamW
from convnlp.configs import finetune_classification
from convnlp.models import Seq2SeqLM, TextClassifier, TextClassifierPreprocessor, recipe
from convnlp.training import optimizers, schedules
from tests import corpus


@pytest.fixture
def classifier(backbone, tokenizer):
    return TextClassifier(backbone.encoder_only(), 2, TextClassifierPreprocessor(tokenizer, 16))


class Rates(keras.callbacks.Callback):
    """What the rate was at each step."""

    def __init__(self):
        super().__init__()
        self.rates = []

    def on_train_batch_end(self, batch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate))


def test_the_optimizer_is_that_of_the_config(classifier, backbone):
    config = finetune_classification.get_config().optimizer
    theirs = optimizers.build(config, num_steps=100)
    optimizers.build_slots(theirs, classifier.trainable_variables)
    for model in (classifier, Seq2SeqLM(backbone)):
        model.compile()
        ours = model.optimizer
        assert type(ours) is type(theirs) is AdamW
        assert float(ours.learning_rate) == np.float32(config.learning_rate)
        assert ours.global_clipnorm == config.clip_norm
        for name in ("weight_decay", "beta_1", "beta_2", "epsilon"):
            assert getattr(ours, name) == getattr(theirs, name)
        assert config.schedule == "warmup_linear"
        assert config.warmup_steps == 0  # a tenth of the steps
    for variable in classifier.trainable_variables:
        assert classifier.optimizer._use_weight_decay(variable) == theirs._use_weight_decay(variable)


@pytest.mark.parametrize("num_steps", [1, 9, 10, 25, 100])
def test_the_schedule_is_that_of_the_config(num_steps):
    theirs = schedules.Schedule("warmup_linear", 1.0, num_steps, warmup_steps=num_steps // 10)
    ours = [recipe.factor(step, num_steps) for step in range(num_steps)]
    np.testing.assert_allclose(ours, [theirs(step) for step in range(num_steps)], rtol=1e-6)  # float32


def test_fit_runs_the_schedule_over_its_steps_and_sets_the_rate_back(classifier):
    classifier.compile()
    data, rates = corpus.reviews(40), Rates()
    texts, labels = [row["text"] for row in data], np.array([row["label"] for row in data])
    for _ in range(2):  # a second `fit` has a schedule of its own
        rates.rates.clear()
        classifier.fit(texts, labels, batch_size=4, epochs=2, callbacks=rates, verbose=0)
        expected = [5e-4 * recipe.factor(step, 20) for step in range(20)]
        np.testing.assert_allclose(rates.rates, expected, rtol=1e-6)  # float32
        assert float(classifier.optimizer.learning_rate) == np.float32(5e-4)
    classifier.optimizer.learning_rate = 1e-3
    rates.rates.clear()
    data = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(4)
    classifier.fit(data, callbacks=[rates], verbose=0)
    assert max(rates.rates) == np.float32(1e-3)


def test_a_fit_that_is_resumed_goes_on_in_its_schedule(classifier, tmp_path):
    texts, labels, rates = ["the river", "a", "the old boat", "a garden"], [0, 1, 0, 1], Rates()

    def fit(*callbacks):
        classifier.compile()
        backup = keras.callbacks.BackupAndRestore(str(tmp_path))
        classifier.fit(texts, labels, 2, epochs=4, callbacks=[backup, *callbacks], verbose=0)

    def stop(epoch, logs):
        if epoch:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(keras.callbacks.LambdaCallback(on_epoch_begin=stop))
    fit(rates)
    expected = [5e-4 * recipe.factor(step, 8) for step in range(2, 8)]
    np.testing.assert_allclose(rates.rates, expected, rtol=1e-6)  # float32
    assert int(classifier.optimizer.iterations) == 8


def test_a_model_saved_during_fit_trains_on_from_the_peak(classifier, tmp_path):
    classifier.compile()
    path, rates = str(tmp_path / "last.keras"), Rates()
    checkpoint = keras.callbacks.ModelCheckpoint(path)
    texts = [row["text"] for row in corpus.reviews(16)]
    classifier.fit(texts, [0, 1] * 8, batch_size=4, callbacks=[checkpoint, rates], verbose=0)
    assert rates.rates[-1] < 2e-4  # which saving leaves as it is
    assert float(keras.models.load_model(path).optimizer.learning_rate) == np.float32(5e-4)


def test_it_trains_in_a_strategy(backbone, tokenizer):
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        classifier = TextClassifier(backbone.encoder_only(), 2, TextClassifierPreprocessor(tokenizer, 8))
        classifier.compile()
    history = classifier.fit(["the river", "a"], [0, 1], verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert float(classifier.optimizer.learning_rate.numpy()) == np.float32(5e-4)


@pytest.mark.parametrize(
    "own", ["callback", *(pytest.param(own, marks=pytest.mark.slow) for own in ("optimizer", "unknown_size"))]
)
def test_whoever_has_a_schedule_of_their_own_keeps_it(classifier, own):
    data, rates = corpus.reviews(8), Rates()
    texts, labels = [row["text"] for row in data], np.array([row["label"] for row in data])
    classifier.compile("adam" if own == "optimizer" else "auto")
    callbacks = [rates]
    if own == "callback":
        callbacks.append(keras.callbacks.LearningRateScheduler(lambda epoch: 0.25))
    x = tf.data.Dataset.from_tensor_slices((texts, labels)).filter(lambda *_: True).batch(2)
    arrays = (x,) if own == "unknown_size" else (texts, labels)
    classifier.fit(*arrays, callbacks=callbacks, verbose=0)
    assert set(rates.rates) == {np.float32({"optimizer": 1e-3, "callback": 0.25, "unknown_size": 5e-4}[own])}


@pytest.mark.slow
def test_it_learns(classifier):
    """At 5e-5, keras_nlp's rate for BERT, nothing has happened by then."""
    classifier.compile()
    data = corpus.reviews(64)
    texts, labels = [row["text"] for row in data], np.array([row["label"] for row in data])
    loss = classifier.fit(texts, labels, batch_size=4, epochs=12, verbose=0).history["loss"]
    assert loss[-1] < 0.8 * loss[0]


def test_compile_at_construction_is_the_same(backbone):
    built = TextClassifier(backbone.encoder_only(), 2, compile=True)
    assert built.optimizer.weight_decay == recipe.WEIGHT_DECAY
    assert not built.jit_compile
    lm = Seq2SeqLM(backbone, compile=True)
    assert float(lm.optimizer.learning_rate) == np.float32(recipe.LEARNING_RATE)
    assert not lm.jit_compile


@pytest.mark.slow
def test_mixed_float16_keeps_it(tokenizer):
    from convnlp.models import Seq2SeqBackbone

    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(), 1, 2, 16, 32, num_decoder_layers=0, kernel_size=3, dtype="mixed_float16"
    )
    classifier = TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 8))
    classifier.compile()
    classifier.fit(["the river"] * 20, [0, 1] * 10, batch_size=2, verbose=0)
    assert np.isfinite(classifier.predict(["a"], verbose=0)).all()
