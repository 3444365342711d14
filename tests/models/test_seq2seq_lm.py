import concurrent.futures
import math
import threading

import keras
import keras_nlp
import numpy as np
import pytest
import tensorflow as tf

from convnlp.models import Seq2SeqBackbone, Seq2SeqLM, Seq2SeqLMPreprocessor

EOS = 1
SOURCES = ["the river", "", "the old river", "a"]


@pytest.fixture(
    scope="module", params=["dynamic_conv", pytest.param("self_attention", marks=pytest.mark.slow)]
)
def sharp_lm(request, tokenizer):
    """A model with far apart logits, so that its greedy outputs end at different lengths and differ."""
    keras.utils.set_random_seed(0)
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(), 1, 2, 16, 32, kernel_size=3, mixer=request.param, dropout=0.0
    )
    for (
        weight
    ) in backbone.decoder.trainable_variables:  # random signs of the norms: or each token repeats itself
        noise = keras.random.normal(weight.shape)
        weight.assign(noise if weight.name == "gamma" else weight + 0.3 * noise)
    return Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 12, 8))


def log_probabilities(lm, inputs, token_ids):
    """[B,T,V], by one pass of the full decoder."""
    backbone = lm.backbone
    encoder_output = backbone.encode(inputs["encoder_token_ids"], padding_mask=inputs["encoder_padding_mask"])
    hidden = backbone.decode(token_ids, encoder_output, encoder_padding_mask=inputs["encoder_padding_mask"])
    return tf.nn.log_softmax(backbone.logits(hidden)).numpy()


def greedy_by_full_decoding(lm, inputs, stop=EOS):
    """Argmax, running the whole decoder anew for each token; what follows an end is 0."""
    token_ids = inputs["decoder_token_ids"].numpy().copy()
    prompted = inputs["decoder_padding_mask"].numpy()
    ended = np.zeros(len(token_ids), bool)
    for t in range(1, token_ids.shape[1]):
        best = log_probabilities(lm, inputs, tf.constant(token_ids))[:, t - 1].argmax(-1)
        token_ids[:, t] = np.where(prompted[:, t], token_ids[:, t], np.where(ended, 0, best))
        ended |= ~prompted[:, t] & (token_ids[:, t] == stop)
    return token_ids


def score(lm, inputs, outputs):
    """Summed log-probability of each row's own text, its end included."""
    token_ids, mask = np.asarray(outputs["decoder_token_ids"]), np.asarray(outputs["decoder_padding_mask"])
    logp = log_probabilities(lm, inputs, tf.constant(token_ids))
    picked = np.take_along_axis(logp[:, :-1], token_ids[:, 1:, None], axis=-1)[..., 0]
    return (picked * mask[:, 1:]).sum(-1)


GREEDY = {}  # a model's id -> the function that it generates by, traced once for each shape


def use(lm, sampler):
    lm.sampler, lm.generate_function = keras_nlp.samplers.get(sampler), None
    if sampler == "greedy":
        lm.generate_function = GREEDY.setdefault(id(lm), lm.make_generate_function())


def run(lm, inputs, sampler, stop=(EOS,)):
    use(lm, sampler)
    outputs = lm.make_generate_function()(inputs, stop_token_ids=stop and list(stop))
    return {name: value.numpy() for name, value in outputs.items()}


def test_greedy_equals_full_decoding_at_each_step(sharp_lm):
    inputs = sharp_lm.preprocessor.generate_preprocess(SOURCES)
    outputs = run(sharp_lm, inputs, "greedy")
    expected = greedy_by_full_decoding(sharp_lm, inputs)
    np.testing.assert_array_equal(outputs["decoder_token_ids"], expected)
    assert len({tuple(row) for row in expected}) > 1  # the source matters


def test_rows_end_at_their_own_end_token(sharp_lm):
    """Any id may stop; take one that greedy writes in the middle of some rows."""
    inputs = sharp_lm.preprocessor.generate_preprocess(SOURCES)
    free = run(sharp_lm, inputs, "greedy", stop=None)
    assert free["decoder_padding_mask"].all()
    stop = int(free["decoder_token_ids"][0, 3])
    outputs = run(sharp_lm, inputs, "greedy", stop=(stop,))
    np.testing.assert_array_equal(
        outputs["decoder_token_ids"], greedy_by_full_decoding(sharp_lm, inputs, stop)
    )
    for ids, mask in zip(outputs["decoder_token_ids"], outputs["decoder_padding_mask"], strict=True):
        ends = np.flatnonzero(ids[1:] == stop) + 1
        assert mask.sum() == (ends[0] + 1 if len(ends) else len(ids))
    assert outputs["decoder_padding_mask"][0].sum() <= 4


