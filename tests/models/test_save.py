"""A model that Keras itself has saved is the same when loaded; what Keras could not load is not saved."""

import copy
import functools
import pickle
import warnings

import keras
import keras_nlp
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from convnlp.models import MultiLabelClassifier, QuestionAnswerer, TextClassifier, TextRegressor
from tests.small_classifier import small_classifier

TEXTS = ["a fine day", "a lost day"]


@pytest.fixture(scope="module")
def classifier():
    return small_classifier(["dynamic_conv"], 16, ["bad", "good"])


def test_a_file_of_keras_holds_the_whole_classifier(classifier, tmp_path):
    classifier.save(tmp_path / "a.keras")
    loaded = keras.models.load_model(tmp_path / "a.keras")
    assert type(loaded) is type(classifier)
    assert loaded.labels == classifier.labels
    np.testing.assert_array_equal(loaded.predict(TEXTS, verbose=0), classifier.predict(TEXTS, verbose=0))


def test_a_loaded_classifier_trains_on_as_the_one_that_was_saved(classifier, tmp_path):
    config = classifier.backbone.get_config() | {"dropout": 0.0}
    backbone = type(classifier.backbone).from_config(config)
    classifier = TextClassifier(backbone, 2, classifier.preprocessor, dropout=0.0, labels=["bad", "good"])
    classifier.compile()
    classifier.fit(TEXTS, ["good", "bad"], verbose=0, shuffle=False)
    classifier.save(tmp_path / "a.keras")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Keras warns if it has not compiled the model
        loaded = keras.models.load_model(tmp_path / "a.keras")
    assert loaded.optimizer.iterations == classifier.optimizer.iterations
    for model in (classifier, loaded):
        model.fit(TEXTS, ["good", "bad"], epochs=2, verbose=0, shuffle=False)
    for ours, its in zip(classifier.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(ours, its, ours.path)


def test_what_else_a_model_was_compiled_with_is_loaded(classifier, lm, tmp_path):
    classifier.compile(keras.optimizers.SGD(0.25), metrics=["accuracy"])
    lm.compile(sampler=keras_nlp.samplers.BeamSampler(num_beams=3))
    for model in (classifier, lm):
        model.save(tmp_path / "a.keras")
        loaded = keras.models.load_model(tmp_path / "a.keras")
        assert type(loaded.optimizer) is type(model.optimizer)
        assert _without_name(loaded.optimizer) == _without_name(model.optimizer)
        assert not model._uses_recipe or loaded._uses_recipe
    assert loaded.sampler.get_config() == lm.sampler.get_config()
    assert keras.models.load_model(tmp_path / "a.keras", compile=False).compiled is False


@pytest.mark.parametrize("optimizer", ["auto", "adam", keras.optimizers.SGD(0.25, momentum=0.5), None])
def test_a_classifier_that_was_compiled_but_not_trained_is_loaded_as_such(classifier, tmp_path, optimizer):
    classifier.compile(optimizer)
    classifier.save(tmp_path / "a.keras")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Keras warns of an optimizer whose state is not in the file
        loaded = keras.models.load_model(tmp_path / "a.keras")
    assert type(loaded.optimizer) is type(classifier.optimizer)
    assert loaded._uses_recipe == (optimizer == "auto")
    if optimizer is not None:
        assert not loaded.optimizer.built
        loaded.fit(TEXTS, ["good", "bad"], verbose=0)
        loaded.save(tmp_path / "b.keras")
        again = keras.models.load_model(tmp_path / "b.keras")
        for ours, its in zip(again.optimizer.variables, loaded.optimizer.variables, strict=True):
            np.testing.assert_array_equal(ours, its, ours.path)


@pytest.mark.parametrize("optimizer", ["adam", keras.optimizers.SGD(0.25)])
def test_the_optimizer_of_a_file_that_does_not_say_whether_it_was_built_is(classifier, optimizer):
    """As version 0.1.0 has written it."""
    classifier.compile(optimizer)
    config = {**classifier.get_compile_config(), "optimizer": keras.saving.serialize_keras_object(optimizer)}
    loaded = TextClassifier.from_config(classifier.get_config())
    loaded.compile_from_config(config)
    assert type(loaded.optimizer) is type(classifier.optimizer)
    assert loaded.optimizer.built


def test_a_compiled_classifier_is_cloned(classifier):
    classifier.compile()
    clone = keras.models.clone_model(classifier)  # a plain model, as of all models that Keras does not make
    clone.set_weights(classifier.get_weights())
    rows = classifier.preprocessor(TEXTS)
    np.testing.assert_array_equal(clone.predict(rows, verbose=0), classifier.predict(TEXTS, verbose=0))
    clone.fit(rows, np.array([0, 1]), verbose=0)


@pytest.mark.parametrize("copied", ["file", "deepcopy", "pickle", "preset"])
def test_only_a_preset_leaves_the_type_of_numbers_to_who_loads_it(classifier, tmp_path, copied):
    config = classifier.backbone.get_config() | {"dtype": "mixed_bfloat16"}
    backbone = type(classifier.backbone).from_config(config)
    model = TextClassifier(backbone, 2, classifier.preprocessor)
    model.save(tmp_path / "a.keras")
    model.save_to_preset(tmp_path / "preset")
    made = {
        "file": lambda: keras.models.load_model(tmp_path / "a.keras"),
        "deepcopy": lambda: copy.deepcopy(model),
        "pickle": lambda: pickle.loads(pickle.dumps(model)),
        "preset": lambda: TextClassifier.from_preset(tmp_path / "preset"),
    }[copied]()
    assert made.backbone.dtype_policy.name == ("float32" if copied == "preset" else "mixed_bfloat16")
    if copied != "preset":
        np.testing.assert_array_equal(made.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))


