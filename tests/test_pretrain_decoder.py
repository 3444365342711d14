"""A decoder that is trained on an encoder which stays as it is."""

import numpy as np
import pytest

from convnlp import pretrain
from convnlp.configs import common
from convnlp.models import Seq2SeqBackbone, Seq2SeqLM, Tokenizer
from convnlp.objectives import build_objectives
from tests import corpus
from tests.run_program import run_program

SMALL = {"num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "kernel_size": 3}


@pytest.mark.slow
@pytest.mark.multiprocess
def test_the_decoder_learns_and_the_encoder_stays(tmp_path):
    text = corpus.write_jsonl(tmp_path / "docs.jsonl.gz", [{"text": text} for text in corpus.documents(300)])
    tokenizer = Tokenizer(corpus.tiny_proto())
    encoder = Seq2SeqBackbone(tokenizer.vocabulary_size(), num_layers=2, num_decoder_layers=0, **SMALL)
    encoder.save_to_preset(str(tmp_path / "encoder"))
    tokenizer.save_to_preset(str(tmp_path / "encoder"))
    done = run_program(
        "convnlp.pretrain",
        "--config=pretrain_decoder",
        f"--config.init_from={tmp_path}/encoder",
        f"--config.data.source=jsonl:{text}",
        "--config.data.input_length=16",
        "--config.optimizer.warmup_steps=1",
        "--config.optimizer.decay_steps=1",
        "--config.train.batch_size=4",
        "--config.train.num_steps=4",
        "--config.train.steps_per_call=2",
        "--config.train.eval_every=4",
        "--config.train.eval_batches=1",
        "--config.train.checkpoint_every=2",
        f"--workdir={tmp_path}/run",
    )
    assert done.returncode == 0, done.stderr
    trained = Seq2SeqLM.from_preset(f"{tmp_path}/run/preset").backbone
    assert [mixer["kernel_size"] for mixer in trained.decoder.mixers] == [15, 31]
    assert all(weight.trainable for weight in trained.weights)
    for name in ("token_embedding", "encoder"):
        pairs = zip(getattr(trained, name).weights, getattr(encoder, name).weights, strict=True)
        for after, before in pairs:
            np.testing.assert_array_equal(after, before)
    norms = [weight for weight in trained.decoder.weights if weight.path.endswith("norm/gamma")]
    assert norms
    assert all(np.any(np.asarray(weight) != 1) for weight in norms)  # all begin at 1


@pytest.mark.parametrize(
    ("init_from", "layers", "names", "message"),
    [
        ("", (1, 1), ("span_corruption",), "`init_from` must name a preset"),
        ("it", (0, 1), ("prefix_lm",), r"`num_layers` must be at least 1 .* num_layers=0"),
        ("it", (1, 0), ("masked_lm",), r"`model.num_decoder_layers` must be at least 1 .*=0"),
        ("it", (1, 1), ("span_corruption", "masked_lm"), "`objective.names` must all train a decoder"),
    ],
)
def test_what_cannot_be_frozen(init_from, layers, names, message):
    config = common.get_config()
    config.init_from, config.objective.names = init_from, names
    backbone = Seq2SeqBackbone(20, num_layers=layers[0], num_decoder_layers=layers[1], **SMALL)
    with pytest.raises(ValueError, match=message):
        pretrain.freeze_encoder(config, backbone, build_objectives(names, 16, {}))
    assert all(weight.trainable for weight in backbone.weights)
