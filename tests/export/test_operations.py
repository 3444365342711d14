"""Counting the operations of exported models."""

import json

import numpy as np
import pytest
import tensorflow as tf

from convnlp.export.lite import delegation
from convnlp.export.operation import place
from convnlp.export.saved_models import execution
from tests.run_program import run_program


def lite(function):
    """The flatbuffer of a function of token ids."""
    concrete = tf.function(function).get_concrete_function(tf.TensorSpec([None, None], tf.int32))
    return tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert()


def kinds(found):
    return [(each.kind, each.is_fast) for each in found]


def test_what_stands_between_two_parts_is_slow():
    """XNNPACK has no operation for the running sum, nor for the look-up of ids."""
    table = tf.constant(np.random.default_rng(0).normal(size=[9, 4]), tf.float32)

    def function(ids):
        x = tf.tanh(tf.gather(table, ids) * 2.0)
        return tf.sqrt(tf.exp(tf.cumsum(x, axis=1)) + 1.0)

    found, num_parts = delegation.operations(lite(function), 2, 5)
    assert kinds(found) == [
        ("GATHER", False),
        ("MUL", True),
        ("TANH", True),
        ("CUMSUM", False),
        ("EXP", True),
        ("ADD", True),
        ("SQRT", True),
    ]
    assert num_parts == 2
    assert {each.num_bytes for each in found} == {2 * 5 * 4 * 4}
    assert {each.place for each in found} == {"elsewhere"}


def test_one_unbroken_part():
    found, num_parts = delegation.operations(
        lite(lambda ids: tf.tanh(tf.exp(tf.cast(ids, tf.float32)))), 1, 3
    )
    assert kinds(found) == [("CAST", False), ("EXP", True), ("TANH", True)]
    assert num_parts == 1


def test_models_that_take_anything_else_are_refused():
    concrete = tf.function(lambda x: x + 1.0).get_concrete_function(tf.TensorSpec([None], tf.float32))
    content = tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert()
    with pytest.raises(
        ValueError, match=r"`model` must take token ids and nothing else\. Received: .* float32"
    ):
        delegation.operations(content, 1, 1)


def test_layers_are_found_by_name():
    assert place("StatefulPartitionedCall/seq2_seq_backbone_1/encoder_1/layer_12_1/norm/mul") == "encoder 12"
    assert place("decoder/layer_0/x") == "decoder 0"
    assert place("backbone/encoder_1/StatefulPartitionedCall/layer_2_1/x") == "encoder 2"
    assert place("encoder/final_norm/mul") == "elsewhere"


def test_of_a_saved_model_what_runs_is_counted(exported_classifier):
    directory, _, _ = exported_classifier
    found = execution.operations(directory, "ids", 2, 7)
    assert {each.place for each in found} == {"encoder 0", "encoder 1", "elsewhere"}
    names = [each.kind for each in found]
    # Four products in a block and a feed-forward network, the taps, the same of attention, the head. The
    # products of attention scores are of other kinds.
    assert sum("MatMul" in name and "Batch" not in name for name in names) == 5 + 6 + 1
    assert not {"Const", "NoOp"} & set(names)


@pytest.mark.parametrize(
    ("signature", "rule"), [("nothing", "one of"), ("pair", "one that takes only token_ids")]
)
def test_signatures_that_take_no_ids_are_refused(signature, rule, exported_classifier):
    with pytest.raises(ValueError, match=f"`signature` must be {rule}.* Received: '{signature}'"):
        execution.operations(exported_classifier[0], signature, 1, 1)


@pytest.mark.multiprocess
def test_program(fp32_file, mixers, exported_classifier, tmp_path):
    report = tmp_path / "report.json"
    done = run_program("export.operations", f"--model={fp32_file}", "--length=9", f"--output={report}")
    assert done.returncode == 0, done.stderr
    facts = json.loads(report.read_text())
    total = sum(sum(numbers.values()) for numbers in facts["operations"].values())
    assert f"{total} operations, " in done.stdout
    assert len({where for numbers in facts["operations"].values() for where in numbers}) == len(mixers) + 1
    header, *lines = done.stdout.splitlines()
    assert header.split()[:2] == ["operation", "encoder"]
    assert [line.split()[0] for line in lines[:-1]] == list(facts["operations"])

    done = run_program("export.operations", f"--model={exported_classifier[0].parent}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith(" operations")
    done = run_program("export.operations", f"--model={tmp_path / 'none'}")
    assert "`model` must be a file or a directory" in done.stderr
    (tmp_path / "page.md").write_text("# no model")
    done = run_program("export.operations", f"--model={tmp_path / 'page.md'}")
    assert done.returncode == 1
    line = "error: `model` must be a TFLite file or a SavedModel. Received: a file that is neither"
    assert done.stderr.splitlines()[-1] == line
