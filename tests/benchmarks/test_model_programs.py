"""The whole-model programs run, and count what they say, at a size at which their times mean nothing."""

from unittest import mock

import pytest
from absl.testing import flagsaver

from benchmarks import decode, encoder, machine, memory, small_models, train_step
from convnlp.models import Seq2SeqLM

SIZES = {
    "vocabulary_size": 60,
    "num_layers": 1,
    "num_decoder_layers": 1,
    "num_heads": 2,
    "hidden_dim": 16,
    "intermediate_dim": 24,
}
PYTORCH = machine.optional_torch() is not None


def ratios(rows):
    """Dict, row name -> rows; each must hold the times of both sides."""
    found = {}
    for row in rows:
        if " vs " in row.name and "time per token" not in row.name:  # which is a difference of times
            assert min(row.ours, row.peer, row.detail["peer_ms"]["median"]) > 0
        assert row.as_dict()["setting"]["seed"] == 0
        found.setdefault(row.name, []).append(row)
    return found


@pytest.mark.slow
def test_train_step():
    settings = train_step.Settings(
        batch_size=2,
        input_length=16,
        target_length=5,
        repeats=1,
        memory_lengths=(),
        only_goals=True,
        sizes=SIZES,
    )
    found = ratios(train_step.rows(settings))
    expected = {"training step", "training step, share of the matmul ceiling"}
    expected |= {f"training step vs {peer}" for peer in ("own attention", "own float32 graph")}
    if PYTORCH:
        expected |= {f"training step vs PyTorch {model}" for model in ("convolution model", "Transformer")}
    assert found.keys() == expected
    row = found["training step"][0]
    assert row.ours == pytest.approx(2 * (16 + 5) / (row.detail["ours_ms"]["median"] / 1000), rel=1e-3)


def test_the_step_of_keras_nlp_trains():
    batch = train_step.random_batch(2, 16, 5, SIZES["vocabulary_size"])
    step = train_step.keras_nlp_step(SIZES, batch)
    losses = [step()[0]["loss"] for _ in range(5)]
    (first, weight), (last, _) = losses[0], losses[-1]
    assert weight == 2 * 5  # the targets
    assert last < first


def test_training_operations_are_three_times_those_of_the_products():
    settings = train_step.Settings(batch_size=2, input_length=16, target_length=5, sizes=SIZES)
    width, inner, kernel = 16, 24, small_models.KERNEL_SIZE
    block = 3 * width**2 + kernel * width + 2 * width * inner
    cross = 2 * width**2 * (16 + 5) + 2 * width * 16 * 5
    forward = 16 * block + 5 * block + cross + 5 * width * 60
    assert train_step.training_operations("lightweight_conv", settings) == 3 * 2 * 2 * forward


def test_memory_is_compared_with_attention_and_between_lengths(monkeypatch):
    megabytes = {("lightweight_conv", 8): 3, ("lightweight_conv", 16): 5}
    megabytes |= {("self_attention", 8): 4, ("self_attention", 16): 16}

    def peak_memory(function, mixer, length, sizes):
        assert (function, sizes) == (train_step.train_two_steps, SIZES)
        return memory.Peak(start=2**20, peak=(1 + megabytes[mixer, length]) * 2**20), None

    spy = mock.create_autospec(memory.peak_memory, side_effect=peak_memory)  # refuses what it would
    monkeypatch.setattr(memory, "peak_memory", spy)
    settings = train_step.Settings(memory_lengths=(8, 16), sizes=SIZES)
    found = train_step._memory(settings, ["lightweight_conv", "self_attention"])
    assert [(row.name.removeprefix("training memory"), row.setting["mixer"], row.ratio) for row in found] == [
        (" of lightweight_conv vs own attention", "lightweight_conv", 4 / 3),
        (" of lightweight_conv vs own attention", "lightweight_conv", 16 / 5),
        (", length 16 vs 8", "lightweight_conv", 5 / 3),
        (", length 16 vs 8", "self_attention", 4),
    ]


@flagsaver.flagsaver(mixers=["no_such_mixer"])
def test_mixers_that_cannot_be_causal_are_refused():
    with pytest.raises(ValueError, match="must name mixers"):
        list(train_step.rows(train_step.Settings(sizes=SIZES)))


def test_encoder():
    settings = encoder.Settings(
        lengths=(8,),
        padded_lengths=(8,),
        latency_lengths=(4,),
        dtypes=("bfloat16",),
        tokens_per_call=16,
        repeats=1,
        sizes=SIZES,
    )
    rows = [(row.name, row.setting["padding"]) for row in encoder.rows(settings)]
    peers = ["own attention", "keras_nlp TransformerEncoder"]
    unmasked, masked = [], []
    if PYTORCH:
        peers.append("PyTorch convolution encoder")
        unmasked, masked = ([f"PyTorch TransformerEncoder, {kind}"] for kind in ("unmasked", "masked"))
    assert rows == [
        *((f"encoder forward vs {peer}", "none") for peer in peers + unmasked),
        *((f"encoder forward vs {peer}", "half") for peer in peers + masked),
        *((f"encoder latency vs {peer}", "none") for peer in peers + unmasked),
    ]


def test_the_pytorch_classifiers_are_of_the_dtype_they_are_named_by():
    torch = pytest.importorskip("torch", reason="the PyTorch peers need requirements-bench.txt")
    ids = small_models.token_ids(2, 8, SIZES["vocabulary_size"])
    forms = encoder.pytorch_forms("bfloat16", SIZES, max_length=8)
    for name, calls in forms.items():
        for form, call in calls.items():
            assert call(ids, ids > 30).dtype == torch.bfloat16, (name, form)
    for calls in encoder.pytorch_forms("float32", SIZES, max_length=8).values():
        assert calls["float32"](ids, None).dtype == torch.float32


@pytest.mark.slow
def test_decode():
    settings = decode.Settings(
        cases=(("greedy", 2), ("beam", 1)),
        lengths=(3, 5),
        peer_lengths=(5,),
        attention_positions=6,
        input_length=4,
        num_beams=2,
        repeats=1,
        sizes=SIZES,
    )
    found = ratios(decode.rows(settings))
    assert {name: [row.setting["sampler"] for row in rows] for name, rows in found.items()} == {
        "decode vs own attention": ["greedy", "beam"],  # up to 6 positions
        "decode vs keras_nlp": ["greedy", "beam"],
        "decode, time per token at 5 vs 3": ["greedy", "beam"],
    }


def test_every_output_of_decode_has_its_full_length():
    inputs = decode._inputs(decode.Settings(sizes=SIZES, input_length=4), batch_size=2, length=6)
    lm = Seq2SeqLM(small_models.backbone("lightweight_conv", "float32", SIZES))
    output = decode._call(lm, inputs)()
    assert output["decoder_token_ids"].shape == (2, 7)
    assert output["decoder_padding_mask"].all()
