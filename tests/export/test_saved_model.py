"""The exported SavedModels: answers, graphs, files, versions, errors."""

import errno
import itertools
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels, saved_model_sums
from convnlp.export import preset
from convnlp.export.saved_models import signatures, versions
from convnlp.export.verification import checks, loaders, requests
from convnlp.export.verification.graph import Graph
from convnlp.models import (
    MultiLabelClassifier,
    QuestionAnswerer,
    QuestionAnswererPreprocessor,
    Seq2SeqBackbone,
    TextRegressor,
)
from convnlp.tasks import saved_class, task_of
from tests import corpus
from tests.export.conftest import EVERY, GENERATED, KINDS, LABELS, LENGTH, RECORDED, SHORT
from tests.run_program import ROOT, run_program

CLASSIFIER_SIGNATURES = {"serving_default", "pair", "classify", "ids", "explain", "explain_pair", "embed"}
LM_SIGNATURES = {"serving_default", "generate", "pair", "ids", "embed"}
SOME_KINDS = [
    pytest.param(kind, marks=[pytest.mark.slow] * (kind not in ("classifier", "lm"))) for kind in KINDS
]
SIGNATURES = {kind: CLASSIFIER_SIGNATURES if kind == "classifier" else LM_SIGNATURES for kind in KINDS}
SIGNATURES["prefix_lm"] = LM_SIGNATURES - {"pair"}

# What TensorFlow Serving's stock server has anyway. A new name belongs here after a look at its registry.
_STOCK = """
Abs AddN AddV2 All ArgMax Assert AssignVariableOp BatchMatMulV2 BiasAdd Cast ConcatV2 Const Cos Cumsum
DepthwiseConv2dNative DisableCopyOnRead Einsum EnsureShape Equal Erfc Exp ExpandDims Fill FloorDiv
FloorMod GatherV2 Greater GreaterEqual Identity Less LessEqual Log LogSoftmax LogicalAnd LogicalNot
LogicalOr MatMul Max Maximum Mean MergeV2Checkpoints Minimum Mul MulNoNan Neg NoOp NotEqual OnesLike
Pack Pad ParseExampleV2 Placeholder Pow Prod Range ReadVariableOp RealDiv ReduceJoin Relu Reshape
RestoreV2 ReverseV2 Rsqrt SaveV2 ScatterNd Select SelectV2 Shape ShardedFilename Sigmoid Sin Softmax
Split Square SquaredDifference Squeeze StatefulPartitionedCall StaticRegexFullMatch StaticRegexReplace
StopGradient StridedSlice StringJoin Sub Sum Tanh Tile TopKV2 Transpose Unpack VarHandleOp VarIsInitializedOp
Where While ZerosLike
"""
STOCK_OPS = set(_STOCK.split())
TEXT_OPS = {"TFText>FastSentencepieceTokenize", "RaggedTensorToTensor"}  # in its tensorflow_text, and stock


@pytest.mark.parametrize("kind", SOME_KINDS)
def test_every_signature_equals_the_preset_in_a_fresh_process(kind, exported):
    """`export` asked each one, at batch 1, 2 and 5, by all loaders; here is what came of it."""
    _assert_all_signatures_equal_the_preset(kind, exported(kind, SHORT))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "lm"])
def test_every_mixer_equals_the_preset_in_a_fresh_process(kind, ids_of_every_mixer):
    directory, errors = ids_of_every_mixer(kind)
    assert set(errors) == {(directory, "ids", loader) for loader in loaders.LOADERS}
    assert max(errors.values()) < 5e-6  # as below


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_signature_of_every_mixer(kind, exported):
    version = exported(kind, EVERY)
    _assert_all_signatures_equal_the_preset(kind, version)
    _assert_stock_operations(*version[:2])
    _assert_free_of_the_batch(*version[:2])


def _assert_all_signatures_equal_the_preset(kind, exported):
    text, ids, errors = exported
    asked = {(text, name) for name in SIGNATURES[kind]} | {(ids, "ids")}
    assert set(errors) == {(*pair, loader) for pair in asked for loader in loaders.LOADERS}
    # Float32 sums of some ten layers in another order; the largest seen is 3e-7.
    assert max(errors.values()) < 5e-6


