"""An encoder that prefix_lm has trained continues texts; a decoder alone answers as other models do."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from convnlp.export import preset
from convnlp.export.lite import calibration, tflite_files
from convnlp.export.saved_models import signatures
from convnlp.export.verification import parity
from convnlp.export.verification.graph import Graph
from convnlp.models import (
    PrefixLM,
    PrefixLMPreprocessor,
    Seq2SeqBackbone,
    Seq2SeqLM,
    Seq2SeqLMPreprocessor,
    TextClassifier,
)
from convnlp.tasks import task_of
from tests.export.conftest import EVERY, GENERATED, LENGTH, SHORT

KEPT = LENGTH - GENERATED  # tokens of a prompt
TEXTS = ["the river", "", "A quiet film about the old bridge.", "the old captain  \n", "the engine " * 30]


@pytest.fixture(scope="module")
def lm(prefix_lm_dir):
    return preset.load(str(prefix_lm_dir))


@pytest.fixture(scope="module")
def short_lm(preset_of):
    return preset.load(str(preset_of("prefix_lm", SHORT)))


def greedy(lm, prompt, count):
    """The continuation of one prompt, by the encoder on rows that end where they are known."""
    row, prompt_length = list(prompt) or [1], max(len(prompt), 1)
    for _ in range(count):
        prefix_mask = np.arange(len(row))[None] < prompt_length
        hidden = lm.backbone.encode(np.array([row]), prefix_mask=prefix_mask)
        row.append(int(np.argmax(lm.backbone.logits(hidden)[0, -1])))
    return row[prompt_length:]


def padded(rows):
    width = max(map(len, rows))
    return np.array([[*row, *[0] * (width - len(row))] for row in rows], np.int32)


@pytest.mark.slow
def test_each_prompt_is_continued_as_alone(lm):
    rng = np.random.default_rng(0)
    prompts = [rng.integers(3, 100, length).tolist() for length in (4, 0, KEPT)]
    generated = lm.generate_ids(tf.constant(padded(prompts)), GENERATED).numpy()
    expected = [greedy(lm, prompt, GENERATED) for prompt in prompts]
    assert generated.tolist() == expected
    assert len({tuple(row) for row in expected}) > 2  # or nothing would be shown
    assert 1 not in generated  # no end token among them, which the next test is about


def test_an_end_token_ends_a_row(lm, monkeypatch):
    prompts = tf.constant(padded([[5, 6, 7], [8], [30, 31, 32, 33]]))
    whole = lm.generate_ids(prompts, GENERATED).numpy()
    end = int(whole[0, 2])
    monkeypatch.setattr(type(lm.preprocessor.tokenizer), "end_token_id", end)
    expected = [
        [*row[: row.index(end) + 1], *[0] * (GENERATED - row.index(end) - 1)] if end in row else row
        for row in whole.tolist()
    ]
    assert lm.generate_ids(prompts, GENERATED).numpy().tolist() == expected
    assert expected[0][3:] == [0] * (GENERATED - 3)


def test_a_text_goes_on_where_it_ends(short_lm, exported_prefix_lm):
    """The answer begins with the text; of a long one the last tokens are read, of no text an end token."""
    tokenizer = short_lm.preprocessor.tokenizer
    prompts = [row.numpy()[-KEPT:].tolist() for row in tokenizer.ragged(TEXTS)]
    assert [len(prompt) for prompt in prompts][-1] == KEPT < len(tokenizer.ragged(TEXTS)[-1])
    added = [
        "".join(tokenizer._surfaces[i] for i in greedy(short_lm, prompt, GENERATED)) for prompt in prompts
    ]
    added = [text.replace("\u2581", " ") for text in added]
    stripped = [text.rstrip() for text in TEXTS]
    expected = [(a + b).strip() if not a else a + b for a, b in zip(stripped, added, strict=True)]
    loaded = [tf.saved_model.load(str(path)).signatures for path in exported_prefix_lm[:2]]
    found = loaded[0]["generate"](text=tf.constant(TEXTS))["generated_text"].numpy()
    assert [text.decode() for text in found] == expected
    ids = padded([row.numpy().tolist() for row in tokenizer.ragged(TEXTS)])  # longer than what is read
    for signature in (loaded[0]["ids"], loaded[1]["ids"]):
        generated = signature(token_ids=tf.constant(ids))["generated_ids"].numpy()
        assert generated.tolist() == [greedy(short_lm, prompt, GENERATED) for prompt in prompts]
    nothing = loaded[1]["ids"](token_ids=tf.zeros([2, 0], tf.int32))["generated_ids"].numpy()
    assert nothing.tolist() == [greedy(short_lm, [], GENERATED)] * 2


@pytest.mark.slow
def test_the_reference_sees_a_wrong_token_and_a_wrong_text(lm):
    reference = parity.reference(lm)
    inputs = {"token_ids": np.array([[5, 6, 7, 0], [8, 9, 10, 11]], np.int32)}
    ids = lm.generate_ids(tf.constant(inputs["token_ids"]), GENERATED).numpy()
    assert reference.error("ids", inputs, {"generated_ids": ids}) < 5e-6  # float32 sums, another padding
    wrong = ids.copy()
    wrong[1, 3] = 3 + wrong[1, 3] % 40
    assert reference.error("ids", inputs, {"generated_ids": wrong}) > 1e-3
    text = np.array([b"the river"], object)
    prompt = lm.preprocessor.tokenizer.ragged(["the river"]).to_tensor()
    ids = lm.generate_ids(prompt, GENERATED)
    reference.error("ids", {"token_ids": prompt.numpy()}, {"generated_ids": ids.numpy()})
    answer = lm.continued(tf.constant(text), ids).numpy()
    assert reference.error("generate", {"text": text}, {"generated_text": answer}) == 0
    assert reference.error("generate", {"text": text}, {"generated_text": answer + b"s"}) == np.inf


def test_verify_asks_for_as_many_tokens_as_the_model_generates(exported_prefix_lm, exported_classifier):
    assert [Graph(path).max_length() for path in exported_prefix_lm[:2]] == [GENERATED] * 2
    assert Graph(exported_classifier[0]).max_length() is None


@pytest.mark.parametrize("kind", ["prefix_lm", "decoder_only"])
class TestItsEmbeddingIsThatOfAClassifier:
    """The whole text, seen from both sides by all layers."""

    def test_in_python(self, kind, preset_of, mixers):
        model, rows, expected = _embedded(preset_of(kind, mixers))
        embedding = task_of(model).answers(model).rows.embed(rows)
        np.testing.assert_allclose(embedding, expected, atol=5e-6)

    @pytest.mark.slow
    @pytest.mark.parametrize("mixers", [SHORT, EVERY], ids=["short", "every"])
    def test_in_exports(self, kind, preset_of, exported, mixers):
        model, rows, expected = _embedded(preset_of(kind, mixers))
        signature = tf.saved_model.load(str(exported(kind, mixers)[0])).signatures["embed"]
        np.testing.assert_allclose(signature(text=tf.constant(TEXTS))["embedding"], expected, atol=5e-6)
        _assert_equals_in_tflite(model, rows, expected)


def _embedded(directory):
    """(model of a preset, the rows of TEXTS, their embedding by a classifier)."""
    model = preset.load(str(directory))
    rows = task_of(model).answers(model).preprocess(TEXTS)
    return model, rows, TextClassifier(model.backbone, 2).embed(rows)


def _assert_equals_in_tflite(model, rows, expected):
    _, content = tflite_files.converted(model, "fp32")
    # Float32 sums of some ten layers in another order, as everywhere here.
    np.testing.assert_allclose(tflite_files.runner(content)(rows["token_ids"].numpy()), expected, atol=5e-6)


def test_the_shortest_rows_leave_room_for_one_token(short_lm):
    lm = PrefixLM(short_lm.backbone, PrefixLMPreprocessor(short_lm.preprocessor.tokenizer, 2))
    served, _ = task_of(lm).answers(lm).signatures()
    assert served["ids"](token_ids=tf.constant([[5, 6]]))["generated_ids"].shape == (1, 1)


def test_pairs_are_refused_without_a_signature_for_them(short_lm):
    with pytest.raises(ValueError, match=r"because a PrefixLM does not read pairs\. Received: 2 fields$"):
        calibration.encoded(short_lm, [TEXTS, TEXTS])


def test_an_encoder_alone_is_refused_whatever_its_run_has_recorded(preset_of, tmp_path):
    directory = tmp_path / "preset"
    shutil.copytree(preset_of("prefix_lm", SHORT), directory)
    (directory / "task.json").unlink()
    recorded = {"objective": {"names": ["prefix_lm"]}, "data": {"input_length": LENGTH}}
    (directory / "experiment.json").write_text(json.dumps(recorded))
    with pytest.raises(ValueError, match=r"an encoder alone has no classes .* and writes no"):
        preset.load(str(directory))
    (directory / "config.json").unlink()
    with pytest.raises(ValueError, match=r"config\.json is missing"):
        preset.load(str(directory))


def test_lengths_beyond_the_model_are_refused(lm, preset_of):
    with pytest.raises(ValueError, match=rf"`max_length` must be below {LENGTH}.* Received: {LENGTH}"):
        signatures.servable(lm, LENGTH)
    # Its stack has a mixer with weights for LENGTH + 8 positions.
    decoder_only = preset.load(str(preset_of("decoder_only", SHORT)))
    signatures.servable(decoder_only, 8)
    with pytest.raises(ValueError, match=rf"`max_length` must be at most 8: .* takes {LENGTH} of them.*: 9"):
        signatures.servable(decoder_only, 9)
    tokenizer = lm.preprocessor.tokenizer
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(), 1, 2, 8, 16, mixer="relative_attention", max_sequence_length=12
    )
    with pytest.raises(ValueError, match=r"`max_length` must be at most 12: .* takes 0 of them"):
        signatures.servable(Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 12, 12)), 13)
