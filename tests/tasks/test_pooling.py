"""Which pooling "auto" stands for: a head that compares two texts, unless the encoder relates them itself."""

import pytest

from convnlp.data import Label
from convnlp.models import Seq2SeqBackbone
from convnlp.tasks import Classification
from convnlp.tasks.pooled_head import chosen_pooling

SIZE = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "num_decoder_layers": 0}


def encoder(mixer, **options):
    return Seq2SeqBackbone(50, mixer=mixer, **SIZE, **options).encoder


@pytest.mark.parametrize(
    ("mixer", "options", "expected"),
    [
        ("dynamic_conv", {}, "pair"),
        ("dilated_conv", {"dilation_rate": [1, 8]}, "pair"),
        ("local_attention", {}, "pair"),
        ("self_attention", {}, "mean_max"),
        ("linear_attention", {}, "mean_max"),
        ("cross_segment_attention", {}, "mean_max"),
        ("fourier", {}, "mean_max"),
        ("linformer", {"max_sequence_length": 16}, "mean_max"),  # cannot keep two texts of a row apart
        ("dynamic_conv", {"pool_size": [1, 2]}, "mean_max"),  # nor can this
    ],
)
def test_pairs(mixer, options, expected):
    assert chosen_pooling("auto", encoder(mixer, **options), num_texts=2) == expected


@pytest.mark.parametrize(("mixer", "expected"), [("dynamic_conv", "pair"), ("self_attention", "mean_max")])
def test_a_model_without_an_encoder_is_judged_by_the_stack_that_reads(mixer, expected, tokenizer):
    size = {**SIZE, "num_layers": 0, "num_decoder_layers": 2}
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), mixer=mixer, **size)
    label, fields = Label(names=("no", "yes")), ("first", "second")
    task = Classification(tokenizer=tokenizer, label=label, sequence_length=16, text_fields=fields)
    assert task.model(backbone).pooling == expected


def test_a_single_text_has_nothing_to_be_compared_with():
    assert chosen_pooling("auto", encoder("dynamic_conv"), num_texts=1) == "mean_max"


@pytest.mark.parametrize("pooling", ["mean", "pair", "attention"])
def test_what_is_asked_for_is_taken(pooling):
    assert chosen_pooling(pooling, encoder("dynamic_conv"), num_texts=2) == pooling


def test_a_task_that_compares_needs_two_texts():
    label = Label(names=("no", "yes"))
    with pytest.raises(
        ValueError, match=r"`task.second_text_field` must be given if `task.pooling` is 'pair'"
    ):
        Classification(tokenizer=None, label=label, sequence_length=16, pooling="pair")