@pytest.mark.parametrize("kind", SOME_KINDS)
def test_graphs_hold_stock_operations(kind, exported):
    _assert_stock_operations(*exported(kind, SHORT)[:2])


def _assert_stock_operations(text, *ids):
    graphs = [Graph(directory) for directory in (text, *ids)]
    assert TEXT_OPS <= graphs[0].op_names() <= STOCK_OPS | TEXT_OPS
    assert all(graph.op_names() <= STOCK_OPS for graph in graphs[1:])
    for graph in graphs:
        assert not _has_custom_gradients(graph)
        assert not graph.must_be_compiled()


def _has_custom_gradients(graph):
    """Whether it contains gradients, which a server never needs."""
    return any(node.attr["_gradient_op_type"].s.startswith(b"CustomGradient") for node in graph.nodes())


def test_layers_are_stored_once(exported):
    """All signatures of a classifier call them, an explanation twice."""
    graph = Graph(exported("classifier", SHORT)[0])
    products = [node.name for node in graph.nodes() if node.op == "MatMul" and "feed_forward" in node.name]
    assert len(products) == 2 * len(SHORT)


@pytest.mark.parametrize("kind", SOME_KINDS)
def test_no_output_has_a_size_of_its_batch(kind, exported):
    _assert_free_of_the_batch(*exported(kind, SHORT)[:2])


def _assert_free_of_the_batch(*directories):
    """Beside the number of examples, so that servers can split requests and join the answers to the parts."""
    for directory in directories:
        graph = Graph(directory)
        for name in graph.signatures:
            for key, (_, shape) in graph.output_specs(name).items():
                assert shape[0] is None, (name, key)
                assert None not in shape[1:], (name, key)


@pytest.mark.slow
def test_a_text_has_the_answer_it_has_alone(ids_of_every_mixer, classifier):
    """No mixer lets an answer depend on the batch that it is served in."""
    signature = tf.saved_model.load(str(ids_of_every_mixer("classifier")[0])).signatures["ids"]
    texts = ["the river", "", "the old teacher follows the river and the quiet teacher follows the old river"]
    rows = task_of(classifier).answers(classifier).rows
    together = signature(token_ids=rows.of_texts(tf.constant(texts))["token_ids"])["scores"]
    lengths = set()
    for text, expected in zip(texts, together, strict=True):
        alone = rows.of_texts(tf.constant([text]))["token_ids"]
        # Float32 sums over another number of zeros.
        np.testing.assert_allclose(signature(token_ids=alone)["scores"][0], expected, atol=1e-5)
        lengths.add(alone.shape[1])
    assert len(lengths) == 2  # or nothing was padded


def test_a_text_beyond_the_longest_is_refused_by_name(tmp_path):
    """Where nothing cuts it before: an export of your own, run by a session as TensorFlow Serving does."""
    backbone = Seq2SeqBackbone(50, 1, 2, 8, 16, 0, mixer="relative_attention", max_sequence_length=LENGTH)
    module = tf.Module()
    module.variables_of_the_model = [variable.value for variable in backbone.variables]
    encode = tf.function(backbone.encode, [tf.TensorSpec([None, None], tf.int32, "ids")], autograph=False)
    with kernels.implementation("inference"):
        tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": encode})
    message = f"must have at most max_sequence_length = {LENGTH} positions: RelativeAttention has weights for"
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        described = tf.compat.v1.saved_model.load(session, ["serve"], str(tmp_path))
        signature = described.signature_def["serving_default"]
        (output,) = signature.outputs.values()

        def run(length):
            return session.run(output.name, {signature.inputs["ids"].name: np.ones([1, length], "int32")})

        assert run(LENGTH).shape == (1, LENGTH, 8)
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{message}.*\[{LENGTH + 1}\]"):
            run(LENGTH + 1)


