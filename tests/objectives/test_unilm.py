"""UniLM: which tokens are hidden, in which way a batch is read, what is seen and what is predicted."""

import itertools
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from convnlp.data import Shard
from convnlp.layers import MIXERS
from convnlp.objectives import Seeds, build_objectives, pretraining_loss
from convnlp.objectives.unilm import MODES, span_positions
from convnlp.testing.objectives import TOKENIZER
from tests.objectives.test_batches import batches, first
from tests.tasks.test_losses import backbone, nats

SEED = tf.constant([1, 2])
LENGTH, PREFIX = 12, np.array([[5], [8]])
END = TOKENIZER.end_token_id


def build(**options):
    return build_objectives(["unilm"], options.pop("input_length", LENGTH), {"unilm": options})[0]


def examples(objective, tokens, own=0, shared=0):
    seeds = Seeds(tf.constant([own, 7], tf.int64), tf.constant([shared, 8], tf.int64))
    made = objective.examples(tf.constant(tokens, tf.int32), seeds, TOKENIZER)
    return {name: value.numpy() for name, value in made.items()}


def spans_in_turn(order, sizes, is_end, count):
    """One row, span by span: each from its first token on, up to the end of its document."""
    chosen = []
    starts = sorted(np.flatnonzero(~is_end), key=lambda i: order[i])
    ends = sorted(np.flatnonzero(is_end), key=lambda i: order[i])
    for start in starts:
        for m in range(start, min(start + sizes[start], len(order))):
            if is_end[m]:
                break
            if m not in chosen:
                chosen.append(m)
    return sorted((chosen + ends)[:count])


def test_spans_are_those_that_a_plain_loop_takes():
    rng = np.random.default_rng(0)
    shape = [200, 17]
    order, sizes = rng.permuted(np.tile(np.arange(17) / 17, [200, 1]), axis=1), rng.integers(1, 4, shape)
    is_end = rng.uniform(size=shape) < 0.2
    for count in (1, 4, 16, 17):
        found = span_positions(
            tf.constant(order, tf.float32), tf.constant(sizes, tf.int32), tf.constant(is_end), count
        )
        rows = zip(order, sizes, is_end, strict=True)
        np.testing.assert_array_equal(found, [spans_in_turn(*row, count) for row in rows])


@pytest.mark.parametrize(("share", "longest"), [(0.0, 1), (1.0, 3)])
def test_the_share_of_longer_spans(share, longest):
    """Of so few tokens in so long a row spans hardly ever touch: runs are spans, but for the cut last one."""
    objective = build(input_length=400, noise_density=0.02, ngram_share=share)  # 8 tokens
    runs = []
    for row in examples(objective, np.full([300, 400], 50))["unilm_positions"]:
        runs += [len(run) for run in np.split(row, np.flatnonzero(np.diff(row) > 1) + 1)]
    share_of = np.bincount(runs, minlength=7) / len(runs)
    assert share_of[longest + 1 :].sum() < 0.1
    assert share_of[longest] > (0.9 if longest == 1 else 0.35)


def test_one_span_of_five_is_longer_by_default():
    objective = build(input_length=1000, noise_density=0.003)  # 3 tokens: the first span is not cut
    tokens = np.full([4000, 1000], 50)
    rows = examples(objective, tokens)["unilm_positions"]
    runs = 1 + (np.diff(rows) > 1).sum(axis=1)  # 3 runs: ones alone; 2: a pair in front or a cut behind
    # Three tokens are one alone, one alone and one (0.8 * 0.8), or hold a span of more than one.
    assert abs((runs == 3).mean() - 0.64) < 0.05  # standard deviation 0.008; neighbours by chance 0.006


def test_targets_are_what_stood_there_and_nothing_else_changes():
    tokens = np.random.default_rng(0).integers(3, 50, [40, 64])
    made = examples(build(input_length=64), tokens)
    positions, targets, masked = (made[f"unilm_{name}"] for name in ("positions", "targets", "token_ids"))
    assert positions.shape == targets.shape == (40, round(0.15 * 64))
    assert (np.diff(positions, axis=1) > 0).all()
    np.testing.assert_array_equal(targets, np.take_along_axis(tokens, positions, axis=1))
    hidden = np.take_along_axis(masked, positions, axis=1)
    assert abs((hidden == TOKENIZER.sentinel_token_ids[0]).mean() - 0.8) < 0.1  # standard deviation 0.02
    np.put_along_axis(masked, positions, targets, axis=1)
    np.testing.assert_array_equal(masked, tokens)


