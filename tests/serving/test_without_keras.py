"""The server imports TensorFlow without Keras, and runs what a model needs all the same."""

import subprocess
import sys

import pytest

from tests.serving import server_process
from tests.serving.small_models import free_port

pytestmark = pytest.mark.multiprocess

CODE = """
import sys
from convnlp.serving.core.without_keras import import_tensorflow
import_tensorflow()
from convnlp.serving.core.metrics import Metrics
from convnlp.serving.core.loader import Loader
import convnlp.serving.grpc.service, convnlp.serving.rest.interface, convnlp.serving.core.lite
assert not {"keras", "sklearn", "matplotlib"} & sys.modules.keys()
import tensorflow as tf
import tensorflow_text
tokens = tensorflow_text.WhitespaceTokenizer().tokenize(["a quiet film"]).to_list()
assert tokens == [[b"a", b"quiet", b"film"]], tokens
assert tf.keras.layers.Dense(2)(tf.ones([1, 3])).shape == (1, 2)
assert "keras" in sys.modules
import_tensorflow()
"""


@pytest.mark.slow
def test_it_can_be_imported_later():
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=server_process.ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("flag", ["--num_workers=1", "--num_workers=2"])
def test_the_server_does_not_import_it(flag, tmp_path):
    """It has loaded all that it needs by the time that it finds no version."""
    flags = [f"--rest_api_port={free_port()}", "--port=0", f"--model_base_path={tmp_path}", flag]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "serving.server", *flags],
        cwd=server_process.ROOT,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert "there is no version directory" in done.stderr
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines() if "|" in line}
    assert {"tensorflow", "tensorflow_text", "uvicorn"} <= imported
    assert not {"keras", "sklearn", "matplotlib", "convnlp.models"} & imported
