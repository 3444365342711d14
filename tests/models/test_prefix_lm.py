"""An encoder that continues texts, by the interface of keras_nlp's CausalLM."""

import keras
import keras_nlp
import numpy as np
import pytest

from convnlp.models import PrefixLM, PrefixLMPreprocessor, Seq2SeqBackbone, Tokenizer
from tests import corpus

TEXTS = ["the river", "", "the old captain"]
LENGTH = 12


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(corpus.tiny_proto())


def build(tokenizer, **changes):
    keras.utils.set_random_seed(0)
    size = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "dropout": 0.0}
    changes = {"mixer": "lightweight_conv", "num_decoder_layers": 0, **changes}
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), **{**size, **changes})
    for weight in backbone.trainable_weights:
        if weight.name != "gamma":
            weight.assign(weight + 0.3 * keras.random.normal(weight.shape))
    return PrefixLM(backbone, PrefixLMPreprocessor(tokenizer, LENGTH))


@pytest.fixture(scope="module")
def lm(tokenizer):
    return build(tokenizer)


def greedy(lm, prompt, length):
    """One prompt, on rows that end where they are known."""
    row = list(prompt) or [1]
    start = len(row)
    while len(row) < length:
        prefix_mask = np.arange(len(row))[None] < start
        hidden = lm.backbone.encode(np.array([row]), prefix_mask=prefix_mask)
        row.append(int(np.argmax(lm.backbone.logits(hidden)[0, -1])))
        if row[-1] == 1:
            break
    return row


def test_generate_continues_each_prompt_as_alone(lm, tokenizer):
    prompts = [tokenizer.ragged(text).numpy().tolist() for text in TEXTS]
    rows = [greedy(lm, prompt, LENGTH) for prompt in prompts]
    expected = [tokenizer.detokenize(np.array([row]))[0] for row in rows]
    assert lm.generate(TEXTS) == expected
    assert lm.generate(TEXTS[0]) == expected[0]
    added = [row[max(len(prompt), 1) :] for row, prompt in zip(rows, prompts, strict=True)]
    assert lm.generate(TEXTS, strip_prompt=True) == [tokenizer.detokenize(row) for row in added]
    assert len({tuple(row[-3:]) for row in rows}) > 1  # or nothing would be shown


def test_a_long_prompt_keeps_its_end_and_room_for_a_token(lm):
    rows = lm.preprocessor.generate_preprocess(["the engine " * 30, "the"])
    count = rows["padding_mask"].numpy().sum(axis=1)
    assert count[0] == LENGTH - 1
    last = lm.preprocessor.tokenizer.ragged("the engine " * 30).numpy()[1 - LENGTH :]
    np.testing.assert_array_equal(rows["token_ids"][0, :-1], last)


def test_a_beam_of_one_is_greedy(lm):
    expected = lm.generate(TEXTS, max_length=9)
    lm.compile(sampler=keras_nlp.samplers.BeamSampler(num_beams=1))
    try:
        assert lm.generate(TEXTS, max_length=9) == expected
    finally:
        lm.compile(sampler="greedy")


def of_beams(lm, num_beams, texts, length):
    lm.compile(sampler=keras_nlp.samplers.BeamSampler(num_beams=num_beams))
    try:
        return lm.generate(texts, max_length=length)
    finally:
        lm.compile(sampler="greedy")


def test_beams_of_several_prompts_are_those_of_each_alone(lm):
    together = of_beams(lm, 3, TEXTS, 9)
    assert together == [of_beams(lm, 3, text, 9) for text in TEXTS]
    assert together != lm.generate(TEXTS, max_length=9)  # or nothing would be shown


def test_as_many_beams_as_tokens_find_the_best_of_all_pairs(lm, tokenizer):
    prompt = tokenizer.ragged("the river").numpy().tolist()
    size, length = tokenizer.vocabulary_size(), len(prompt) + 2

    def log_probabilities(rows):
        prefix_mask = np.arange(len(rows[0]))[None] < len(prompt)
        hidden = lm.backbone.encode(np.array(rows), prefix_mask=np.repeat(prefix_mask, len(rows), axis=0))
        return keras.ops.convert_to_numpy(keras.ops.log_softmax(lm.backbone.logits(hidden)[:, -1]))

    first = log_probabilities([prompt])[0]  # [V]
    sums = first[:, None] + log_probabilities([[*prompt, token] for token in range(size)])  # [V,V]
    sums[1] = np.where(np.arange(size) == 0, first[1], -np.inf)  # nothing follows the end token
    best = np.unravel_index(sums.argmax(), sums.shape)
    assert of_beams(lm, size, "the river", length) == tokenizer.detokenize(np.array([[*prompt, *best]]))[0]


@pytest.mark.parametrize("inputs", [3, None, ("a", "b"), {"encoder_text": "a"}, iter(["a"])])
def test_what_is_no_prompt(lm, inputs):
    with pytest.raises(ValueError, match="`inputs` must be a text, a list of texts or a data set"):
        lm.generate(inputs)


def test_saved_and_loaded(lm, tmp_path):
    lm.save_to_preset(str(tmp_path / "preset"))
    expected = lm.generate(TEXTS)
    loaded = PrefixLM.from_preset(str(tmp_path / "preset"))
    assert loaded.generate(TEXTS) == expected
    assert loaded.preprocessor.sequence_length == LENGTH


def test_its_logits_see_what_is_before_them(lm):
    ids = np.arange(3, 3 + LENGTH)[None]
    changed = ids.copy()
    changed[0, 6] += 1
    mask = np.ones_like(ids, bool)
    first, second = (lm({"token_ids": x, "padding_mask": mask}).numpy() for x in (ids, changed))
    np.testing.assert_allclose(first[0, :6], second[0, :6], atol=1e-5)  # sums in another order
    assert np.abs(first[0, 6:] - second[0, 6:]).max() > 1e-2


@pytest.mark.slow
def test_fit_on_strings(tokenizer):
    lm = build(tokenizer)
    lm.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    history = lm.fit(["the old river crosses the bridge"] * 8, epochs=8, batch_size=4, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0] / 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_decoder_layers": 1}, "must be an encoder alone .*num_decoder_layers=1"),
        ({"pool_size": 2}, "an output for every token.*pool_size=2"),
        ({"mixer": "mb_conv"}, "supports_prefix = True. Received: mb_conv"),
        ({"mixer": "relative_attention", "max_sequence_length": 8}, "`sequence_length` must be at most 8"),
    ],
)
def test_what_cannot_continue_a_text(tokenizer, changes, message):
    with pytest.raises(ValueError, match=message):
        build(tokenizer, **changes)