def test_a_row_alone_equals_the_row_in_a_batch(sharp_lm):
    together = run(sharp_lm, sharp_lm.preprocessor.generate_preprocess(SOURCES), "greedy")
    for i, source in enumerate(SOURCES):
        short = sharp_lm.preprocessor.generate_preprocess([source], encoder_sequence_length=20)
        alone = run(sharp_lm, short, "greedy")
        np.testing.assert_array_equal(alone["decoder_token_ids"][0], together["decoder_token_ids"][i])


@pytest.mark.slow
def test_prompts_of_several_lengths_are_kept(sharp_lm):
    texts = {"encoder_text": ["the river", "a", "b"], "decoder_text": ["", "old", "the old river"]}
    inputs = sharp_lm.preprocessor.generate_preprocess(texts)
    assert len(set(inputs["decoder_padding_mask"].numpy().sum(-1))) == 3
    expected = greedy_by_full_decoding(sharp_lm, inputs)
    for sampler in ("greedy", keras_nlp.samplers.BeamSampler(num_beams=1)):
        np.testing.assert_array_equal(run(sharp_lm, inputs, sampler)["decoder_token_ids"], expected)
    beam = run(sharp_lm, inputs, keras_nlp.samplers.BeamSampler(num_beams=3))
    kept = inputs["decoder_padding_mask"].numpy()
    np.testing.assert_array_equal(beam["decoder_token_ids"][kept], inputs["decoder_token_ids"].numpy()[kept])


@pytest.mark.slow
def test_one_beam_is_greedy_and_more_are_never_worse(sharp_lm):
    inputs = sharp_lm.preprocessor.generate_preprocess(SOURCES)
    greedy = run(sharp_lm, inputs, "greedy")
    one = run(sharp_lm, inputs, keras_nlp.samplers.BeamSampler(num_beams=1))
    np.testing.assert_array_equal(one["decoder_token_ids"], greedy["decoder_token_ids"])
    # Beam search may drop the greedy path on the way; with as many beams as tokens it finds better ones here.
    beams = run(sharp_lm, inputs, keras_nlp.samplers.BeamSampler(num_beams=16))
    assert (score(sharp_lm, inputs, beams) >= score(sharp_lm, inputs, greedy) - 1e-4).all()  # float32 sums


def test_the_score_of_a_beam_is_that_of_its_text(sharp_lm):
    """Also of beams that end early: nothing that follows their end may count."""
    inputs = sharp_lm.preprocessor.generate_preprocess(SOURCES)
    stop = int(run(sharp_lm, inputs, "greedy", stop=None)["decoder_token_ids"][0, 2])
    sampler = keras_nlp.samplers.BeamSampler(num_beams=4)
    scores = []
    original_loop = sampler.run_loop

    def run_loop(*args, **kwargs):
        scores.append(original_loop(*args, **kwargs))
        return scores[-1]

    sampler.run_loop = run_loop
    sharp_lm.sampler = sampler
    outputs = sharp_lm.generate_step(inputs, [stop])
    reported = tf.reduce_max(tf.reshape(scores[0][-1], [len(SOURCES), 4]), axis=1)
    # float32 sums: log(softmax) in steps, log_softmax in one pass
    np.testing.assert_allclose(score(sharp_lm, inputs, outputs), reported, rtol=1e-4, atol=1e-4)


def test_generate_ids_is_greedy_without_the_start_token(sharp_lm):
    inputs = sharp_lm.preprocessor.generate_preprocess(SOURCES)
    greedy = run(sharp_lm, inputs, "greedy")["decoder_token_ids"]
    graph = tf.function(lambda *given: sharp_lm.generate_ids(*given, max_length=7), autograph=False)
    ids = graph(inputs["encoder_token_ids"], inputs["encoder_padding_mask"])
    assert ids.shape == (4, 7)
    np.testing.assert_array_equal(ids, greedy[:, 1:])
    stop = int(greedy[0, 3])
    stopped = sharp_lm.generate_ids(
        inputs["encoder_token_ids"], inputs["encoder_padding_mask"], 7, end_token_id=stop
    )
    np.testing.assert_array_equal(stopped, greedy_by_full_decoding(sharp_lm, inputs, stop)[:, 1:])


