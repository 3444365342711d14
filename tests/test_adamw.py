"""AdamW in one operation per variable against Keras's; tests/training has the equation and replicas."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.adamw import AdamW

SHAPES = ((6, 3), (3,), (6, 3))


def trained(cls, dtype="float32", steps=5, rows=(1, 4, 2), dense=False, jit_compile=False, **options):
    """Returns the values of weights and slots after some steps, and the optimizer.

    The last gradient is that of three rows of an embedding, as a dense tensor or not.
    """
    rng = np.random.default_rng(0)
    variables = [keras.Variable(rng.normal(size=shape), dtype=dtype) for shape in SHAPES]
    optimizer = cls(0.1, weight_decay=0.1, beta_2=0.95, **options)
    optimizer.exclude_from_weight_decay(var_list=variables[1:2])
    optimizer.build(variables)

    @tf.function(jit_compile=jit_compile)
    def step(*gradients):
        *others, values = [tf.cast(gradient, dtype) for gradient in gradients]
        last = tf.IndexedSlices(values, tf.constant(rows), tf.constant(SHAPES[2]))
        optimizer.apply([*others, tf.convert_to_tensor(last) if dense else last], variables)

    for _ in range(steps):
        step(*(tf.constant(rng.normal(size=shape), tf.float32) for shape in (*SHAPES[:2], (3, 3))))
    return [
        keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))
        for variable in (*variables, *optimizer.variables)
    ], optimizer


def require_equal(ours, theirs, rtol=1e-5, atol=1e-6):  # float32
    assert len(ours) == len(theirs)
    for actual, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    "options",
    [{}, {"amsgrad": True}, {"global_clipnorm": 0.5}, {"gradient_accumulation_steps": 2}, {"use_ema": True}],
    ids=str,
)
def test_it_is_keras_adamw(options):
    ours, _ = trained(AdamW, **options)
    theirs, _ = trained(keras.optimizers.AdamW, **options)
    require_equal(ours, theirs)


def test_rows_that_repeat_are_summed_first():
    """Keras squares each part of a sparse gradient by itself, so that its second moments are others."""
    ours, _ = trained(AdamW, rows=(1, 4, 1))
    theirs, _ = trained(keras.optimizers.AdamW, rows=(1, 4, 1), dense=True)
    require_equal(ours, theirs)


def test_bfloat16_variables():
    ours, _ = trained(AdamW, dtype="bfloat16", steps=1)
    theirs, _ = trained(keras.optimizers.AdamW, dtype="bfloat16", steps=1)
    require_equal(ours, theirs, rtol=0.05, atol=0.02)  # 8 bits


def test_compiled_by_xla():
    """As on TPUs."""
    ours, _ = trained(AdamW, jit_compile=True)
    theirs, _ = trained(keras.optimizers.AdamW)
    require_equal(ours, theirs)


def test_one_operation_updates_a_variable():
    variables = [keras.Variable(np.ones(shape), dtype="float32") for shape in SHAPES]
    optimizer = AdamW(0.1)
    optimizer.build(variables)
    step = tf.function(lambda: optimizer.apply([tf.ones(shape) for shape in SHAPES], variables))
    operations = [node.op for node in step.get_concrete_function().graph.as_graph_def().node]
    assert operations.count("ResourceApplyAdam") == len(SHAPES)
    assert "Sqrt" not in operations


def test_it_continues_from_keras_checkpoints(tmp_path):
    """Slots have the same names, so that runs of earlier versions continue."""
    expected, theirs = trained(keras.optimizers.AdamW)
    path = tf.train.Checkpoint(optimizer=theirs).write(str(tmp_path / "theirs"))
    ours = AdamW(0.1, weight_decay=0.1, beta_2=0.95)
    ours.build([keras.Variable(np.zeros(shape), dtype="float32") for shape in SHAPES])
    tf.train.Checkpoint(optimizer=ours).read(path).assert_consumed()
    found = [keras.ops.convert_to_numpy(variable) for variable in ours.variables]
    require_equal(found, expected[len(SHAPES) :], rtol=0, atol=0)


def test_it_is_saved_with_a_model(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(AdamW(0.1, weight_decay=0.2), loss="mse")
    model.fit(np.ones((4, 3)), np.ones((4, 1)), verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is AdamW
    ours, theirs = (
        [keras.ops.convert_to_numpy(variable) for variable in one.optimizer.variables]
        for one in (loaded, model)
    )
    require_equal(ours, theirs, rtol=0, atol=0)