def test_ends_of_documents_are_hidden_last_of_all():
    tokens = np.full([50, 20], 30)
    tokens[:, ::2] = END
    for density, ends in ((0.5, 0), (0.6, 2)):
        targets = examples(build(input_length=20, noise_density=density), tokens)["unilm_targets"]
        np.testing.assert_array_equal((targets == END).sum(axis=1), ends)


def test_a_batch_is_read_in_one_way_by_the_papers_shares():
    objective, tokens = build(), tf.fill([2, LENGTH], 30)

    @tf.function
    def made(own, shared):
        return objective.examples(tokens, Seeds(own, shared), TOKENIZER)

    modes, lengths = [], []
    for number in range(2000):
        batch = made(tf.constant([number, 1], tf.int64), tf.constant([number, 2], tf.int64))
        mode, prefix = batch["unilm_mode"].numpy(), batch["unilm_prefix_mask"].numpy()
        assert mode[0] == mode[1]
        modes.append(MODES[mode[0]])
        if modes[-1] == "sequence_to_sequence":
            lengths += (length := prefix.sum(axis=1)).tolist()
            np.testing.assert_array_equal(prefix, np.arange(LENGTH) < length[:, np.newaxis])
        else:
            assert (prefix == (modes[-1] != "left_to_right")).all()
    for mode, share in zip(MODES, (1 / 3, 1 / 3, 1 / 6, 1 / 6), strict=True):
        assert abs(modes.count(mode) / 2000 - share) < 0.05  # standard deviations of about 0.01
    assert set(lengths) == set(range(1, LENGTH))


def test_a_way_of_share_zero_is_never_taken():
    objective = build(bidirectional=0, left_to_right=0)
    found = {int(examples(objective, np.full([1, LENGTH], 30), shared=n)["unilm_mode"][0]) for n in range(40)}
    assert {MODES[number] for number in found} == {"sequence_to_sequence", "right_to_left"}


def visible(mode, prefix_length):
    """Whether position i may see position m, [T,T], pair by pair."""
    seen = np.zeros([LENGTH, LENGTH], bool)
    for i, m in itertools.product(range(LENGTH), repeat=2):
        seen[i, m] = {
            "bidirectional": True,
            "left_to_right": m <= i,
            "right_to_left": m >= i,
            "sequence_to_sequence": m < prefix_length or prefix_length <= m <= i,
        }[mode]
    return seen


def batch_of(mode):
    """Two rows whose sources, from source to target, are of different lengths."""
    rng = np.random.default_rng(3)
    prefix = {
        "sequence_to_sequence": np.arange(LENGTH) < PREFIX,
        "left_to_right": np.zeros([2, LENGTH], bool),
    }.get(mode, np.ones([2, LENGTH], bool))
    return {
        "unilm_token_ids": tf.constant(rng.integers(3, 50, [2, LENGTH]), tf.int32),
        "unilm_positions": tf.constant([[1, 6, 9], [0, 7, 11]]),
        "unilm_targets": tf.constant(rng.integers(3, 50, [2, 3]), tf.int32),
        "unilm_mode": tf.fill([2], MODES.index(mode)),
        "unilm_prefix_mask": tf.constant(prefix),
    }