def test_generate_ids_serves_any_batch_from_one_graph(lm):
    spec = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, None], tf.bool)]
    graph = tf.function(lambda *given: lm.generate_ids(*given, max_length=4), spec, autograph=False)
    for batch, length in ((1, 12), (3, 9)):
        rows = lm.preprocessor.generate_preprocess(["the river"] * batch, encoder_sequence_length=length)
        assert graph(rows["encoder_token_ids"], rows["encoder_padding_mask"]).shape == (batch, 4)
    assert graph.experimental_get_tracing_count() == 1


def test_generate_takes_and_gives_text(lm):
    one = lm.generate("the river", max_length=6)
    assert isinstance(one, str)
    assert lm.generate(["the river", "a"], max_length=6)[0] == one
    dataset = tf.data.Dataset.from_tensor_slices(["the river", "a"]).batch(1)
    dataset = dataset.map(lambda text: lm.preprocessor.generate_preprocess(text, sequence_length=6))
    ids = [lm.generate_step(batch, [EOS])["decoder_token_ids"] for batch in dataset]
    assert len(ids) == 2
    assert lm.preprocessor.tokenizer.detokenize(ids[0])[0] == one


@pytest.mark.slow
def test_top_k_samples_differ_by_seed_only(lm):
    def sample(seed):
        sampler = keras_nlp.samplers.TopKSampler(k=50, seed=seed, temperature=5.0)
        return run(lm, lm.preprocessor.generate_preprocess(SOURCES), sampler)["decoder_token_ids"].tolist()

    sampled = sample(1)
    assert sample(1) == sampled
    assert sample(2) != sampled
    use(lm, "greedy")  # as the next tests of this model expect


def test_fit_learns_a_copy(tokenizer):
    texts = ["river", "garden", "letter", "music"]
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 32, 64, kernel_size=3, dropout=0.0)
    lm = Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 8, 8))
    lm.compile(optimizer=keras.optimizers.Adam(1e-2), sampler="greedy")
    data = {"encoder_text": texts * 60, "decoder_text": texts * 60}
    lm.fit(data, batch_size=4, verbose=0)
    assert lm.generate(texts) == texts
    assert (lm.rank_labels(texts, texts).argmax(-1) == range(4)).all()


def test_rank_labels_are_log_probabilities_of_whole_labels(lm):
    labels = ["river", "the old garden", ""]
    scores = lm.rank_labels(SOURCES, labels, batch_size=3)  # 4 texts: the second batch is filled up
    assert scores.shape == (4, 3)
    for j, label in enumerate(labels):
        x, y, weight = lm.preprocessor({"encoder_text": SOURCES, "decoder_text": [label] * 4})
        logp = log_probabilities(lm, x, x["decoder_token_ids"])
        logp = np.take_along_axis(logp, y.numpy()[..., None], -1)[..., 0]
        # float32 sums over rows of another length
        np.testing.assert_allclose(scores[:, j], (logp * weight.numpy()).sum(-1), rtol=1e-4, atol=1e-4)


def test_no_texts_have_no_ranks(lm):
    scores = lm.rank_labels([], ["river", "garden"])
    assert (scores.shape, scores.dtype) == ((0, 2), np.float32)


@pytest.mark.parametrize(
    ("texts", "label_names", "options", "message"),
    [
        (["a"], [], {}, r"`label_names` must hold at least one label. Received: \[\]"),
        (["a"], "good", {}, "`label_names` must be a list of texts. Received: 'good'"),
        (["a"], ["good", None], {}, "`label_names` must hold only texts. Received: None at index 1"),
        ("a boat", ["good"], {}, "`texts` must be a list of texts. Received: 'a boat'"),
        (["a", 3], ["good"], {}, "`texts` must hold only texts. Received: 3 at index 1"),
        (
            (["a", "b"], ["c"]),
            ["good"],
            {},
            "columns of `texts` must have as many entries each. Received: 2, 1",
        ),
        (["a"], ["good"], {"batch_size": 0}, "`batch_size` must be a whole number >= 1. Received: 0"),
    ],
)
def test_what_cannot_be_ranked(lm, texts, label_names, options, message):
    with pytest.raises(ValueError, match=message):
        lm.rank_labels(texts, label_names, **options)


def test_ranks_need_a_preprocessor(backbone):
    with pytest.raises(ValueError, match="`rank_labels` needs a preprocessor"):
        Seq2SeqLM(backbone).rank_labels(["a"], ["good"])


