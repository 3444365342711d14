"""Full int8: what calibrates it, what stays float, how far off it is; and mixers that TFLite lacks."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema

from convnlp import layers
from convnlp.data import Source
from convnlp.export.lite import calibration, conversion, refusal, tflite_files
from convnlp.export.saved_models import signatures
from convnlp.layers import TokenMixer
from tests import corpus
from tests.export.conftest import LENGTH
from tests.run_program import run_code
from tests.small_classifier import small_classifier


def test_calibration_has_all_lengths_and_pads(classifier, tmp_path):
    texts = ["a river", *corpus.documents(40)]
    path = corpus.write_jsonl(tmp_path / "texts.jsonl", [{"text": t, "other": t[::-1]} for t in texts])
    rows = calibration.rows(classifier, Source(f"jsonl:{path}"), num_texts=10)
    assert {row.shape for row in rows} == {(1, LENGTH)}
    assert {row.dtype.name for row in rows} == {"int32"}
    lengths = [int((row != 0).sum()) for row in rows]
    assert lengths == sorted(lengths)
    shortest = int(classifier.preprocessor(texts[:1], y=None)["padding_mask"].numpy().sum())
    assert (len(lengths), *lengths[:2], lengths[-1]) == (11, 1, shortest, LENGTH)
    every = calibration.rows(classifier, Source(f"jsonl:{path}"), num_texts=1000)
    expected = classifier.preprocessor(["", *texts], y=None)["token_ids"].numpy()
    assert sorted(row[0].tolist() for row in every) == sorted(expected.tolist())

    first = calibration.texts(Source(f"jsonl:{path}"), ("text", "other"), at_most=3)
    assert [column.tolist() for column in first] == [[t[::s].encode() for t in texts[:3]] for s in (1, -1)]

    pairs = calibration.rows(classifier, Source(f"jsonl:{path}"), ("text", "other"), num_texts=1000)
    assert max(int((row == 1).sum()) for row in pairs) == 2  # an end token behind each text
    with pytest.raises(ValueError, match="no field 'none'"):
        calibration.rows(classifier, Source(f"jsonl:{path}"), ("none",))


def test_the_fields_of_training_calibrate(tmp_path):
    path = corpus.write_jsonl(tmp_path / "pairs.jsonl", [{"text": "a", "premise": "b", "claim": "c"}])
    source, preset = Source(f"jsonl:{path}"), str(tmp_path)
    assert calibration.fields_of(preset, source) == ("text",)
    assert calibration.fields_of(preset, source, ["premise"]) == ("premise",)
    task = {"kind": "classification", "text_field": "premise", "second_text_field": "claim"}
    (tmp_path / "experiment.json").write_text(json.dumps({"task": task}))
    assert calibration.fields_of(preset, source) == ("premise", "claim")
    assert calibration.fields_of(preset, source, ["text", "claim"]) == ("text", "claim")
    with pytest.raises(ValueError, match=r"trained on, premise and claim\. Received: .*_fields=text$"):
        calibration.fields_of(preset, source, ["text"])


OF_FLAGS = """
import json, sys
from absl import flags
from convnlp.export.lite import calibration, calibration_flags
calibration.rows = lambda model, source, names, num_texts: [str(source), names, num_texts]
flags.FLAGS(sys.argv)
print(json.dumps(calibration_flags.rows(None, sys.argv[-1])))
"""


@pytest.mark.multiprocess
def test_the_flags_choose_the_texts(tmp_path):
    """In a process of its own, since each program has flags of these names."""
    path = corpus.write_jsonl(tmp_path / "pairs.jsonl", [{"text": "a", "premise": "b", "claim": "c"}])
    chosen = [
        "--calibration_split=train[:50%]",
        "--num_calibration_texts=7",
        "--calibration_fields=claim,premise",
    ]
    done = run_code(OF_FLAGS, f"--calibration_source=jsonl:{path}", *chosen, str(tmp_path))
    assert done.returncode == 0, done.stderr
    expected = [f"jsonl:{path}, split train[:50%]", ["claim", "premise"], 7]
    assert json.loads(done.stdout.splitlines()[-1]) == expected


def test_modes_and_their_arguments(classifier):
    for mode, rows in (("int8", None), ("int8", []), ("dynamic", [np.ones([1, 4], np.int32)])):
        with pytest.raises(ValueError, match="`calibration` is needed for mode int8, and for no other"):
            tflite_files.converted(classifier, mode, "ids", rows)
    with pytest.raises(ValueError, match="mode int8 needs inputs=ids"):
        tflite_files.converted(classifier, "int8", "text", [np.ones([1, 4], np.int32)])


@pytest.fixture(scope="module")
def calibrating(classifier, tmp_path_factory):
    """Rows with pads, whose masks would fill an int8 tensor's range."""
    cut = [{"text": row["text"][:length]} for row in corpus.reviews(20) for length in (8, 20, 200)]
    path = corpus.write_jsonl(tmp_path_factory.mktemp("calibration") / "texts.jsonl", cut)
    return calibration.rows(classifier, Source(f"jsonl:{path}"), num_texts=40)


