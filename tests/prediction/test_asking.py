"""`convnlp.prediction.asking`."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.prediction import asking


def test_answers_are_in_the_order_of_the_texts_and_batches_of_one_length():
    sizes = []

    def function(text, text_pair):
        sizes.append([len(each) for each in text.numpy()])
        return {"both": text + text_pair, "length": tf.strings.length(text)}

    texts = [(b"x" * (i * 7 % 11), str(i).encode()) for i in range(11)]
    found = asking.in_batches(function, ["text", "text_pair"], texts, 4)
    assert [each["both"] for each in found] == [first + second for first, second in texts]
    assert [each["length"] for each in found] == [len(first) for first, _ in texts]
    assert list(map(len, sizes)) == [4, 4, 3]
    assert np.all(np.diff(np.concatenate(sizes)) >= -1)  # a second text has one or two characters
    assert asking.in_batches(function, ["text", "text_pair"], [], 4) == []


def test_texts_of_as_many_tokens_share_a_batch():
    asked = []

    def function(text):
        asked.append([len(each.split()) for each in text.numpy()])
        return {"text": text}

    texts = [b"unquestionably", b"a b c d e f", b"internationalisation yes", b"a b", b"", b"a b c d e f g"]
    lengths_of = asking.lengths_in_tokens(tf.strings.split)
    assert lengths_of([(b"a b", b"c"), (b"", b"d")]).tolist() == [3, 1]
    found = asking.in_batches(function, ["text"], [(text,) for text in texts], 2, lengths_of)
    assert [each["text"] for each in found] == texts
    assert asked == [[0, 1], [2, 2], [6, 7]]


def test_a_model_that_answers_fewer_is_refused():
    with pytest.raises(ValueError, match=r"output 'a' must have one entry per .*: shape \[1\] of 2 examples"):
        asking.in_batches(lambda text: {"a": text[:1]}, ["text"], [(b"one",), (b"two",)], 2)