def test_training_kernels_would_be_noticed(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([1, 4, 2])])
    def trained(x):
        return kernels.dynamic_conv(x, tf.ones([1, 4, 1, 3]))

    tf.saved_model.save(tf.Module(), str(tmp_path), signatures={"serving_default": trained})
    graph = Graph(tmp_path)
    assert _has_custom_gradients(graph) or graph.must_be_compiled()


def test_shapes_of_the_signatures(exported_classifier, exported_lm):
    described = {line.split()[0]: line for line in versions.describe(exported_classifier[0])}
    assert set(described) == CLASSIFIER_SIGNATURES
    assert described["serving_default"].split(maxsplit=1)[1] == (
        "text string [?]  ->  label string [?], scores float32 [?,3]"
    )
    described = {line.split()[0]: line for line in versions.describe(exported_lm[1])}
    assert described["ids"].endswith(f"token_ids int32 [?,?]  ->  generated_ids int32 [?,{GENERATED}]")


def listed():
    """{kind of model: {signature: [its inputs, its outputs]}} of the table in docs/export.md."""
    page, found = (pathlib.Path(ROOT) / "docs" / "export.md").read_text(encoding="utf-8"), {}
    row = r"^\| ([\w ,-]+) \| (`.*) \| (.*) \| (.*) \|$"
    for models, names, *columns in re.findall(row, page, re.MULTILINE):
        for model, name in itertools.product(models.split(", "), re.findall("`(\\w+)`", names)):
            inputs, outputs = (sorted(re.findall("`(\\w+)`", column)) for column in columns)
            if columns[0] == "as for a classifier":
                inputs = found["classifier"][name][0]
            if columns[1] == "the same":
                outputs = found[model]["serving_default"][1]
            found.setdefault(model, {})[name] = [inputs, outputs]
    return found


def test_the_page_lists_every_signature(exported_classifier, exported_lm, exported_prefix_lm):
    for model, (directory, *_) in (
        ("classifier", exported_classifier),
        ("language model", exported_lm),
        ("prefix_lm encoder", exported_prefix_lm),
    ):
        loaded = tf.saved_model.load(str(directory)).signatures
        assert listed()[model] == {
            name: [sorted(function.structured_input_signature[1]), sorted(function.structured_outputs)]
            for name, function in loaded.items()
        }


OTHERS = {
    "multi-label classifier": lambda backbone, preprocessor: MultiLabelClassifier(
        backbone, 3, preprocessor, labels=LABELS
    ),
    "regressor": TextRegressor,
    "question answerer": lambda backbone, preprocessor: QuestionAnswerer(
        backbone,
        QuestionAnswererPreprocessor(preprocessor.tokenizer, LENGTH, stride=8, max_answer_length=3),
    ),
}


@pytest.mark.parametrize("model", OTHERS)
def test_the_page_lists_every_signature_of_other_models(model, small):
    assert {*listed()} == {*OTHERS, "classifier", "language model", "prefix_lm encoder"}
    functions = signatures.servable(OTHERS[model](small.backbone, small.preprocessor)).signatures
    assert listed()[model] == {
        name: [
            sorted(spec.name for spec in function.input_signature),
            sorted(function.get_concrete_function().structured_outputs),
        ]
        for name, function in functions.items()
    }


def test_files_beside_the_graph(exported_classifier, exported_lm, preset_of):
    for (*paths, _), kind in ((exported_classifier, "classifier"), (exported_lm, "lm")):
        source = preset_of(kind, SHORT)
        for version in paths:
            assets = version / "assets"
            assert (assets / "config.json").read_text() == (source / "config.json").read_text()
            vocabulary = source / "assets" / "tokenizer" / "vocabulary.spm"
            assert (assets / "vocabulary.spm").read_bytes() == vocabulary.read_bytes()
            assert version.stat().st_mode & 0o777 == 0o777 & ~_umask()
    for name, text in RECORDED.items():
        assert (exported_classifier[0] / "assets" / name).read_text() == text
    assert (exported_classifier[1] / "assets" / "labels.txt").read_text().split() == LABELS


