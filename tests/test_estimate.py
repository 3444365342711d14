"""`convnlp.runs.estimate`: what a run is said to take before its first step."""

import types

import pytest
import tensorflow as tf

from convnlp import product_speed
from convnlp.configs import common
from convnlp.models import Seq2SeqBackbone
from convnlp.runs import estimate

SPEED = 1e9  # multiply-adds per second
PIECES, WIDTH = 50, 16


def config_of(**fields):
    config = common.get_config()
    config.update_from_flattened_dict(
        {"train.num_steps": 100, "train.batch_size": 8, "data.input_length": 40}
    )
    config.update_from_flattened_dict(fields)
    return config


def model(num_layers=2, num_decoder_layers=0):
    return Seq2SeqBackbone(
        PIECES,
        num_layers,
        2,
        WIDTH,
        32,
        num_decoder_layers,
        mixer="lightweight_conv",
        kernel_size=3,
    )


@pytest.fixture(autouse=True)
def _a_machine_of_known_speed(monkeypatch):
    monkeypatch.setattr(product_speed, "products_per_second", lambda dtype: SPEED)


def of(backbone, config=None, *arguments):
    return estimate.report(config or config_of(), tf.distribute.get_strategy(), backbone, *arguments)


def test_the_formula():
    """Four seconds, and for a step three times its products, a fifth more, and what no text decides."""
    backbone = model()
    weights = sum(variable.numpy().size for variable in backbone.variables)
    products = 8 * backbone.cost(40)["multiply_adds"]
    expected = 4 + 100 * (3.6 * products / SPEED + 0.045 + 1e-9 * weights)
    assert of(backbone).seconds == pytest.approx(expected, rel=1e-6)


def test_what_makes_a_run_longer():
    base = of(model()).seconds
    longer = of(model(), config_of(**{"train.num_steps": 300})).seconds
    assert longer - base == pytest.approx(2 * (base - 4))  # 4 seconds to begin with
    assert of(model(), config_of(**{"train.batch_size": 16})).seconds > base
    assert of(model(num_layers=3)).seconds > base
    assert of(model(num_decoder_layers=1), None, None, 0.0, [20]).seconds > base
    assert of(model(), None, None, 0.25).seconds > base  # scores of pieces at a quarter of the tokens
    by_length = of(model(), None, 900.0).seconds  # longer ones are cut
    assert by_length == pytest.approx(base + 7 * 4)  # batches of eight lengths
    assert of(model(), None, 20.0).seconds < by_length


def test_every_objective_is_a_pass_of_its_own():
    """Over the same input; each has its own target."""
    backbone = model(num_decoder_layers=1)
    alone, short, long = (of(backbone, None, None, 0.0, [target]) for target in (0, 5, 20))
    assert alone.seconds < short.seconds < long.seconds
    together = of(backbone, None, None, 0.0, [0, 20])
    products = 8 * backbone.encoder.cost(40)["multiply_adds"]
    assert together.seconds - long.seconds == pytest.approx(100 * 3.6 * products / SPEED)


def test_a_frozen_encoder_has_no_backward_pass():
    backbone = model(num_decoder_layers=1)
    trained = of(backbone, config_of(**{"train.batch_size": 8192}), None, 0.0, [20])
    for layer in (backbone.token_embedding, backbone.encoder):
        layer.trainable = False
    frozen = of(backbone, config_of(**{"train.batch_size": 8192}), None, 0.0, [20])
    backward = 2 * 8192 * backbone.encoder.cost(40)["multiply_adds"]
    assert trained.seconds - frozen.seconds == pytest.approx(100 * 1.2 * backward / SPEED, rel=1e-3)
    assert trained.memory_bytes is None or trained.memory_bytes - frozen.memory_bytes > 8192 * 40 * WIDTH * 60


def test_stages_are_added_up():
    stages = {
        "train.stage_steps": (40, 60),
        "train.stage_batch_sizes": (8, 4),
        "train.stage_input_lengths": (16, 40),
    }
    first = of(model(), config_of(**{"train.num_steps": 40, "data.input_length": 16})).seconds
    second = of(model(), config_of(**{"train.num_steps": 60, "train.batch_size": 4})).seconds
    assert of(model(), config_of(**stages)).seconds == pytest.approx(first + second - 4)


def test_a_decoder_only_model_counts_its_rows():
    backbone = model(num_layers=0, num_decoder_layers=2)
    base = of(backbone).seconds
    assert of(backbone, config_of(**{"data.input_length": 80})).seconds > base
    scored = of(backbone, None, None, 1.0).seconds  # it computes the logits of all its tokens in any case
    assert scored == pytest.approx(base, rel=1e-3)


def test_memory():
    """That of this process is where it begins; larger batches take more, in parts less."""
    here = estimate._resident_bytes()
    assert here is None or here > 1e7
    base = of(model()).memory_bytes
    assert base > here
    large = of(model(), config_of(**{"train.batch_size": 8192})).memory_bytes
    parts = of(model(), config_of(**{"train.batch_size": 8192, "train.accumulate_steps": 8})).memory_bytes
    assert large > parts > base - 1e8
    assert large - base > 8184 * 40 * 2 * WIDTH * 30  # bytes


def test_it_is_said(caplog):
    found = of(model())
    assert f"100 steps of training on this machine: {found}" in caplog.text
    assert str(estimate.Estimate(125.0, 1.26e9)) == "about 2 min 5 s, and 1.3 GB of memory"
    assert str(estimate.Estimate(125.0, None)) == "about 2 min 5 s"


def test_nothing_is_said_of_several_devices():
    strategy = types.SimpleNamespace(num_replicas_in_sync=2)
    assert estimate.report(config_of(), strategy, model()) is None
