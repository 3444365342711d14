import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.data import examples
from convnlp.models import Seq2SeqLMPreprocessor, TextClassifierPreprocessor
from convnlp.models.token_rows import token_rows
from tests import corpus

EOS = 1


def plain_row(segments, length):
    """The rule in plain Python: cut the longest segment until all fit, close each with eos, pad with 0."""
    segments = [list(segment) for segment in segments]
    while sum(map(len, segments)) > length - len(segments):
        max(segments[::-1], key=len).pop()  # of two equal ones, the second
    ids = [token for segment in segments for token in [*segment, EOS]]
    return ids + [0] * (length - len(ids)), len(ids)


def texts():
    return [corpus.documents(1, seed=i)[0][: 3 * i] for i in range(30)]


@pytest.mark.parametrize("length", [3, 4, 9, 64])
def test_single_texts(tokenizer, length):
    rows = TextClassifierPreprocessor(tokenizer, length)(texts())
    assert rows["token_ids"].dtype == tf.int32
    assert rows["padding_mask"].dtype == tf.bool
    for text, ids, mask in zip(texts(), rows["token_ids"].numpy(), rows["padding_mask"].numpy(), strict=True):
        expected, count = plain_row([tokenizer.ragged(text).numpy()], length)
        assert ids.tolist() == expected
        assert mask.tolist() == [True] * count + [False] * (length - count)


@pytest.mark.parametrize("length", [3, 4, 9, 64])
def test_pairs_lose_the_tail_of_the_longer_text(tokenizer, length):
    first, second = texts(), texts()[::-1]
    rows = TextClassifierPreprocessor(tokenizer, length)(x=(first, second))
    for a, b, ids, mask in zip(
        first, second, rows["token_ids"].numpy(), rows["padding_mask"].numpy(), strict=True
    ):
        expected, count = plain_row([tokenizer.ragged(a).numpy(), tokenizer.ragged(b).numpy()], length)
        assert ids.tolist() == expected
        assert mask.sum() == count


@pytest.mark.parametrize("length", [4, 9, 64])
def test_training_batches_hold_the_same_rows(tokenizer, length):
    """`convnlp.data` may not import the models, so it has this rule a second time."""
    segments = [tokenizer.ragged(texts()), tokenizer.ragged(texts()[::-1])]
    for count in (1, 2):
        rows, _ = examples.concatenate(segments[:count], length, tokenizer.end_token_id)
        ids, mask = token_rows(segments[:count], length, tokenizer.end_token_id)
        np.testing.assert_array_equal(ids, rows.to_tensor(shape=[None, length]))
        np.testing.assert_array_equal(mask, tf.sequence_mask(rows.row_lengths(), length))


def test_unbatched_batched_and_mapped_agree(tokenizer):
    preprocessor = TextClassifierPreprocessor(tokenizer, 8)
    expected = preprocessor(texts())
    one = preprocessor(texts()[7])
    np.testing.assert_array_equal(one["token_ids"], expected["token_ids"][7])
    labels = list(range(30))
    mapped = tf.data.Dataset.from_tensor_slices((texts(), labels)).batch(30).map(preprocessor)
    assert mapped.element_spec[0]["token_ids"].shape[1] == 8
    rows, y = next(iter(mapped))
    np.testing.assert_array_equal(rows["token_ids"], expected["token_ids"])
    np.testing.assert_array_equal(rows["padding_mask"], expected["padding_mask"])
    assert y.numpy().tolist() == labels


def test_labels_and_weights_are_handed_on(tokenizer):
    x, y, weight = TextClassifierPreprocessor(tokenizer, 8)(["a", "b"], y=[0, 1], sample_weight=[0.5, 1.0])
    assert set(x) == {"token_ids", "padding_mask"}
    assert (list(y), list(weight)) == ([0, 1], [0.5, 1.0])


