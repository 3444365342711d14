"""Models whose tables are exported in int8: near the float32 ones, smaller, served as they are."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels
from convnlp.export import preset
from convnlp.export.saved_models import effect, precision, signatures, versions
from convnlp.export.verification import checks, loaders, parity, requests, stock
from convnlp.export.verification.graph import Graph
from convnlp.layers import HashedNgrams
from convnlp.layers.table_rows import gather_rows
from convnlp.models import TextClassifier
from convnlp.models.int8_tables import quantize_rows, store_in_int8
from convnlp.models.narrow_weights import store_in_bfloat16
from convnlp.tasks import task_of
from tests.export.conftest import KINDS, LABELS, LENGTH, SHORT
from tests.export.test_bfloat16 import scattered
from tests.run_program import run_program
from tests.small_classifier import keep_ngrams, small_classifier

BUCKETS = 64
SIGNATURES = {"serving_default", "pair", "classify", "ids", "explain", "explain_pair", "embed"}


def rows_of_a_loop(table, ids):
    """What stands for each id once its row has been rounded to 127 steps to each side, value by value."""
    found = np.zeros([len(ids), len(table[0])])
    for place, token in enumerate(ids):
        largest = max(abs(value) for value in table[token])
        for column, value in enumerate(table[token]):
            steps = round(value / largest * 127) if largest else 0  # to even, where it lies in the middle
            found[place, column] = steps * largest / 127
    return found


@pytest.fixture
def table():
    """Rows of very different sizes, of zeros, of one value, and with values of one sign."""
    found = np.random.default_rng(0).normal(size=[9, 6]) * 10.0 ** np.arange(-4, 5)[:, None]
    found[3], found[4, 1:], found[5] = 0.0, 0.0, np.abs(found[5])
    return found.astype(np.float32)


def test_rows_are_those_of_the_equation(table):
    ids = [0, 8, 3, 4, 4, 5, 7]
    integers, scales = quantize_rows(table)
    found = gather_rows(tf.constant(integers), tf.constant(scales), tf.constant(ids)).numpy()
    assert (integers.dtype, scales.dtype, found.dtype) == (np.int8, np.float32, np.float32)
    expected = rows_of_a_loop(table.astype(float), ids)
    # The scale and the product are float32.
    np.testing.assert_allclose(found, expected, rtol=2**-22)
    assert np.all(np.abs(found - table[ids]) <= np.abs(table[ids]).max(axis=1, keepdims=True) / 254 * 1.0001)
    assert np.abs(integers).max(axis=1).tolist() == [127, 127, 127, 0, 127, 127, 127, 127, 127]


def test_without_scales_rows_are_as_they_are(table):
    np.testing.assert_array_equal(
        gather_rows(tf.constant(table), None, tf.constant([[2, 1]])), table[[[2, 1]]]
    )


def test_a_bag_of_ngrams_is_the_sum_of_its_rounded_rows():
    layer = HashedNgrams(BUCKETS, 5)
    ids, mask = (
        tf.constant([[7, 8, 9, 0], [5, 0, 0, 0]]),
        tf.constant([[True] * 3 + [False], [True] + [False] * 3]),
    )
    layer.adapt(tf.ragged.constant([[7, 8, 9], [5]]))
    table = np.random.default_rng(0).normal(size=[BUCKETS, 5]).astype(np.float32)
    integers, scales = quantize_rows(table)
    layer.table._value, layer.row_scales = tf.Variable(integers), tf.Variable(scales)
    buckets, is_counted = (value.numpy() for value in layer.buckets(ids, mask))
    for row, found in enumerate(layer(ids, mask).numpy()):
        counted = buckets[row][is_counted[row]]
        expected = 10 * rows_of_a_loop(table.astype(float), counted).sum(0) / np.sqrt(len(counted))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)  # float32 sums of 5 rows


def with_ngrams(mixers):
    """An untrained classifier, with a table of n-grams that decides as much as the encoder."""
    plain = small_classifier(mixers, LENGTH, LABELS)
    model = scattered(
        TextClassifier(
            plain.backbone, len(LABELS), plain.preprocessor, labels=LABELS, ngram_buckets=BUCKETS, ngram_dim=3
        )
    )
    model.ngrams.table.assign(np.random.default_rng(1).normal(size=[BUCKETS, 3]) / 10)
    keep_ngrams(model, requests.texts(5))
    return model


@pytest.mark.parametrize("mixer", SHORT)
def test_a_classifier_with_ngrams_is_near_float32(mixer, tmp_path):
    model = with_ngrams([mixer])
    answers = task_of(model).answers(model)
    rows = answers.rows.of_texts(tf.constant(requests.texts(5)))
    expected = answers.answer(rows)["scores"].numpy()
    store_in_int8(model)
    with kernels.implementation("inference"):
        servable = signatures.servable(model).only("ids")
        tf.saved_model.save(servable.module, str(tmp_path), signatures=servable.signatures)
    graph = Graph(tmp_path)
    assert graph.has_int8_tables()
    assert graph.product_dtype() == "float32"
    assert stock.violations(graph, graph.op_names()) == []
    loaded = tf.saved_model.load(str(tmp_path))
    scores = loaded.signatures["ids"](token_ids=rows["token_ids"])["scores"].numpy()
    assert 0 < np.max(np.abs(scores - expected)) < parity.bound(graph)


@pytest.fixture(scope="module")
def exported_both(tmp_path_factory):
    """(preset, {type: version}); tables in int8."""
    keras.utils.set_random_seed(0)  # by chance, a model may give all texts one class
    folder = tmp_path_factory.mktemp("both")
    with_ngrams(SHORT[:1]).save_to_preset(str(folder / "preset"))
    found = {}
    for dtype in ("float32", "bfloat16"):
        options = {"dtype": dtype, "quantize_tables": True, "check": False}
        found[dtype], *_ = versions.export(str(folder / "preset"), str(folder / dtype), **options)
    return folder / "preset", found


@pytest.mark.slow
@pytest.mark.multiprocess
def test_in_fresh_processes(exported_both, tmp_path):
    """`export` asks all signatures, of texts and of ids, by all loaders."""
    preset_dir, _ = exported_both
    version, _, errors = versions.export(str(preset_dir), str(tmp_path / "m"), quantize_tables=True)
    assert {loader for *_, loader in errors} == set(loaders.LOADERS)
    assert {name for _, name, _ in errors} == SIGNATURES
    assert parity.BOUND < max(errors.values()) < parity.bound(Graph(version))


@pytest.mark.multiprocess
def test_the_bound_is_that_of_the_products_and_of_the_tables(exported_both, exported_small):
    _, found = exported_both
    graphs = [Graph(version) for version in (exported_small[0], *found.values())]
    assert [graph.product_dtype() for graph in graphs] == ["float32", "float32", "bfloat16"]
    assert [graph.has_int8_tables() for graph in graphs] == [False, True, True]
    assert [parity.bound(graph) for graph in graphs] == pytest.approx([1e-4, 0.0501, 0.1], rel=1e-9)


@pytest.mark.multiprocess
def test_tables_take_a_byte_a_value(exported_both):
    preset_dir, found = exported_both
    model = preset.load(str(preset_dir))
    tables = [model.backbone.token_embedding.embeddings, model.ngrams.table]
    for dtype, version in found.items():
        reader = tf.train.load_checkpoint(str(version / "variables" / "variables"))
        shapes, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        stored = {
            kind: sorted(tuple(shapes[name]) for name in shapes if types[name] == kind)
            for kind in (tf.int8, tf.float32, tf.bfloat16)
        }
        assert stored[tf.int8] == sorted(tuple(table.shape) for table in tables)
        for table in tables:  # nor is there another copy
            assert tuple(table.shape) not in stored[tf.float32] + stored[tf.bfloat16]
            assert stored[tf.float32].count((table.shape[0],)) == 1  # the scales
        assert bool(stored[tf.bfloat16]) == (dtype == "bfloat16")


@pytest.mark.multiprocess
def test_the_effect_on_scores_is_told(exported_both):
    preset_dir, found = exported_both
    model = preset.load(str(preset_dir))
    ids = task_of(model).answers(model).rows.of_texts(tf.constant(requests.texts(5)))["token_ids"].numpy()
    for version in found.values():
        told = effect.of_saved_model(version, model, ids)
        assert (told.count, told.choices) == (5, ("label",))
        assert parity.BOUND < told.largest < parity.bound(Graph(version))


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"classifier"}))
def test_models_that_write_text_are_left_alone(kind, preset_of, tmp_path):
    with pytest.raises(
        ValueError, match="`quantize_tables` must be False for a model that writes text"
    ) as error:
        versions.export(str(preset_of(kind, SHORT)), str(tmp_path / "m"), quantize_tables=True)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "m").exists()
    precision.check_tables(False, preset.load(str(preset_of(kind, SHORT))))


@pytest.mark.multiprocess
def test_the_program_says_what_it_stores(small_dir, tmp_path):
    done = run_program(
        "convnlp.export.saved_model",
        f"--preset={small_dir}",
        f"--output={tmp_path / 'm'}",
        "--dtype=float32",
        "--quantize_tables",
        "--nocheck",
    )
    assert done.returncode == 0, done.stderr
    assert "matrix products in float32, tables in int8\n" in done.stdout
    assert "to see what that does to your scores, give texts with --check_source" in done.stdout
    assert Graph(tmp_path / "m" / "1").has_int8_tables()


def test_a_wrong_table_is_seen_beside_the_rounding(small, tmp_path):
    model = small_classifier(["dynamic_conv"], LENGTH, LABELS)
    model.set_weights(small.get_weights())
    store_in_int8(model)
    store_in_bfloat16(model)  # which leaves tables in int8 alone
    table = model.backbone.token_embedding.embeddings._value
    table.assign(tf.roll(table, 1, axis=0))
    with kernels.implementation("inference"):
        servable = signatures.servable(model).only("ids")
        tf.saved_model.save(servable.module, str(tmp_path), signatures=servable.signatures)
    assert Graph(tmp_path).has_int8_tables()
    with pytest.raises(ValueError, match=r"more than the bound of 0\.1"):
        checks.check(small, {tmp_path: servable})