def test_warm_up_requests_are_answered(exported_classifier):
    from tensorflow_serving.apis import prediction_log_pb2

    version = exported_classifier[0]
    loaded = tf.saved_model.load(str(version))
    asked = []
    for record in tf.data.TFRecordDataset(str(version / "assets.extra" / "tf_serving_warmup_requests")):
        predict = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        inputs = {name: tf.constant(tf.make_ndarray(value)) for name, value in predict.inputs.items()}
        outputs = loaded.signatures[predict.model_spec.signature_name](**inputs)
        batches = {int(value.shape[0]) for value in (*inputs.values(), *outputs.values())}
        asked.append((predict.model_spec.signature_name, *batches))
    assert sorted(asked) == sorted((name, n) for name in CLASSIFIER_SIGNATURES for n in requests.BATCH_SIZES)


def test_the_check_sees_a_wrong_weight(small, exported_small):
    only_ids = signatures.servable(small).only("ids")
    bias = small.head.bias
    value = bias.numpy()
    bias.assign([np.nan, *value[1:]])  # of all differences the one that comparisons lose most easily
    try:
        with pytest.raises(ValueError, match=r"'ids' of .* differs from the preset by nan"):
            checks.check(small, {exported_small[1]: only_ids})
    finally:
        bias.assign(value)


@pytest.mark.slow
def test_the_check_sees_a_model_that_only_python_can_load(small, tmp_path):
    """The trap that signatures.py tells of, sprung on purpose."""
    servable = signatures.servable(small).only("ids")
    servable.module.model_variables = small
    tf.saved_model.save(servable.module, str(tmp_path), signatures=servable.signatures)
    with pytest.raises(ValueError, match=r"fails in a fresh process.*Could not find variable"):
        checks.check(small, {tmp_path: servable})


def test_texts_are_padded_to_about_the_longest_or_to_a_fixed_length(classifier, monkeypatch):
    rows = task_of(classifier).answers(classifier).rows
    short = rows.of_texts(tf.constant(["No.", ""]))
    lengths = short["padding_mask"].numpy().sum(axis=1)
    assert 1 < lengths.max() <= 8
    assert short["token_ids"].shape == (2, 8)  # rounded up to a multiple of 8
    assert lengths[1] == 1  # the end token
    assert rows.of_texts(tf.constant(["no " * 5 * LENGTH]))["token_ids"].shape == (1, LENGTH)
    assert rows.of_ids(tf.ones([1, LENGTH + 5], tf.int32))["token_ids"].shape == (1, LENGTH)

    mixer = next(layer for layer in classifier.backbone.encoder._flatten_layers() if hasattr(layer, "gated"))
    monkeypatch.setattr(type(mixer), "pad_length_invariant", False)
    rows = task_of(classifier).answers(classifier).rows
    assert rows.of_texts(tf.constant(["No."]))["token_ids"].shape == (1, LENGTH)
    padded = rows.of_ids(tf.constant([[5, 6, 1]]))
    assert padded["token_ids"].numpy().tolist() == [[5, 6, 1] + [0] * (LENGTH - 3)]
    assert padded["padding_mask"].numpy().sum() == 3


def test_versions_go_up_and_are_never_overwritten(small_dir, tmp_path):
    output, twin = tmp_path / "m", tmp_path / "elsewhere"
    odd = ["7", "08", "notes", ".export-1", "9" * 20, "\u0661\u0662"]  # the last: digits, to Python
    for name in odd:
        (output / name).mkdir(parents=True)
    paths = versions.export(str(small_dir), str(output), str(twin), check=False)
    assert paths == (output / "9", twin / "9", {})
    with pytest.raises(ValueError, match=r"Received: 9, but .* exists"):
        versions.export(str(small_dir), str(output), str(twin), version=9, check=False)
    assert {path.name for path in output.iterdir()} == {*odd, "9"}
    with pytest.raises(ValueError, match=r"`version` must be .* at most 63 bits\. Received: 9223372"):
        versions.export(str(small_dir), str(output), str(twin), version=2**63, check=False)


