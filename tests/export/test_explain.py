"""The signatures "explain" and "explain_pair" against the preset, asked a row at a time, without padding."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.export.saved_models import signatures
from convnlp.export.verification import parity
from convnlp.layers import MIXERS
from convnlp.models import Seq2SeqBackbone, TextClassifier, TextClassifierPreprocessor, Tokenizer
from convnlp.tasks.classification import explain
from tests import corpus

LENGTH = 12
TEXTS = [
    "the old bridge",
    "",
    "A wonderful film about the river, the old teacher and the quiet garden.",
    "\u4f60 no",
]


@pytest.fixture(scope="module", params=["dynamic_conv", "fourier"])
def classifier(request):
    """One with rows as long as the longest text, and one with a mixer that asks for the full length."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MIXERS["fourier"], "pad_length_invariant", False)  # as a mixer of one's own may be
        yield _classifier(request.param)


def _classifier(mixer):
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(),
        num_layers=1,
        num_decoder_layers=0,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        encoder_mixer=mixer,
        max_sequence_length=LENGTH,
    )
    return TextClassifier(backbone, num_classes=3, preprocessor=TextClassifierPreprocessor(tokenizer, LENGTH))


@pytest.fixture(scope="module")
def answers(classifier):
    """To all texts at once, in steps of fewer rows than there are pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explain, "_ROWS_A_STEP", 5)
        outputs = signatures.servable(classifier).signatures["explain"](tf.constant(TEXTS))
    return {name: value.numpy() for name, value in outputs.items()}


def log_scores(classifier, ids):
    """Of one row, padded to the full length, as in training."""
    row = np.array([ids + [0] * (LENGTH - len(ids))], np.int32)
    logits = classifier({"token_ids": row, "padding_mask": row != 0}, training=False)
    return tf.nn.log_softmax(logits)[0].numpy()


def test_importances_are_those_of_a_loop_over_the_preset(classifier, answers):
    tokenizer = classifier.preprocessor.tokenizer
    end = [tokenizer.end_token_id]
    for i, text in enumerate(TEXTS):
        pieces = tokenizer.ragged(text).numpy().tolist()[: LENGTH - 1]
        whole = log_scores(classifier, pieces + end)
        label = int(whole.argmax())
        without = [log_scores(classifier, pieces[:t] + pieces[t + 1 :] + end) for t in range(len(pieces))]
        expected = [whole[label] - scores[label] for scores in without]
        rest = [0.0] * (answers["importances"].shape[1] - len(pieces))
        # Float32 sums over another number of zeros.
        np.testing.assert_allclose(answers["importances"][i], expected + rest, atol=1e-5)
        assert answers["label"][i] == b"%d" % label
        np.testing.assert_allclose(np.log(answers["scores"][i]), whole, atol=1e-5)
    assert np.abs(answers["importances"]).max() > 1e-3


def test_the_pieces_of_both_texts_of_a_pair(classifier):
    """Which share a row; the end token between them is no piece, and stays where it is."""
    tokenizer, pairs = classifier.preprocessor.tokenizer, TEXTS[::-1]
    explained = signatures.servable(classifier).signatures["explain_pair"]
    outputs = explained(text=tf.constant(TEXTS), text_pair=tf.constant(pairs))
    found = {name: value.numpy() for name, value in outputs.items()}
    rows = classifier.preprocessor((TEXTS, pairs), y=None)
    for i, (ids, mask) in enumerate(zip(*(value.numpy() for value in rows.values()), strict=True)):
        ids = ids[mask].tolist()
        whole = log_scores(classifier, ids)
        label = int(whole.argmax())
        expected = np.zeros(LENGTH)
        for t, piece in enumerate(ids):
            if piece != tokenizer.end_token_id:
                expected[t] = whole[label] - log_scores(classifier, ids[:t] + ids[t + 1 :])[label]
        np.testing.assert_allclose(found["importances"][i], expected, atol=1e-5)
        assert found["label"][i] == b"%d" % label
        ends = [t for t, piece in enumerate(ids) if piece == tokenizer.end_token_id]
        texts = [b"".join(part).decode() for part in np.split(found["tokens"][i], ends)]
        assert texts[2] == ""
        expected = [tokenizer.detokenize(part) for part in np.split(np.array(ids), ends)[:2]]
        assert [text.strip() for text in texts[:2]] == [text.strip() for text in expected]
        assert not any(found["tokens"][i][ends])
    assert np.abs(found["importances"]).max() > 1e-3

    inputs = {"text": TEXTS, "text_pair": pairs}
    inputs = {key: np.array([text.encode() for text in column], object) for key, column in inputs.items()}
    expected = parity.reference(classifier)
    assert expected.error("explain_pair", inputs, found) < 1e-5
    moved = {**found, "importances": np.roll(found["importances"], 1, axis=1)}
    assert expected.error("explain_pair", inputs, moved) > 1e-3
    tokens = found["tokens"].copy()
    tokens[0, tokens[0].tolist().index(b"")] = b"x"  # where the first text ends
    assert expected.error("explain_pair", inputs, {**found, "tokens": tokens}) == np.inf


def test_every_text_has_all_places(classifier, answers):
    """However long the others of its batch are: servers join the answers to the parts of a request."""
    explained = signatures.servable(classifier).signatures["explain"]
    for text in ("", "no", TEXTS[2]):
        alone = explained(tf.constant([text]))
        assert alone["tokens"].shape == alone["importances"].shape == (1, LENGTH)
    assert answers["tokens"].shape == answers["importances"].shape == (len(TEXTS), LENGTH)
    assert explained(tf.constant([], tf.string))["tokens"].shape == (0, LENGTH)


def test_tokens_are_the_text_as_it_was_read(classifier, answers):
    tokens = answers["tokens"]
    assert tokens.shape == answers["importances"].shape
    assert b"".join(tokens[0]).decode() == " the old bridge"
    assert not any(tokens[1])
    assert all(tokens[2][: LENGTH - 1])
    assert "".join(token.decode() for token in tokens[2]).startswith(" A wonderful film")
    assert "\u2047" in b"".join(tokens[3]).decode()  # what the vocabulary lacks
    ends = [list(row).index(b"") for row in tokens]
    for row, end in zip(tokens, ends, strict=True):
        assert not any(row[end:])


def test_the_check_sees_a_wrong_explanation(classifier, answers):
    expected = parity.reference(classifier)
    inputs = {"text": np.array([text.encode() for text in TEXTS], object)}
    assert expected.error("explain", inputs, answers) < 1e-5
    moved = {**answers, "importances": np.roll(answers["importances"], 1, axis=1)}
    assert expected.error("explain", inputs, moved) > 1e-3
    tokens = answers["tokens"].copy()
    tokens[0, 0] = b" a"
    assert expected.error("explain", inputs, {**answers, "tokens": tokens}) == np.inf
