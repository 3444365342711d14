"""A batch without rows: a last shard of a data set, or a request whose texts were all refused."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import tasks
from convnlp.models import Seq2SeqBackbone, Seq2SeqLM, Seq2SeqLMPreprocessor, TextClassifier, Tokenizer
from convnlp.tasks.classification.task import classification_loss
from convnlp.tasks.text_to_text.task import text_to_text_loss
from convnlp.training import graphs, optimizers, strategy
from tests import corpus
from tests.training.toy import OPTIMIZER


@pytest.fixture(scope="module")
def backbone():
    """With the kernels that refuse an empty filter by themselves; the mixers' suite has all mixers."""
    return Seq2SeqBackbone(
        50, 2, 2, 16, 32, num_decoder_layers=1, encoder_mixer=["mb_conv", "lightweight_conv"], kernel_size=3
    )


def none_of(**shapes):
    """A call of one step of a batch [1,0,...]."""
    return {name: tf.zeros([1, 0, *shape[0]], shape[1]) for name, shape in shapes.items()}


def step(model, loss_fn, batch):
    """The metrics of a training step."""
    optimizer = optimizers.build(OPTIMIZER, 10)
    optimizers.build_slots(optimizer, model.trainable_variables)
    steps = graphs.training_steps(strategy.build("one_device"), model, optimizer, loss_fn, 1.0, seed=0)
    (metrics,) = steps(batch, 0)
    for variable in model.trainable_variables:
        assert np.isfinite(variable.numpy()).all(), variable.path
    return metrics


def test_a_training_step_of_a_classifier(backbone):
    classifier = TextClassifier(backbone, 3)
    inputs = none_of(token_ids=([8], tf.int32), padding_mask=([8], tf.bool))
    metrics = step(
        classifier,
        classification_loss(classifier),
        {**inputs, **none_of(label=([], tf.int32), weight=([], tf.float32))},
    )
    assert metrics["loss"] == [0.0, 0.0]
    assert metrics["gradient_norm"][0] == 0.0
    logits = classifier({name: value[0] for name, value in inputs.items()})
    assert logits.shape == (0, 3)


def test_a_training_step_of_text_to_text(backbone):
    batch = none_of(
        encoder_token_ids=([8], tf.int32),
        encoder_padding_mask=([8], tf.bool),
        decoder_token_ids=([5], tf.int32),
        decoder_padding_mask=([5], tf.bool),
        target_token_ids=([5], tf.int32),
        target_padding_mask=([5], tf.bool),
    )
    metrics = step(backbone, text_to_text_loss(backbone), batch)
    assert metrics["loss"] == [0.0, 0.0]
    assert metrics["gradient_norm"][0] == 0.0


def test_a_request_without_texts():
    """With attention, whose scores have a table of distances, and positions that follow the source."""
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(), 1, 2, 16, 32, mixer="self_attention", position_embedding="learned"
    )
    lm = Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 12, 6))
    signatures, rows = tasks.task_of(lm).answers(lm).signatures()
    no_text = tf.constant([], tf.string)
    assert rows.embed(rows.of_texts(no_text)).shape == (0, 16)
    for name in ("serving_default", "pair"):
        asked = {spec.name: no_text for spec in signatures[name].input_signature}
        assert signatures[name](**asked)["generated_text"].shape == (0,)