def test_nothing_is_left_of_a_failed_export(small_dir, tmp_path, monkeypatch):
    def full_disk(servable):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(requests, "warm_up_records", full_disk)
    with pytest.raises(OSError, match="No space left"):
        versions.export(str(small_dir), str(tmp_path / "m"))
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_was_killed_stops_no_later_one_of_the_same_process_number(small_dir, tmp_path):
    """In a container, a process often has the number of the one before."""
    left = tmp_path / "m" / f".export-{os.getpid()}"
    left.mkdir(parents=True)
    assert versions.export(str(small_dir), str(tmp_path / "m"), check=False)[0] == tmp_path / "m" / "1"
    assert left.is_dir()  # it may be that of a process on another machine


def test_nothing_is_left_of_an_export_that_is_stopped(small_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(requests, "warm_up_records", lambda servable: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit) as end:
        versions.export(str(small_dir), str(tmp_path / "m"))
    assert end.value.code == 143
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.fixture
def version_1_of_somebody_else(tmp_path, monkeypatch):
    """Makes m/1 appear as the last thing before an export gives its directories their names."""

    def write(directory):
        (tmp_path / "m" / "1" / "variables").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(saved_model_sums, "write", write)


@pytest.mark.usefixtures("version_1_of_somebody_else")
def test_of_two_exports_at_the_same_time_the_second_gets_the_next_number(small_dir, tmp_path):
    paths = versions.export(str(small_dir), str(tmp_path / "m"), check=False)
    assert paths == (tmp_path / "m" / "2", tmp_path / "m_ids" / "2", {})
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")) == [
        "m/1",
        "m/2",
        "m_ids/2",
    ]


@pytest.mark.usefixtures("version_1_of_somebody_else")
def test_of_two_exports_of_one_version_the_second_leaves_nothing(small_dir, tmp_path):
    with pytest.raises(ValueError, match=r"`version` must be new\. Received: 1, but .*m/1 exists"):
        versions.export(str(small_dir), str(tmp_path / "m"), version=1, check=False)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["1"]


