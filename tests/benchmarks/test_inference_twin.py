"""The twin in PyTorch of a classifier of ours: the same weights, the same logits."""

import numpy as np
import pytest

from benchmarks.inferring import model
from benchmarks.peers import pytorch_weights
from convnlp.models import Seq2SeqBackbone, TextClassifier
from tests import corpus

IDS = np.random.default_rng(0).integers(3, 100, [3, 19]).astype("int32")
IDS[1, 11:] = 0
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module", params=model.MIXINGS)
def pair(request, tmp_path_factory):
    """A classifier of the program, and its facts."""
    monkeypatch = pytest.MonkeyPatch()
    sizes = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 24}
    monkeypatch.setitem(model.SIZES, "mini", sizes)
    ours = model.classifier(request.param, "mini", 32, corpus.tiny_proto())
    monkeypatch.setattr(model, "classifier", lambda *_: ours)
    facts = model.written(tmp_path_factory.mktemp("model") / "folder", request.param, "mini", 32)
    monkeypatch.undo()
    return ours, facts


def logits(ours, ids):
    return np.array(ours({"token_ids": ids, "padding_mask": ids != 0}))


def tensors(torch, ours):
    return {name: torch.tensor(value) for name, value in pytorch_weights.state(ours).items()}


@pytest.mark.parametrize("channels_last", [True, False])
def test_the_twin_computes_the_same_with_and_without_pads(pair, channels_last):
    torch = pytest.importorskip("torch", reason="the PyTorch peers need requirements-bench.txt")
    from benchmarks.peers import pytorch_deployed

    ours, facts = pair
    twin = pytorch_deployed.classifier(facts, tensors(torch, ours), channels_last)
    with torch.inference_mode():
        ids, mask = torch.tensor(IDS.astype("int64")), torch.tensor(IDS != 0)
        np.testing.assert_allclose(twin(ids, mask), logits(ours, IDS), **TOLERANCE)
        np.testing.assert_allclose(twin(ids[:1], None), logits(ours, IDS[:1]), **TOLERANCE)
        np.testing.assert_allclose(pytorch_deployed.OfIds(twin)(ids), logits(ours, IDS), **TOLERANCE)


def test_every_weight_is_at_work(pair):
    """A twin that ignored a norm's gain, or an offset, would be found out."""
    ours, _ = pair
    state = pytorch_weights.state(ours)
    gains = [value for name, value in state.items() if "norm.weight" in name]
    offsets = [value for name, value in state.items() if "norm.bias" in name or name == "head.bias"]
    assert len(gains) == 5
    assert all(np.ptp(gain) > 0 and abs(gain.mean() - 1) < 0.2 for gain in gains)
    assert all(np.ptp(offset) > 0 for offset in offsets)
    assert len({round(float(logit), 4) for logit in logits(ours, IDS).ravel()}) == 12


def test_the_twin_has_our_parameters(pair):
    ours, facts = pair
    counted = sum(value.size for value in pytorch_weights.state(ours).values())
    tables = [weight.shape for weight in ours.weights if "bias/table" in weight.path]
    assert counted == facts["parameters"] - sum(map(np.prod, tables))


def test_the_weights_do_not_depend_on_what_was_built_before(pair):
    ours, facts = pair
    mixer = next(name for name, mixing in model.MIXINGS.items() if mixing == facts["mixing"])
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setitem(model.SIZES, "mini", {**facts["sizes"], "num_decoder_layers": 0})
        model.SIZES["mini"].pop("vocabulary_size")
        again = model.classifier(mixer, "mini", 32, corpus.tiny_proto())
    # Their spread is that of Keras' own, which differs from draw to draw.
    first, second = pytorch_weights.state(ours), pytorch_weights.state(again)
    for name in first:
        assert abs(np.corrcoef(first[name].ravel(), second[name].ravel())[0, 1]) > 0.999, name


def test_what_has_no_twin_is_refused():
    backbone = Seq2SeqBackbone(
        50,
        num_layers=1,
        num_decoder_layers=0,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=8,
        mixer="self_attention",
    )
    with pytest.raises(ValueError, match="`classifier` must have a relative position bias of zeros"):
        pytorch_weights.state(TextClassifier(backbone, 2))
    with pytest.raises(ValueError, match="`classifier` must have the pooling 'mean_max'"):
        pytorch_weights.state(TextClassifier(backbone, 2, pooling="max"))


def test_the_exported_twin_takes_any_batch_and_length(pair, tmp_path):
    torch = pytest.importorskip("torch", reason="the PyTorch peers need requirements-bench.txt")
    onnxruntime = pytest.importorskip("onnxruntime", reason="in requirements-bench.txt")
    pytest.importorskip("onnxscript", reason="in requirements-bench.txt")
    from benchmarks.peers import pytorch_deployed

    ours, facts = pair
    pytorch_deployed.export_onnx(
        pytorch_deployed.classifier(facts, tensors(torch, ours)), tmp_path / "twin.onnx"
    )
    session = onnxruntime.InferenceSession(str(tmp_path / "twin.onnx"))
    for ids in (IDS, IDS[:1, :7], np.concatenate([IDS] * 4)[:, ::-1][:, 8:]):
        (found,) = session.run(None, {"token_ids": ids.astype("int64")})
        np.testing.assert_allclose(found, logits(ours, ids), **TOLERANCE)