@pytest.fixture(scope="module")
def content(classifier, calibrating):
    """The flatbuffer of a stack with all mixers."""
    return tflite_files.converted(classifier, "int8", "ids", calibrating)[1]


def unpacked(content):
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))


@pytest.mark.slow
def test_matrices_are_int8_and_sums_are_not(content):
    model = unpacked(content)
    (graph,) = model.subgraphs
    codes = [max(code.builtinCode, code.deprecatedBuiltinCode) for code in model.operatorCodes]
    names = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
    kinds = [names[codes[operator.opcodeIndex]] for operator in graph.operators]
    is_int8 = {}
    for kind, operator in zip(kinds, graph.operators, strict=True):
        types = {graph.tensors[i].type for i in (operator.inputs[0], *operator.outputs)}
        is_int8.setdefault(kind, []).append(schema.TensorType.INT8 in types)
    assert not any(is_int8["ADD"] + is_int8["SUB"])
    of_sums = {i for kind, op in zip(kinds, graph.operators, strict=True) if kind == "ADD" for i in op.inputs}
    for kind, operator in zip(kinds, graph.operators, strict=True):
        if kind == "MUL" and of_sums & set(operator.outputs):
            assert graph.tensors[operator.inputs[0]].type != schema.TensorType.INT8
    assert any(is_int8["MUL"])  # gates
    assert np.mean(is_int8["FULLY_CONNECTED"]) > 0.9


def test_int8_of_the_mixers(classifier, mixers, calibrating, content):
    rows = calibrating
    assert conversion.custom_operations(content) == set()
    model = unpacked(content)
    tensors = model.subgraphs[0].tensors
    assert tensors[model.subgraphs[0].outputs[0]].type == schema.TensorType.FLOAT32
    activations = [
        t for t in tensors if t.type == schema.TensorType.INT8 and model.buffers[t.buffer].data is None
    ]
    assert len(activations) > 5 * len(mixers)
    scales = [scale for t in activations if t.quantization is not None for scale in t.quantization.scale]
    assert max(scales) < 10  # 255 times that is the range

    run = tflite_files.runner(content)
    ids = np.concatenate(rows)
    expected = np.asarray(classifier({"token_ids": ids, "padding_mask": ids != 0}, training=False))
    found = np.concatenate([run(row) for row in rows])
    # An int8 activation errs by 1/500 of its range, some fifty of them deep; a lost mask, or a wrong number
    # of tokens, by half of the range of the logits and more.
    assert np.abs(found - expected).max() < 0.15 * np.ptp(expected)
    for batch, length in ((1, 7), (5, LENGTH), (2, LENGTH - 3)):
        assert np.isfinite(run(ids[:batch, :length])).all()


class Singular(TokenMixer):
    """Scales by the largest singular value of the row, for which TFLite has no operation."""

    name = "singular"
    supports_causal = supports_step = supports_packing = False

    def __init__(self, hidden_dim, causal=False, **kwargs):
        super().__init__(hidden_dim, causal, **kwargs)
        self.scale = keras.layers.Rescaling(1.0)  # whatever a layer in it is called, it is no mixer
        self.scale.hidden_dim, self.scale.pad_length_invariant = hidden_dim, False

    def mix(self, x, masks, training):
        return self.scale(x) / (1.0 + tf.linalg.svd(x, compute_uv=False)[:, :1, None])


def test_a_mixer_without_operations_is_refused_by_name(own_mixers):
    layers.register_mixer(Singular)
    model = small_classifier(["dynamic_conv", "singular"], length=8, labels=["0", "1"])
    assert [type(mixer).__name__ for mixer in refusal.mixers(model)] == ["DynamicConv", "Singular"]
    assert signatures.edge(model, "ids").rows.any_length
    with pytest.raises(ValueError, match=r"no built-in operations for the mixer Singular \(.*Svd") as error:
        tflite_files.converted(model, "dynamic")
    assert "DynamicConv" not in str(error.value)