@pytest.mark.parametrize(
    ("output", "ids_output", "message"),
    [
        ("", None, "`output` must not be empty"),
        ("gs://b/m", None, "`output` must be a path on this machine.* Received: output=gs://b/m$"),
        ("m", "gs://b/ids", "`ids_output` must be a path on this machine.* Received: ids_output=gs://b/ids$"),
        ("file", "ids", "`output` must be a directory, not a file. Received: output=file$"),
        ("m", "file", "`ids_output` must be a directory, not a file. Received: ids_output=file$"),
        ("file/m", None, "`output` must be writable, but .*/file is not. Received: output=file/m$"),
        ("m", "./m", "`ids_output` must be another directory than `output`. Received: ./m twice$"),
    ],
)
def test_where_nothing_is_exported(small_dir, tmp_path, monkeypatch, output, ids_output, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(preset, "load", None)  # it is too early for that
    with pytest.raises(ValueError, match=message):
        versions.export(str(small_dir), output, ids_output)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("output", ["m", "m/", "./m//", "m/1/..", "m/."])
def test_the_twin_is_beside_the_model_however_its_path_is_written(tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    _, twin = versions.new_versions(output)
    assert twin.absolute() == tmp_path / "m_ids" / "1"


def test_the_twin_of_the_working_directory_is_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert versions.new_versions(".")[1] == tmp_path.parent / f"{tmp_path.name}_ids" / "1"


def test_what_cannot_be_exported(small, small_dir, preset_of, tmp_path):
    output = str(tmp_path / "m")
    with pytest.raises(ValueError, match="`max_length` must be None: a TextClassifier does not write"):
        versions.export(str(small_dir), output, max_length=5)
    with pytest.raises(ValueError, match="`max_length` must be >= 1"):
        versions.export(str(preset_of("lm", SHORT)), output, max_length=0)
    bare = tmp_path / "backbone"
    shutil.copytree(small_dir, bare)
    (bare / "task.json").unlink()
    with pytest.raises(ValueError, match=r"preset .*backbone: an encoder alone has no classes"):
        versions.export(str(bare), output)
    with pytest.raises(ValueError, match=r"preset .*backbone: an encoder alone has no classes"):
        saved_class(str(bare))
    monolith = type(small)(small.backbone, num_classes=3)
    with pytest.raises(ValueError, match="must have a preprocessor"):
        signatures.servable(monolith)
    assert not (tmp_path / "m").exists()


@pytest.mark.multiprocess
def test_program(small_dir, tmp_path):
    output, twin = tmp_path / "m", tmp_path / "ids"
    corpus.write_jsonl(tmp_path / "texts.jsonl", corpus.reviews(4))
    flags = [f"--output={output}", f"--ids_output={twin}", "--version=7", "--group_size=2", "--tflite"]
    check = [f"--check_source=jsonl:{tmp_path}/texts.jsonl", "--num_check_texts=3"]
    done = run_program("export.saved_model", f"--preset={small_dir}", *flags, "--nocheck", *check)
    assert done.returncode == 0, done.stderr
    assert f"{output}/7 " in done.stdout
    assert f"{twin}/7 " in done.stdout
    assert "serving_default  text string [?]" in done.stdout
    assert "3 texts: scores differ from the preset by at most" in done.stdout
    assert (output / "7" / "model.tflite").exists()
    assert {"While", "StatelessWhile"} & {node.op for node in Graph(output / "7").nodes()}  # over groups

    done = run_program("export.saved_model", f"--preset={tmp_path}/none", f"--output={output}")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"error: preset {tmp_path}/none: no such directory")
    assert {path.name for path in tmp_path.iterdir()} == {"m", "ids", "texts.jsonl"}

    # Before the preset is loaded, which takes long.
    (tmp_path / "bare").mkdir()
    shutil.copy(small_dir / "task.json", tmp_path / "bare")
    for flags, message in (
        (["--output=gs://bucket/m"], "`output` must be"),
        ([f"--output={output}", "--version=7"], "`version` must be"),
        (
            [f"--output={output}", *check, "--check_text_fields=other"],
            f"{tmp_path}/texts.jsonl, line 1: no field 'other'",
        ),
    ):
        done = run_program("export.saved_model", f"--preset={tmp_path}/bare", *flags)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith(f"error: {message}")


@pytest.mark.slow
@pytest.mark.multiprocess
def test_full_disk_ends_in_one_line(small_dir, tmp_path):
    """A limit on the size of a file stands in for it: writes fail in the middle of the graph."""
    command = [
        sys.executable,
        "-m",
        "export.saved_model",
        f"--preset={small_dir}",
        f"--output={tmp_path}/m",
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.slow
def test_groups_of_about_one_length(small, small_dir, tmp_path):
    """Checked as any export, in processes of their own; and a batch of mixed lengths gets what it got."""
    directory, _, errors = versions.export(str(small_dir), str(tmp_path / "grouped"), group_size=2)
    assert max(errors.values()) < 1e-5  # float32 sums of other shapes
    ids = (
        np.random.default_rng(0).integers(3, 90, [7, LENGTH])
        * (np.arange(LENGTH) < [[9], [2], [16], [1]] * 2)[:7]
    )
    ids = tf.constant(ids, tf.int32)
    model = tf.saved_model.load(str(directory))
    expected = tf.nn.softmax(small({"token_ids": ids, "padding_mask": ids != 0}, training=False))
    np.testing.assert_allclose(model.signatures["ids"](token_ids=ids)["scores"], expected, atol=1e-5)
    kinds = {node.op for node in Graph(directory).nodes()}
    assert kinds & {"While", "StatelessWhile"}


@pytest.mark.parametrize(("kind", "group_size"), [("classifier", 0), ("lm", 4)])
def test_groups_that_there_cannot_be(kind, group_size, preset_of):
    model = preset.load(str(preset_of(kind, SHORT)))
    with pytest.raises(
        ValueError, match=f"`group_size` must be at least 1, .* Received: group_size={group_size}"
    ):
        signatures.servable(model, group_size=group_size)