@pytest.mark.parametrize(("side", "lengths"), [("encoder", (9, 8)), ("decoder", (8, 9))])
def test_rows_longer_than_the_weights_for_positions_are_refused(tokenizer, side, lengths):
    size = tokenizer.vocabulary_size(), 1, 2, 16, 32
    backbone = Seq2SeqBackbone(*size, mixer="res_mlp", max_sequence_length=8)
    with pytest.raises(ValueError, match=rf"`{side}_sequence_length` must be at most 8, .*_length=9"):
        Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, *lengths))


def test_an_encoder_alone_is_refused(backbone):
    with pytest.raises(ValueError, match=r"must have a decoder; an encoder alone is for `PrefixLM`"):
        Seq2SeqLM(backbone.encoder_only())


@pytest.mark.parametrize("nothing", [[], (), np.array([], int), None], ids=repr)
def test_without_stop_tokens_a_row_has_the_whole_length(sharp_lm, nothing):
    inputs = sharp_lm.preprocessor.generate_preprocess(SOURCES)
    expected = run(sharp_lm, inputs, "greedy", stop=None)["decoder_token_ids"]
    texts = sharp_lm.generate(SOURCES, stop_token_ids=nothing)
    assert texts == sharp_lm.preprocessor.tokenizer.detokenize(expected)
    stop = int(expected[0, 3])
    assert sharp_lm.generate(SOURCES, stop_token_ids=np.array([stop])) != texts


@pytest.mark.parametrize("wrong", [[200], [-1], ["</s>"], "none", 5, [1.5]], ids=repr)
def test_stop_tokens_that_are_none(lm, wrong):
    with pytest.raises(ValueError, match=r'`stop_token_ids` must be "auto", None or a list .* \[0, 200\)'):
        lm.generate("a", stop_token_ids=wrong)


def test_strip_prompt_leaves_what_was_written(sharp_lm):
    tokenizer = sharp_lm.preprocessor.tokenizer
    texts = {"encoder_text": ["the river", "a", "b"], "decoder_text": ["", "old", "the old"]}
    inputs = sharp_lm.preprocessor.generate_preprocess(texts)
    outputs = run(sharp_lm, inputs, "greedy")
    written = outputs["decoder_padding_mask"] & ~inputs["decoder_padding_mask"].numpy()
    rows = [ids[mask].tolist() for ids, mask in zip(outputs["decoder_token_ids"], written, strict=True)]
    assert sharp_lm.generate(texts, strip_prompt=True) == [tokenizer.detokenize(row) for row in rows]
    whole = sharp_lm.generate(texts)
    assert all(text.startswith(prompt) for text, prompt in zip(whole, texts["decoder_text"], strict=True))
    preprocessor, sharp_lm.preprocessor = sharp_lm.preprocessor, None
    ids = sharp_lm.generate(inputs, stop_token_ids=[EOS], strip_prompt=True)
    sharp_lm.preprocessor = preprocessor
    for row, kept, expected in zip(ids["decoder_token_ids"], ids["decoder_padding_mask"], rows, strict=True):
        assert row[kept].tolist() == row[: len(expected)].tolist() == expected


def test_strip_prompt_of_one_thread_leaves_the_others_alone(sharp_lm, monkeypatch):
    inputs = {"encoder_text": ["the old river"], "decoder_text": ["the"]}
    expected = {strip: sharp_lm.generate(inputs, strip_prompt=strip) for strip in (False, True)}
    assert expected[False] != expected[True]
    both = threading.Barrier(2, timeout=60)
    make_generate_function = sharp_lm.make_generate_function

    def at_the_same_time():
        both.wait()  # both calls have begun, and none has taken its function
        function = make_generate_function()
        both.wait()
        return function

    monkeypatch.setattr(sharp_lm, "make_generate_function", at_the_same_time)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = {strip: pool.submit(sharp_lm.generate, inputs, strip_prompt=strip) for strip in (False, True)}
    assert {strip: future.result() for strip, future in found.items()} == expected


def test_a_text_alone_in_any_form_is_a_text(lm):
    expected = lm.generate(["the river"], max_length=4)[0]
    dictionary = {"encoder_text": "the river", "decoder_text": None}
    before = dict(dictionary)
    alone = b"the river", tf.constant("the river"), np.array("the river"), dictionary, dictionary
    for text in alone:  # the last one again: it is not changed
        assert lm.generate(text, max_length=4) == expected
    assert dictionary == before
    prompted = {"encoder_text": ("a", "b"), "decoder_text": "the"}
    assert [lm.generate(prompted, max_length=4)] == lm.generate(
        {"encoder_text": (["a"], ["b"]), "decoder_text": ["the"]}, max_length=4
    )