def test_no_length_and_no_text_give_wrong_rows(tokenizer):
    with pytest.raises(ValueError, match=r"`sequence_length` must be a whole number >= 3\. Received: 2"):
        TextClassifierPreprocessor(tokenizer, 2)
    with pytest.raises(ValueError, match="a tuple of 3"):
        TextClassifierPreprocessor(tokenizer, 8)(x=(["a"], ["b"], ["c"]))
    empty = TextClassifierPreprocessor(tokenizer, 4)([""])
    assert empty["token_ids"].numpy().tolist() == [[EOS, 0, 0, 0]]
    assert empty["padding_mask"].numpy().tolist() == [[True, False, False, False]]


@pytest.mark.parametrize("cls", [TextClassifierPreprocessor, Seq2SeqLMPreprocessor])
def test_config_round_trip(tokenizer, cls):
    preprocessor = cls(tokenizer, 9)
    config = preprocessor.get_config()
    again = cls.from_config(
        keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(config))
    )
    assert again.get_config() == config
    assert again.sequence_length == preprocessor.sequence_length


def test_targets_are_shifted_right_from_the_start_token(tokenizer):
    preprocessor = Seq2SeqLMPreprocessor(tokenizer, 10, 6)
    source, target = ["the river", "the old"], ["river", corpus.documents(1)[0]]
    x, y, weight = preprocessor({"encoder_text": source, "decoder_text": target})
    for i in range(2):
        assert (
            x["encoder_token_ids"][i].numpy().tolist()
            == plain_row([tokenizer.ragged(source[i]).numpy()], 10)[0]
        )
        expected, count = plain_row([tokenizer.ragged(target[i]).numpy()], 6)
        assert y[i].numpy().tolist() == expected
        assert weight[i].numpy().tolist() == [1.0] * count + [0.0] * (6 - count)
        assert x["decoder_padding_mask"][i].numpy().sum() == count
        assert x["decoder_token_ids"][i].numpy().tolist() == [0, *expected[:-1]]


def test_target_length_can_be_given_per_call(tokenizer):
    x, y, _ = Seq2SeqLMPreprocessor(tokenizer, 10, 6)(
        {"encoder_text": "a", "decoder_text": "b"}, sequence_length=4
    )
    assert x["encoder_token_ids"].shape == (10,)
    assert y.shape == (4,)


def test_training_needs_both_texts(tokenizer):
    with pytest.raises(ValueError, match='"encoder_text" and "decoder_text"'):
        Seq2SeqLMPreprocessor(tokenizer, 10, 6)(["a text"])


def test_generation_starts_with_the_start_token_and_the_prompt(tokenizer):
    preprocessor = Seq2SeqLMPreprocessor(tokenizer, 10, 6)
    plain = preprocessor.generate_preprocess(["the river", ""])
    assert plain["decoder_token_ids"].numpy().tolist() == [[0] * 6] * 2
    assert plain["decoder_padding_mask"].numpy().tolist() == [[True] + [False] * 5] * 2
    prompt = tokenizer.ragged("river").numpy().tolist()
    rows = preprocessor.generate_preprocess({"encoder_text": ["a", "b"], "decoder_text": ["river", ""]})
    assert rows["decoder_token_ids"][0].numpy().tolist() == ([0, *prompt] + [0] * 6)[:6]
    assert rows["decoder_padding_mask"].numpy().sum(-1).tolist() == [1 + len(prompt), 1]


def test_postprocess_reads_what_the_mask_leaves(tokenizer):
    preprocessor = Seq2SeqLMPreprocessor(tokenizer, 10, 6)
    river = tokenizer.ragged("river").numpy().tolist()
    ids = [[0, *river, 1, river[0], river[0]]]
    mask = [[True] * (2 + len(river)) + [False] * 2]
    rows = {"decoder_token_ids": tf.constant(ids), "decoder_padding_mask": tf.constant(mask)}
    assert preprocessor.generate_postprocess(rows) == ["river"]
