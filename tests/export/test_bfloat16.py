"""Models whose matrix products are exported in bfloat16: near the float32 ones, served as they are."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels, product_speed
from convnlp.export import preset
from convnlp.export.edge_model import EdgeModel
from convnlp.export.lite import comparison
from convnlp.export.saved_models import effect, precision, signatures, versions
from convnlp.export.verification import checks, loaders, parity, requests, stock
from convnlp.export.verification.graph import Graph
from convnlp.models import MultiLabelClassifier, TextRegressor
from convnlp.models.narrow_weights import store_in_bfloat16
from convnlp.serving.core.lite import LiteServable
from convnlp.tasks import task_of
from tests.export.conftest import EVERY, KINDS, LABELS, LENGTH, SHORT
from tests.mixer_table import sampled
from tests.small_classifier import small_classifier

BOUND = parity.BOUNDS["bfloat16"]


def scattered(model):
    """The model with a head that tells texts apart, but not by so much that cut products miss the bound."""
    kernel = model.head.kernel
    kernel.assign(np.random.default_rng(0).normal(scale=0.5, size=kernel.shape))
    return model


@pytest.fixture(scope="module")
def exported_both(tmp_path_factory):
    """{type: version} of a classifier with model.tflite, and the error of the one in bfloat16."""
    keras.utils.set_random_seed(0)  # by chance, a model may give all texts one class
    folder = tmp_path_factory.mktemp("both")
    scattered(small_classifier(SHORT, LENGTH, LABELS)).save_to_preset(str(folder / "preset"))
    found = {}
    for dtype in ("float32", "bfloat16"):
        options = {"tflite": True, "dtype": dtype, "check": dtype == "bfloat16"}
        found[dtype], _, errors = versions.export(str(folder / "preset"), str(folder / dtype), **options)
    return found, max(errors.values())


@pytest.mark.parametrize("mixer", sampled(EVERY))
def test_every_mixer_is_near_float32(mixer, tmp_path):
    model = scattered(small_classifier([mixer], LENGTH, LABELS))
    answers = task_of(model).answers(model)
    text = tf.constant(requests.texts(5))
    expected = answers.answer(answers.rows.of_texts(text))["scores"].numpy()
    ids = answers.rows.of_texts(text)["token_ids"]
    store_in_bfloat16(model)
    with kernels.implementation("inference"):
        servable = signatures.servable(model).only("ids")
        tf.saved_model.save(servable.module, str(tmp_path), signatures=servable.signatures)
    graph = Graph(tmp_path)
    assert graph.product_dtype() == "bfloat16"
    assert stock.violations(graph, graph.op_names()) == []
    scores = tf.saved_model.load(str(tmp_path)).signatures["ids"](token_ids=ids)["scores"].numpy()
    assert 0 < np.max(np.abs(scores - expected)) < BOUND


@pytest.mark.multiprocess
def test_in_fresh_processes(exported_both):
    """`export` asked all signatures by all loaders."""
    found, error = exported_both
    assert parity.BOUND < error < BOUND
    types = {dtype: Graph(version).product_dtype() for dtype, version in found.items()}
    assert types == {"float32": "float32", "bfloat16": "bfloat16"}


@pytest.mark.multiprocess
def test_kernels_take_half_of_the_space(exported_both):
    sizes = {}
    for dtype, version in exported_both[0].items():
        reader = tf.train.load_checkpoint(str(version / "variables" / "variables"))
        shapes, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        sizes[dtype] = {
            kind: sum(np.prod(shapes[name]) for name in shapes if types[name] == kind)
            for kind in (tf.float32, tf.bfloat16)
        }
    assert sizes["float32"][tf.bfloat16] == 0
    assert sizes["bfloat16"][tf.bfloat16] > 0.9 * sizes["float32"][tf.float32]
    assert sum(sizes["bfloat16"].values()) == sizes["float32"][tf.float32]


@pytest.mark.multiprocess
def test_model_tflite_beside_it_is_that_of_the_preset(exported_both):
    texts, scores = requests.texts(5), {}
    for dtype, version in exported_both[0].items():
        rows = EdgeModel(str(version / "model.tflite")).predict(texts)
        scores[dtype] = [list(row["scores"].values()) for row in rows]
    np.testing.assert_allclose(scores["bfloat16"], scores["float32"], atol=1e-6)


@pytest.mark.multiprocess
def test_the_local_server_runs_both_forms(exported_both):
    text = np.array([text.encode() for text in requests.texts(5)], object)
    found = []
    for dtype, version in exported_both[0].items():
        servable = LiteServable("m", 1, str(version / "model.tflite"), str(version), num_interpreters=1)
        for signature in ("serving_default", "embed"):  # by LiteRT, and by the SavedModel
            infos = servable.signatures[signature]
            (output,) = (i for name, i in infos.outputs.items() if name in ("scores", "embedding"))
            found.append(
                (signature, dtype, servable.run({infos.inputs["text"].name: text}, (output.name,))[0])
            )
        servable.close()
    for (_, _, exact), (_, _, narrow) in zip(found[:2], found[2:], strict=True):
        np.testing.assert_allclose(narrow, exact, atol=BOUND * max(1, np.abs(exact).max()))


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.parametrize("task", ["multi_label", "regression"])
def test_other_heads(task, tmp_path):
    classifier = small_classifier(SHORT, LENGTH, LABELS)
    if task == "regression":
        model = TextRegressor(classifier.backbone, preprocessor=classifier.preprocessor)
    else:
        model = MultiLabelClassifier(
            classifier.backbone, num_classes=3, preprocessor=classifier.preprocessor, labels=LABELS
        )
    scattered(model).save_to_preset(str(tmp_path / "preset"))
    version, _, errors = versions.export(str(tmp_path / "preset"), str(tmp_path / "m"), dtype="bfloat16")
    assert {loader for *_, loader in errors} == set(loaders.LOADERS)
    assert parity.BOUND < max(errors.values()) < BOUND
    exact = preset.load(str(tmp_path / "preset"))
    ids = task_of(exact).answers(exact).rows.of_texts(tf.constant(requests.texts(5)))["token_ids"].numpy()
    found = effect.of_saved_model(version, exact, ids)
    assert (found.count, found.choices) == (5, ("labels",) * (task == "multi_label"))
    assert 0 < found.largest < BOUND * 4


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"classifier"}))
def test_models_that_write_text_are_refused(kind, preset_of, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="`dtype` must be float32 for a model that writes text") as error:
        versions.export(str(preset_of(kind, SHORT)), str(tmp_path / "m"), dtype="bfloat16")
    assert "\n" not in str(error.value)
    monkeypatch.setattr(product_speed, "time_share", lambda: 0.1)
    assert precision.resolve("auto", preset.load(str(preset_of(kind, SHORT)))) == "float32"


@pytest.mark.parametrize(("share", "dtype"), [(0.79, "bfloat16"), (0.81, "float32"), (1.6, "float32")])
def test_auto_takes_what_is_clearly_faster(share, dtype, small, monkeypatch):
    monkeypatch.setattr(product_speed, "time_share", lambda: share)
    assert precision.resolve("auto", small) == dtype
    assert precision.resolve("float32", small) == "float32"
    assert precision.resolve("bfloat16", small) == "bfloat16"


def test_other_types_are_refused(small):
    with pytest.raises(ValueError, match=r"`dtype` must be one of .*Received: dtype='float16'"):
        precision.resolve("float16", small)


def test_the_effect_counts_texts():
    expected = {"label": np.array([b"a", b"b", b"b"], object), "scores": np.array([[0.5], [0.25], [1.0]])}
    found = {"label": np.array([b"a", b"a", b"b"], object), "scores": np.array([[0.5], [0.5], [0.9375]])}
    assert effect.of_answers(found, expected) == effect.Effect(0.25, 1, 3, ("label",))
    labels = {"labels": np.array([[b"a", b""], [b"", b""]], object), "scores": np.zeros([2, 2])}
    others = {**labels, "labels": np.array([[b"a", b"b"], [b"", b""]], object)}
    assert effect.of_answers(others, labels) == effect.Effect(0.0, 1, 2, ("labels",))
    assert effect.of_answers({"score": np.zeros(2)}, {"score": np.ones(2)}) == effect.Effect(1.0, 0, 2, ())
    spans = {"start": np.array([1, 2]), "end": np.array([3, 4]), "score": np.ones(2)}
    assert effect.of_answers({**spans, "start": np.array([0, 2])}, spans) == effect.Effect(
        0.0, 1, 2, ("start", "end")
    )
    assert np.isnan(effect.of_answers({**spans, "score": np.array([np.nan, 1.0])}, spans).largest)


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ((), ""),
        (("label",), "; `label` differs for 2"),
        (("start_token", "end_token"), "; `start_token` or `end_token` differs for 2"),
    ],
)
def test_the_effect_is_told_by_the_names_of_the_outputs(choices, told):
    line = str(effect.Effect(0.25, 2, 5, choices))
    assert line == f"5 texts: scores differ from the preset by at most 0.25{told}"


def test_the_effect_asks_about_each_text_once():
    ids, shapes = np.ones([40, 3], np.int32), []
    ids[:32, 2] = 0

    def run(batch):
        shapes.append(batch.shape)
        return {"label": tf.as_string(batch[:, 1]), "scores": tf.cast(batch, tf.float32)[:, :2]}

    found = comparison.outputs(run, ids)
    assert shapes == [(32, 2), (8, 3)]
    assert {name: value.shape for name, value in found.items()} == {"label": (40,), "scores": (40, 2)}


def test_a_wrong_weight_is_seen_beside_the_rounding(small, tmp_path):
    model = small_classifier(["dynamic_conv"], LENGTH, LABELS)
    model.set_weights(small.get_weights())
    store_in_bfloat16(model)
    kernel = model.head.kernel
    kernel.assign(tf.reverse(kernel, [1]))
    with kernels.implementation("inference"):
        servable = signatures.servable(model).only("ids")
        tf.saved_model.save(servable.module, str(tmp_path), signatures=servable.signatures)
    with pytest.raises(ValueError, match=f"more than the bound of {BOUND:g}"):
        checks.check(small, {tmp_path: servable})