def test_it_stays_greedy_unless_compiled_with_another_sampler(backbone, tokenizer):
    lm = Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 12, 8))
    lm.compile()
    assert isinstance(lm.sampler, keras_nlp.samplers.GreedySampler)
    lm.compile(sampler="top_p")
    assert isinstance(lm.sampler, keras_nlp.samplers.TopPSampler)


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        ("beams", "`sampler` must be one of greedy, beam, .* Received: 'beams'"),
        (None, "`sampler` must be one of greedy, beam, .* Received: None"),
        (3, "`sampler` must be one of greedy, beam, .* Received: 3"),
        ("contrastive", "`sampler` must be one of greedy, beam, .* Received: 'contrastive'"),
        (keras_nlp.samplers.GreedySampler, "`sampler` must be one of greedy, beam, .* Received: <class"),
        (
            keras_nlp.samplers.TopKSampler(k=3, temperature=0.0),
            "`temperature` of the sampler must be a number > 0",
        ),
        (keras_nlp.samplers.TopKSampler(k=201), r"`k` of the sampler must be an integer in \[1, 200\], the"),
        (keras_nlp.samplers.TopKSampler(k=2.5), r"`k` of the sampler must be an integer .* Received: k=2.5"),
        (keras_nlp.samplers.BeamSampler(num_beams=2.5), "`num_beams` of the sampler must be an integer >= 1"),
        (keras_nlp.samplers.TopPSampler(p=1.5), r"`p` of the sampler must be in \[0, 1\]. Received: p=1.5"),
        (keras_nlp.samplers.TopPSampler(p=math.nan), "`p` of the sampler must be .* Received: p=nan"),
        (keras_nlp.samplers.BeamSampler(num_beams=0), "`num_beams` of the sampler must be an integer >= 1"),
        (
            keras_nlp.samplers.BeamSampler(return_all_beams=True),
            "`return_all_beams` of the sampler must be False",
        ),
    ],
)
def test_samplers_that_generate_cannot_use(lm, sampler, message):
    before = lm.sampler
    with pytest.raises(ValueError, match=message):
        lm.compile(sampler=sampler)
    assert lm.sampler is before


def test_generate_of_nothing_and_lengths(lm):
    assert lm.generate([]) == []
    assert isinstance(lm.generate("a", max_length=np.int64(4)), str)
    for length in (1, 0, -3, 2.5, "4"):
        with pytest.raises(ValueError, match="`max_length` must be a whole number >= 2"):
            lm.generate("a", max_length=length)


@pytest.mark.slow
def test_validation_split_takes_lists(backbone, tokenizer):
    lm = Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 12, 10))  # the shared one is not to be compiled
    lm.compile(keras.optimizers.SGD(0.0))
    data = {"encoder_text": SOURCES, "decoder_text": SOURCES}
    last = {name: texts[3:] for name, texts in data.items()}
    history = lm.fit(data, validation_split=0.25, verbose=0).history
    assert history["val_loss"] == [lm.evaluate(last, verbose=0)[0]]
    with pytest.raises(ValueError, match="at least one example"):
        lm.fit({"encoder_text": [], "decoder_text": []}, verbose=0)


def test_texts_longer_than_the_positions_are_refused(tokenizer):
    """XLA, in which outputs are made, drops the check that a table of positions is long enough."""
    sizes = {"num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "max_sequence_length": 12}
    learned = {**sizes, "num_decoder_layers": 1, "position_embedding": "learned"}
    lm = Seq2SeqLM(
        Seq2SeqBackbone(tokenizer.vocabulary_size(), num_layers=1, **learned),
        Seq2SeqLMPreprocessor(tokenizer, 8, 8),
    )
    with pytest.raises(ValueError, match=r"`max_length` must be at most 12.*Received: max_length=13"):
        lm.generate("the river", max_length=13)
    decoder_only = Seq2SeqBackbone(tokenizer.vocabulary_size(), num_layers=0, **learned)
    with pytest.raises(ValueError, match=r"`encoder_sequence_length \+ decoder_sequence_length` must.*=16"):
        Seq2SeqLM(decoder_only, Seq2SeqLMPreprocessor(tokenizer, 8, 8))
    lm = Seq2SeqLM(decoder_only, Seq2SeqLMPreprocessor(tokenizer, 6, 6))
    with pytest.raises(ValueError, match=r"`encoder_sequence_length \+ max_length` must be at most 12.*=13"):
        lm.generate("the river", max_length=7)