@pytest.mark.parametrize(
    "mixer",
    ["self_attention", "dynamic_conv"]
    + [pytest.param(name, marks=pytest.mark.slow) for name in ("gated_long_conv", "linear_attention")],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_position_sees_what_the_way_of_reading_allows(mode, mixer):
    """One token of both rows is changed at a time; two layers of so wide a kernel reach everywhere."""
    kernel = {"kernel_size": 2 * LENGTH + 1} if mixer == "dynamic_conv" else {}
    model, objective, batch = backbone(num_decoder_layers=0, mixer=mixer, **kernel), build(), batch_of(mode)
    hidden = tf.function(lambda data: objective.hidden(model, data), autograph=False)
    before, found = hidden(batch).numpy(), np.zeros([2, LENGTH, LENGTH], bool)
    for m in range(LENGTH):
        ids = batch["unilm_token_ids"].numpy()
        ids[:, m] = 3 + (ids[:, m] + 10) % 40
        after = hidden({**batch, "unilm_token_ids": tf.constant(ids)}).numpy()
        found[:, :, m] = np.abs(after - before).max(-1) > 1e-6
    np.testing.assert_array_equal(found, [visible(mode, length) for length in PREFIX[:, 0]])


@pytest.mark.parametrize("mode", MODES)
def test_the_loss_is_that_of_the_hidden_tokens_at_their_places(mode):
    """By attention in one layer, of the texts that are left when what is not seen is taken away."""
    model = backbone(num_layers=1, num_decoder_layers=0, mixer="self_attention", position_embedding="none")
    batch = batch_of(mode)
    result = pretraining_loss(model, [build()])(batch, SEED, training=False)
    ids, targets, total = batch["unilm_token_ids"].numpy(), batch["unilm_targets"].numpy(), 0.0
    for row, places in enumerate(batch["unilm_positions"].numpy()):
        for place, target in zip(places, targets[row], strict=True):
            seen = np.flatnonzero(visible(mode, PREFIX[row, 0])[place])
            assert (np.diff(seen) == 1).all()  # so that distances stay what they are
            hidden = model.encode(ids[row : row + 1, seen])[:, list(seen).index(place)]
            total += nats(model.logits(hidden).numpy()[None], np.array([[target]]), np.ones([1, 1], bool))
    np.testing.assert_allclose(result["unilm"][0], total, rtol=1e-5)
    assert result["unilm"][1] == 6
    for each in MODES:
        assert result[f"unilm_{each}"][1] == (6 if each == mode else 0)
    np.testing.assert_array_equal(result[f"unilm_{mode}"], result["unilm"])


def test_in_training_there_is_one_curve():
    model = backbone(num_decoder_layers=0, mixer="self_attention")
    result = pretraining_loss(model, [build()])(batch_of("right_to_left"), SEED, training=True)
    assert set(result) == {"loss_sum", "weight", "unilm"}


def test_all_workers_read_in_the_same_way(documents, tokenizer):
    one, other = (
        first(batches(documents, tokenizer, objectives=("unilm",), shard=Shard(2, index)), 12)
        for index in range(2)
    )
    modes = [batch["unilm_mode"].tolist() for batch in one]
    assert modes == [batch["unilm_mode"].tolist() for batch in other]
    assert len({mode[0] for mode in modes}) > 2
    assert any((a["unilm_positions"] != b["unilm_positions"]).any() for a, b in zip(one, other, strict=True))


def test_a_restored_iterator_goes_on_with_the_same_batches(documents, tokenizer, tmp_path):
    def made():
        return batches(documents, tokenizer, objectives=("unilm",))

    expected, iterator = first(made(), 12), iter(made())
    for _ in range(5):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    again = iter(made())
    tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
    for batch in expected[5:]:
        found = next(again)
        for name, value in batch.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ngram_share": 1.5}, r"`ngram_share` of unilm must be a number in \[0, 1\]"),
        ({"left_to_right": -1.0}, r"`left_to_right` of unilm must be a number in \[0, inf\)"),
        (dict.fromkeys(MODES, 0.0), "`bidirectional` of unilm must be above 0 unless another"),
        ({"input_length": 1}, "`input_length` of unilm must be an integer >= 2"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        build_objectives(["unilm"], LENGTH, {"unilm": options})


def test_mixers_that_cannot_are_refused_before_the_first_step_and_trained_from_both_sides():
    model = backbone(num_decoder_layers=0, mixer="fourier")
    with pytest.raises(ValueError, match=r"unilm needs mixers with supports_prefix.*or .*=0.*: fourier$"):
        pretraining_loss(model, [build()])
    with pytest.raises(ValueError, match=r"supports_right_to_left = True .*or right_to_left=0.*: fourier$"):
        pretraining_loss(model, [build(sequence_to_sequence=0.0, left_to_right=0.0)])
    both_sides = build(sequence_to_sequence=0.0, left_to_right=0.0, right_to_left=0.0)
    result = pretraining_loss(model, [both_sides])(batch_of("bidirectional"), SEED, training=False)
    assert np.isfinite(result["loss_sum"])


def test_the_page_says_which_mixers_can():
    page = pathlib.Path("docs/pretraining.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"\| can \| cannot \|\n.*\n\| (.*) \| (.*) \|\n", page)
    named = [set(re.findall(r"`(\w+)`", cell)) for cell in row]
    can = {name for name, cls in MIXERS.items() if cls.supports_prefix and cls.supports_right_to_left}
    assert named == [can, set(MIXERS) - can]