@pytest.mark.parametrize("cls", [TextRegressor, functools.partial(MultiLabelClassifier, num_classes=2)])
def test_a_model_is_not_compiled_until_asked(classifier, tmp_path, cls):
    """Neither when it is made, nor when it is loaded: Keras would warn of the optimizer that it has not."""
    model = cls(classifier.backbone, preprocessor=classifier.preprocessor)
    assert not model.compiled
    model.compile()
    model.optimizer.build(model.trainable_variables)
    model.save_to_preset(tmp_path / "preset")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        loaded = type(model).from_preset(tmp_path / "preset")
    assert not loaded.compiled
    assert cls(classifier.backbone, compile=True).compiled


def test_an_answerer_is_not_compiled_until_asked(classifier):
    assert not QuestionAnswerer(classifier.backbone).compiled
    assert QuestionAnswerer(classifier.backbone, compile=True).compiled


def _without_name(optimizer):
    return {name: value for name, value in optimizer.get_config().items() if name != "name"}


PROBABILITIES = keras.losses.sparse_categorical_crossentropy
LOSSES = {
    "name of a function": "sparse_categorical_crossentropy",
    "name of a class": "SparseCategoricalCrossentropy",
    "function": keras.losses.categorical_crossentropy,
    "object": keras.losses.BinaryCrossentropy(),
    "class": keras.losses.SparseCategoricalCrossentropy,
    "chosen by the targets": "CrossEntropy",
    "function with an option": functools.partial(PROBABILITIES, ignore_class=0),
    "name of a divergence": "kl_divergence",
    "divergence": keras.losses.KLDivergence(),
    "function of a divergence": keras.losses.kl_divergence,
    "partial divergence": functools.partial(keras.losses.kl_divergence),
    "class without an option": keras.losses.Poisson,
    "generalized": keras.losses.CategoricalGeneralizedCrossEntropy(),
    "list": ["mse", PROBABILITIES],
    "dict": {"head": "sparse_categorical_crossentropy"},
    "dict of lists": {"other": None, "head": ["mse", keras.losses.SparseCategoricalCrossentropy()]},
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_loss_of_probabilities_is_refused(classifier, lm, loss):
    answerer = QuestionAnswerer(classifier.backbone)
    several = MultiLabelClassifier(classifier.backbone, 2)
    for model in (classifier, lm, answerer, several):
        with pytest.raises(
            ValueError, match=r"^`loss` must take logits, as .*\(from_logits=True\) does. Received"
        ):
            model.compile(loss=loss)


def test_a_loss_of_logits_is_taken(classifier):
    class OfLogits(keras.losses.KLDivergence):
        """Applies a softmax itself."""

    logits = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for loss in (
        logits,
        OfLogits(),
        "mse",
        keras.losses.MeanSquaredError,
        functools.partial(PROBABILITIES, from_logits=True),
        [logits],
        {"head": logits},
        None,
    ):
        classifier.compile(loss=loss)


METRICS = {
    "name of a function": ["mse", "binary_accuracy"],
    "name of a class": ["AUC"],
    "cross-entropy": ["sparse_categorical_crossentropy"],
    "class": [keras.metrics.Recall],
    "object": [keras.metrics.F1Score(threshold=0.5)],
    "chosen by the targets": ["ce"],
    "of keras_nlp": [keras_nlp.metrics.Perplexity()],
    "function": {"head": keras.metrics.binary_accuracy},
    "name of a divergence": ["kl_divergence"],
    "divergence": [keras.metrics.KLDivergence()],
    "function of a divergence": [keras.losses.kl_divergence],
    "class without an option": [keras.metrics.Poisson],
}


@pytest.mark.parametrize("metrics", METRICS.values(), ids=METRICS)
def test_a_metric_of_probabilities_is_refused(classifier, lm, metrics):
    for model in (classifier, lm, MultiLabelClassifier(classifier.backbone, 2)):
        for argument in ("metrics", "weighted_metrics"):
            with pytest.raises(ValueError, match=r"^`metrics` must .* of \(y, logits\) .*Received: [^\n]*$"):
                model.compile(**{argument: metrics})


def test_a_metric_of_logits_is_taken(classifier):
    class OfLogits(keras.metrics.Precision):
        """Applies a sigmoid itself."""

    def accuracy(y, logits, threshold=0.0):
        return keras.ops.mean(keras.ops.cast((logits > threshold) == (y > 0), "float32"))

    top = keras.metrics.SparseTopKCategoricalAccuracy(2)
    for metrics in (
        ["Accuracy", "acc", "mse", top, keras.metrics.F1Score(), keras.metrics.CategoricalAccuracy],
        {"head": [keras.metrics.AUC(from_logits=True), OfLogits(), accuracy]},
        [keras.metrics.BinaryAccuracy(threshold=0.0), keras.metrics.Recall(thresholds=0)],
        None,
    ):
        classifier.compile(metrics=metrics)
    TextRegressor(classifier.backbone).compile(metrics=["binary_accuracy"])  # whose outputs are no logits


def test_accuracy_of_several_labels_is_not_that_of_one(classifier):
    several = MultiLabelClassifier(classifier.backbone, 2)
    for metrics in (["acc"], ["mse", "Accuracy"], [keras.metrics.CategoricalAccuracy()]):
        with pytest.raises(ValueError, match=r"^`metrics` must suit texts with several labels, .*: ['<]"):
            several.compile(metrics=metrics)


@pytest.mark.parametrize("name", ["a.h5", "a.hdf5", "A.H5"])
def test_hdf5_is_refused(classifier, tmp_path, name):
    with pytest.raises(
        ValueError, match=rf"`filepath` must end in \.keras; or .* Received: filepath=.*{name}$"
    ):
        classifier.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_onnx_is_refused_and_says_what_is_not(classifier, tmp_path):
    message = r"^`format` must be tf_saved_model, litert or openvino, .* PyTorch.* Received: format='onnx'$"
    for model in (classifier, classifier.backbone):
        with pytest.raises(ValueError, match=message):
            model.export(tmp_path / "a.onnx", format="onnx")
        with pytest.raises(ValueError, match="Unrecognized format=onxn"):  # Keras's own message
            model.export(tmp_path / "a.onnx", format="onxn")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_what_keras_exports_answers_the_same(classifier, tmp_path):
    rows = {name: value.numpy() for name, value in classifier.preprocessor(TEXTS, y=None).items()}
    expected = classifier.predict(TEXTS, verbose=0)
    classifier.export(tmp_path / "saved", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "saved")
    np.testing.assert_allclose(loaded.serve(rows), expected, atol=1e-5)  # float32, other kernels
    classifier.export(tmp_path / "a.tflite", "litert", verbose=False)
    interpreter = Interpreter(str(tmp_path / "a.tflite"))
    for details in interpreter.get_input_details():
        interpreter.resize_tensor_input(details["index"], rows["token_ids"].shape)
    interpreter.allocate_tensors()
    for details in interpreter.get_input_details():
        (name,) = (name for name in rows if name in details["name"])
        interpreter.set_tensor(details["index"], rows[name])
    interpreter.invoke()
    found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    np.testing.assert_allclose(found, expected, atol=1e-5)
