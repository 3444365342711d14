"""One preset, exported once, asked in every way: Python, Session, C API, REST, gRPC, LiteRT."""

import numpy as np
import pytest

from convnlp.export.edge_model import EdgeModel
from convnlp.export.lite import tflite_files
from convnlp.export.saved_models import versions
from convnlp.export.verification import loaders, parity
from convnlp.export.verification.graph import Graph
from convnlp.serving.client.grpc_client import GrpcClient
from tests import corpus
from tests.serving import server_process
from tests.serving.small_models import free_port
from tests.small_classifier import small_classifier

LABELS = ["bad", "fair", "good"]
TEXTS = [row["text"] for row in corpus.reviews(4)] + ["", "Köln 🙂 " * 30]


@pytest.mark.serving
@pytest.mark.multiprocess
def test_the_same_answer_everywhere(tmp_path):
    classifier = small_classifier(["dynamic_conv", "self_attention"], length=24, labels=LABELS)
    classifier.save_to_preset(str(tmp_path / "preset"))
    version, *_ = versions.export(str(tmp_path / "preset"), str(tmp_path / "sst"), check=False)
    tflite_files.export(str(tmp_path / "preset"), str(tmp_path / "sst.tflite"), "fp32")

    answers = {}
    text = np.array([text.encode() for text in TEXTS], object)
    rows, _ = loaders.ask({version: Graph(version)}, {version: [("serving_default", {"text": text})]})
    for _, _, loader, _, outputs in rows:
        answers[loader] = [label.decode() for label in outputs["label"]], outputs["scores"]
    grpc_port = free_port()
    flags = ["--model_name=sst", f"--model_base_path={version.parent}", f"--port={grpc_port}"]
    with server_process.running(tmp_path / "log", "sst", *flags) as rest:
        for name, client in (("REST", rest), ("gRPC", GrpcClient(f"127.0.0.1:{grpc_port}"))):
            rows = client.predict("sst", TEXTS)
            answers[name] = [row["label"] for row in rows], [row["scores"] for row in rows]
    rows = EdgeModel(str(tmp_path / "sst.tflite")).predict(TEXTS)
    answers["LiteRT"] = [row["label"] for row in rows], [list(row["scores"].values()) for row in rows]

    logits = classifier.predict(TEXTS, verbose=0)
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = [LABELS[i] for i in expected.argmax(axis=1)]
    assert len(np.unique(expected.round(3), axis=0)) == len(TEXTS)  # so that a mistaken row is seen
    assert set(answers) == {*loaders.LOADERS, "REST", "gRPC", "LiteRT"}
    for path, (found, scores) in answers.items():
        assert found == labels, path
        np.testing.assert_allclose(scores, expected, atol=parity.BOUND, err_msg=path)
