"""What `convnlp.export.verify` sees: wrong answers, operations that servers lack, loaders that disagree."""

import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from convnlp import saved_model_sums, sums
from convnlp.export.verification import checks, joining, loaders, recorded, requests, stock
from convnlp.export.verification.graph import Graph
from tests.run_program import run_program

LONG = b"longer than what a TF_TString holds in place" * 3
NUMBERS = ("float32", "float64", "int32", "int64", "uint8", "float16", "bool")


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A SavedModel whose answers can be told without running it."""
    directory = str(tmp_path_factory.mktemp("known"))
    module = tf.Module()
    module.slope = tf.Variable([2.0, -1.0])

    def affine(x):
        return {"y": x[:, None] * module.slope + 1.0, "rows": tf.shape(x)}

    def twice(text):
        return {"twice": text + text, "same": text}

    def types(**inputs):
        return {f"{name}_back": tf.reverse(value, [0]) for name, value in inputs.items()}

    specs = {name: tf.TensorSpec([None, 2], name, name) for name in NUMBERS}
    functions = {
        "serving_default": tf.function(affine, input_signature=[tf.TensorSpec([None], name="x")]),
        "twice": tf.function(twice, input_signature=[tf.TensorSpec([None], tf.string, "text")]),
        "types": tf.function(types).get_concrete_function(**specs),
    }
    tf.saved_model.save(module, directory, signatures=functions)
    return directory


@pytest.mark.multiprocess
def test_the_c_api_gives_answers_that_are_known(known, tmp_path):
    """The expected values are written here: no TensorFlow computes them."""
    graph = Graph(known)
    text = np.array([b"", b"a\0b", "Köln".encode(), LONG], object)
    rows = {name: np.array([[0, 1], [1, 1], [1, 0]]).astype(name) for name in NUMBERS}
    asked = [
        ("serving_default", {"x": np.array([1.0, 0.5, -3.0], np.float32)}),
        ("serving_default", {"x": np.zeros([0], np.float32)}),
        ("twice", {"text": text}),
        ("types", rows),
        ("types", {**rows, "int32": rows["float32"]}),  # not the signature's type
    ]
    names = {name: graph.tensor_names(name) for name in graph.signatures}
    jobs, results = tmp_path / "jobs", tmp_path / "results"
    jobs.write_bytes(pickle.dumps([(known, False, names, asked), (str(tmp_path), False, names, asked[:1])]))
    script = loaders.__file__.replace("loaders.py", "c_api.py")
    subprocess.run([sys.executable, "-I", script, jobs, results], check=True, capture_output=True)
    answered, op_list = pickle.loads(results.read_bytes())
    (affine, empty, twice, types, wrong, missing) = (outputs for *_, outputs in answered)

    np.testing.assert_array_equal(affine["y"], [[3, 0], [2, 0.5], [-5, 4]])
    assert affine["rows"].tolist() == [3]
    assert empty["y"].shape == (0, 2)
    assert twice["twice"].tolist() == [b"", b"a\0ba\0b", "KölnKöln".encode(), LONG + LONG]
    assert twice["same"].tolist() == text.tolist()
    for name in NUMBERS:
        assert types[f"{name}_back"].dtype == name
        assert types[f"{name}_back"].tolist() == rows[name][::-1].tolist()
    assert isinstance(wrong, str)
    assert "Could not find SavedModel" in missing
    assert b"MatMul" in op_list
    assert b"FastSentencepiece" not in op_list


def test_operations_that_the_stock_server_lacks(known, tmp_path):
    graph = Graph(known)
    assert not stock.uses_text_ops(graph)
    assert stock.violations(graph, graph.op_names()) == []
    (line,) = stock.violations(graph, graph.op_names() - {"ReverseV2"})
    assert line == "operations that the stock server does not have: ReverseV2"

    @tf.function(input_signature=[tf.TensorSpec([2])], jit_compile=True)
    def compiled(x):
        return x + tf.py_function(lambda value: value, [x], tf.float32)

    tf.saved_model.save(tf.Module(), str(tmp_path), signatures={"serving_default": compiled})
    graph = Graph(tmp_path)
    python, compiler = stock.violations(graph, graph.op_names())
    assert "EagerPyFunc" in python
    assert "jit_compile" in compiler


def test_text_operations_are_known_by_name(exported_classifier):
    text, ids, _ = exported_classifier
    assert stock.uses_text_ops(Graph(text))
    assert not stock.uses_text_ops(Graph(ids))


def test_what_is_no_saved_model(tmp_path):
    with pytest.raises(ValueError, match="holds no saved_model"):
        Graph(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"truncated")
    with pytest.raises(ValueError, match="is damaged"):
        Graph(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ValueError, match="must have a graph with the tag 'serve'"):
        Graph(tmp_path)


def test_recorded_requests_are_asked_at_every_batch_and_at_odd_lengths(exported_classifier):
    text, *_ = exported_classifier
    asked, made_up = recorded.of_saved_model(text, Graph(text))
    assert made_up == []
    shapes = {}
    for name, inputs in asked:
        shapes.setdefault(name, set()).update(value.shape for value in inputs.values())
    assert set(shapes) == set(Graph(text).signatures)
    for name, found in shapes.items():
        assert {shape[0] for shape in found} == set(requests.BATCH_SIZES), name
    assert {(1, 1), (2, 3), (5, 9)} <= shapes["ids"]


def test_a_context_is_part_of_each_recorded_example(tmp_path):
    log = prediction_log_pb2.PredictionLog()
    log.classify_log.request.model_spec.signature_name = "classify"
    found = log.classify_log.request.input.example_list_with_context
    found.context.features.feature["text"].bytes_list.value.append(b"good")
    for _ in range(2):
        found.examples.add().features.feature["n"].int64_list.value.append(1)
    empty = prediction_log_pb2.PredictionLog()
    empty.regress_log.request.model_spec.signature_name = "regress"
    path = tmp_path / "requests"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(log.SerializeToString())
        writer.write(empty.SerializeToString())
    ((name, (inputs,)),) = recorded._warm_up(path).items()
    assert (name, inputs["inputs"].shape) == ("classify", (2,))
    example = tf.train.Example.FromString(inputs["inputs"][1])
    assert example.features.feature["text"].bytes_list.value == [b"good"]
    assert example.features.feature["n"].int64_list.value == [1]


def test_a_recorded_request_that_is_none_is_named(tmp_path):
    path = tmp_path / "requests"
    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.inputs["x"].dtype = 999
    for record, words in [
        (b"\xff", "record 1 is not a PredictionLog"),
        (log.SerializeToString(), "a tensor"),
    ]:
        with tf.io.TFRecordWriter(str(path)) as writer:
            writer.write(record)
        with pytest.raises(ValueError, match=f"requests: {words}"):
            recorded._warm_up(path)


def test_a_recorded_request_must_not_declare_more_than_it_can_hold(known, tmp_path, monkeypatch):
    log = prediction_log_pb2.PredictionLog()
    x = log.predict_log.request.inputs["x"]
    x.CopyFrom(tf.make_tensor_proto([1.0]))
    directory = tmp_path / "model"
    shutil.copytree(known, directory)
    (directory / recorded.WARM_UP).parent.mkdir()
    monkeypatch.setattr(tf, "make_ndarray", None)
    for size in (2**40, -1):
        x.tensor_shape.dim[0].size = size
        with tf.io.TFRecordWriter(str(directory / recorded.WARM_UP)) as writer:
            writer.write(log.SerializeToString())
        with pytest.raises(ValueError, match=rf"at most 16777216 elements\. Received: shape=\[{size}\]"):
            recorded.of_saved_model(directory, Graph(known))


def test_requests_are_made_up_from_shapes_and_types(known):
    asked, made_up = recorded.of_saved_model(known, Graph(known))
    assert made_up == ["serving_default", "twice", "types"]
    shapes = [inputs["x"].shape for name, inputs in asked if name == "serving_default"]
    assert shapes == [(1,), (2,), (5,)]
    for name, inputs in asked:
        if name == "types":
            assert {key: value.dtype.name for key, value in inputs.items()} == {key: key for key in NUMBERS}
            assert {value.shape for value in inputs.values()} <= {(1, 2), (2, 2), (5, 2)}


def report_of(monkeypatch, directory, answers, **kwargs):
    """The report where the loaders give these answers to one request."""
    inputs = {"x": np.zeros([1], np.float32), "text": np.array([b"a", b"a"], object)}
    rows = [
        (directory, "serving_default", loader, pickle.loads(pickle.dumps(inputs)), outputs)
        for loader, outputs in answers.items()
    ]
    monkeypatch.setattr(loaders, "ask", lambda graphs, asked: (rows, graphs[directory].op_names()))
    names = Graph(directory).signatures
    return checks.verify({directory: [(name, inputs) for name in names]}, **kwargs)


def scores(*values, label=b"a"):
    return {"scores": np.array([values], np.float32), "label": np.array([label], object)}


def test_loaders_that_disagree(known, monkeypatch):
    same = dict.fromkeys(loaders.LOADERS, scores(0.25, np.inf))
    report = report_of(monkeypatch, known, same)
    assert report.violations == []
    assert set(report.differences.values()) == {(0.0, None)}
    for wrong, difference in [
        (scores(0.25 + 0.01, np.inf), "0.01"),
        (scores(np.nan, np.inf), "nan"),
        (scores(0.25, np.inf, label=b"b"), "inf"),
        ({"scores": scores(0.25, np.inf)["scores"]}, "inf"),
    ]:
        report = report_of(monkeypatch, known, {**same, "c_api": wrong})
        (line,) = report.violations
        assert f"(c_api loader) differs from the python loader by {difference}" in line
    assert report_of(monkeypatch, known, {**same, "c_api": scores(0.26, np.inf)}, bound=0.1).violations == []


def test_a_loader_that_fails_and_a_signature_that_nobody_asked(known, monkeypatch):
    report = report_of(monkeypatch, known, {"python": scores(0.5), "session": "Could not\nfind variable x"})
    (line,) = report.violations
    assert line.endswith("(session loader) fails in a fresh process: Could not find variable x")
    monkeypatch.setattr(loaders, "ask", lambda graphs, asked: ([], graphs[known].op_names()))
    lines = checks.verify({known: []}).violations
    assert len(lines) == 3
    assert all("was not run" in line for line in lines)


def in_process(graphs, asked):
    """Stands in for `loaders.ask`: one loader, in this process."""
    rows = []
    for directory, requests_of_one in asked.items():
        loaded = tf.saved_model.load(str(directory)).signatures
        for name, inputs in requests_of_one:
            try:
                outputs = loaded[name](**{key: tf.constant(value) for key, value in inputs.items()})
                outputs = {key: value.numpy() for key, value in outputs.items()}
            except tf.errors.OpError as error:
                outputs = str(error)
            rows.append((directory, name, "session", inputs, outputs))
    return rows, set().union(*(graph.op_names() for graph in graphs.values()))


@pytest.fixture(scope="module")
def splittable(tmp_path_factory):
    """A SavedModel with signatures whose answers a server can join, and with some whose answers it cannot."""
    directory = str(tmp_path_factory.mktemp("splittable"))
    text, ids = tf.TensorSpec([None], tf.string, "text"), tf.TensorSpec([None, None], tf.int32, "ids")

    def letters(text):
        return tf.strings.bytes_split(text).to_tensor("")

    def kept(ids):
        return ids[:, : tf.reduce_max(tf.reduce_sum(tf.cast(ids != 0, tf.int32), axis=1))]

    def examples(inputs):
        parsed = tf.io.parse_example(inputs, {"text": tf.io.FixedLenFeature([], tf.string)})["text"]
        return {"letters": letters(parsed)}

    def even(text):
        with tf.control_dependencies([tf.debugging.assert_equal(tf.strings.length(text) % 2, 0)]):
            return {"length": tf.strings.length(text)}

    functions = {
        "letters": (lambda text: {"letters": letters(text), "count": tf.strings.length(text)}, text),
        "padded": (lambda text: {"letters": letters(text)[:, :1], "same": text}, text),
        "total": (lambda text: {"total": tf.reduce_sum(tf.strings.length(text)), "same": text}, text),
        "kept": (lambda ids: {"kept": kept(ids)}, ids),
        "examples": (examples, tf.TensorSpec([None], tf.string, "inputs")),
        "even": (even, text),  # half of an example may be none
        "row": (lambda row: {"sum": tf.reduce_sum(row)}, tf.TensorSpec([3], tf.float32, "row")),
    }
    functions = {name: tf.function(f, input_signature=[spec]) for name, (f, spec) in functions.items()}
    tf.saved_model.save(tf.Module(), directory, signatures=functions)
    return directory


def test_answers_that_a_batching_server_cannot_join_are_refused(splittable, monkeypatch):
    """Each is asked one example: what it is cut from has the same length at every batch."""
    monkeypatch.setattr(loaders, "ask", in_process)
    text = np.array([b"a text.."], object)
    example = tf.train.Example()
    example.features.feature["text"].bytes_list.value.append(b"a text")
    inputs = {"kept": {"ids": np.ones([2, 6], np.int32)}, "row": {"row": np.ones(3, np.float32)}}
    inputs["examples"] = {"inputs": np.array([example.SerializeToString()], object)}
    inputs["even"] = {"text": np.array([b"ab"], object)}  # whose half is refused
    names = Graph(splittable).signatures
    asked = [(name, inputs.get(name, {"text": text})) for name in names]
    lines = sorted(checks.verify({splittable: asked}).violations)
    refused = [(line.split("'")[1], line.split("'")[3]) for line in lines]
    assert refused == [("kept", "kept"), ("letters", "examples"), ("letters", "letters"), ("total", "total")]
    assert "has the shapes [2, 6] and [1, 3] for two requests: a server that batches cannot join" in lines[0]
    assert "has the shape [] for 1 examples" in lines[3]


def test_parts_differ_in_length(splittable):
    graph = Graph(splittable)
    texts = np.array([b"abc", b"", b"abcdef"], object)
    asked = [("letters", {"text": texts[:1]}), ("letters", {"text": texts})]
    parts = [(name, inputs["text"].tolist(), cut) for name, inputs, cut in joining.parts(asked, graph)]
    assert parts == [("letters", [b"abcdef"], False), ("letters", [b""], False)]
    (_, cut) = joining.parts([("letters", {"text": np.array(["äöü".encode()] * 2, object)})], graph)
    assert (cut[1]["text"].tolist(), cut[2]) == (["ä".encode()], True)


@pytest.mark.multiprocess
def test_a_text_without_a_list_that_ends_the_process(tmp_path):
    """As in exports of question answerers before their texts were checked."""
    import tensorflow_text

    def begins(text):
        _, begins, _ = tensorflow_text.WhitespaceTokenizer().tokenize_with_offsets(text)
        return {"begin": begins[:, :1].to_tensor(shape=[None, 1])}

    begins = tf.function(begins, input_signature=[tf.TensorSpec([None], tf.string, "text")])
    tf.saved_model.save(tf.Module(), str(tmp_path), signatures={"begins": begins})
    asked = [("begins", {"text": np.array([b"a text", b" b"], object)})]
    with pytest.raises(ValueError, match=r"ends with exit code -\d+ in a fresh process: asked begins \(\)"):
        checks.verify({str(tmp_path): asked})


@pytest.mark.multiprocess
def test_program_sees_other_weights(exported_small, small, small_dir, tmp_path):
    """The preset of another training, of the same architecture."""
    bias = small.head.bias
    value = bias.numpy()
    bias.assign(value + np.array([0.1, 0, 0]))
    try:
        small.save_to_preset(str(tmp_path / "other"))
    finally:
        bias.assign(value)
    ids = exported_small[1].parent
    done = run_program("export.verify", f"--model={ids}", f"--preset={tmp_path / 'other'}")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:3] for line in lines if line.startswith("ids ")] == [
        ["ids", loader, "6"] for loader in loaders.LOADERS
    ]
    failed = [line for line in lines if line.startswith("FAILED: ")]
    assert len(failed) == 3
    assert all("differs from the preset by" in line for line in failed)


@pytest.mark.multiprocess
def test_an_export_has_sums_and_the_program_holds_it_to_them(exported_small, tmp_path):
    for directory in exported_small[:2]:
        listed = sums.parse((directory / sums.FILE).read_bytes())
        assert {"saved_model.pb", "variables/variables.index", "assets.extra/tf_serving_warmup_requests"} < {
            *listed
        }
        assert saved_model_sums.check(directory)
    copy = shutil.copytree(exported_small[1], tmp_path / "1")
    (variables,) = copy.glob("variables/variables.data-*")
    content = bytearray(variables.read_bytes())
    content[-1] ^= 1
    variables.write_bytes(content)
    done = run_program("export.verify", f"--model={tmp_path}")
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"error: {variables}: it is not the file that was exported" in done.stderr
