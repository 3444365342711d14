"""What pretrain and finetune share: see also test_configs.py, and the tests of the two programs."""

import numpy as np

from configs import finetune_classification, pretrain_mini
from convnlp import experiment
from convnlp.models import TextClassifier, Tokenizer
from tests import corpus


def test_an_encoder_alone_is_saved_with_its_tokenizer_for_fine_tuning(tmp_path):
    config = pretrain_mini.get_config("fourier")
    config.model.update({"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32, "kernel_size": (3,)})
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = experiment.backbone(config, tokenizer.vocabulary_size(), "float32")
    (tmp_path / "config.json").write_text(config.to_json_best_effort(), encoding="utf-8")
    experiment.save_preset(backbone, tmp_path, {}, tokenizer)

    config = finetune_classification.get_config()
    config.init_from = str(tmp_path / "preset")
    text, ids = "the old river", np.array([[5, 6, 7]])
    np.testing.assert_array_equal(experiment.tokenizer(config).tokenize(text), tokenizer.tokenize(text))
    again = experiment.backbone(config, tokenizer.vocabulary_size(), "float32")
    np.testing.assert_array_equal(again.encode(ids), backbone.encode(ids))
    classifier = TextClassifier.from_preset(config.init_from, num_classes=2)
    assert classifier.predict([text], verbose=0).shape == (1, 2)
