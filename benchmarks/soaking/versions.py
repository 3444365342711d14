"""Versions of a model with known answers, intact ones and broken ones.

Version N answers y = x / 2 + N, which is exact in float32 for the numbers that are sent. It also holds some
megabytes of weights that nothing reads, so that a version that is not freed shows in the memory of the
server.
"""

import os
import pathlib
import shutil
import time

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from convnlp import saved_model_sums

WEIGHTS_MEGABYTES = 4
_WARMUP = pathlib.Path("assets.extra", "tf_serving_warmup_requests")


def answer(version, x):
    """Returns what a version answers to a number."""
    return 0.5 * x + version


def save(path, version, input_name="x"):
    """Writes a version with its warm-up request and its checksums.

    Args:
        path: pathlib.Path, its directory.
        version: int.
        input_name: str. The warm-up request only fits "x".
    """
    module = tf.Module()
    module.scale, module.offset = tf.Variable(0.5), tf.Variable(float(version))
    module.weights = tf.Variable(tf.random.normal([WEIGHTS_MEGABYTES << 18]))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, input_name)], autograph=False)
    def affine(x):
        return {"y": module.scale * x + module.offset}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")], autograph=False)
    def slow(x):
        end = tf.while_loop(lambda i, _: i < 10**9, lambda i, y: (i + 1, y + 1.0), (0, x))
        return {"y": end[1]}

    tf.saved_model.save(module, str(path), {"serving_default": affine, "slow": slow})
    _write_warmup(path / _WARMUP)
    saved_model_sums.write(path)


def _write_warmup(path):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "affine"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto([1.0]))
    log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(log.SerializeToString())


def _weights(path):
    (file,) = (path / "variables").glob("variables.data*")
    return file


def damage_weights(path, draw):
    """Flips a bit of the weights and removes our checksums, so that only TensorFlow's can show it."""
    (path / "SHA256SUMS").unlink()
    file = _weights(path)
    content = bytearray(file.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def cut_weights(path, draw):
    """Truncates the weights."""
    file = _weights(path)
    os.truncate(file, draw.randrange(file.stat().st_size))


def remove_file(path, draw):
    """Removes a file without which the version cannot be loaded."""
    (path / draw.choice(["saved_model.pb", "variables/variables.index"])).unlink()


def spoil_sums(path, draw):
    """Changes a checksum: the file is intact, but no longer matches it."""
    file = path / "SHA256SUMS"
    lines = file.read_text().splitlines(True)
    place = draw.randrange(len(lines))
    lines[place] = ("1" if lines[place][0] == "0" else "0") + lines[place][1:]
    file.write_text("".join(lines))


def change_signature(path, draw):
    """Gives the version's input another name: it is intact, but does not fit its clients' requests."""
    shutil.rmtree(path)
    save(path, int(path.name), input_name="z")


# How a version is broken -> what the server must say about it.
BROKEN = {
    "damaged_weights": (damage_weights, r"variables\.data-\S+: it is missing, truncated or damaged"),
    "cut_weights": (cut_weights, r"variables\.data-\S+"),
    "missing_file": (remove_file, r"saved_model\.pb|variables\.index"),
    "wrong_sums": (spoil_sums, r"SHA256SUMS"),
    "wrong_signature": (change_signature, r"warm-up request 1 of"),
}


def push(source, target):
    """Moves a version to where the server looks for it, all at once."""
    os.rename(source, target)


def push_slowly(source, target, seconds):
    """Copies a version to where the server looks for it, file by file, with the checksums last."""
    files = sorted(path for path in source.rglob("*") if path.is_file())
    files.sort(key=lambda path: path.name == "SHA256SUMS")
    for file in files:
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
        time.sleep(seconds / len(files))
    shutil.rmtree(source)
