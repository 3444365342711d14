"""Fine-tuning batches: content, shapes, the last batch, restarts, wrong labels."""

import json

import numpy as np
import pytest
import tensorflow as tf

from convnlp.configs import common
from convnlp.data import Label, Source, SourceError, examples
from convnlp.data.schema import SEVERAL
from convnlp.models import Seq2SeqLMPreprocessor, TextClassifierPreprocessor
from convnlp.tasks import build_task
from convnlp.tasks.classification import read_classification
from convnlp.tasks.text_to_text import read_text_to_text, text_to_text_batches
from tests import corpus

ROWS = corpus.reviews(50)
PAIRS = [
    {"text_a": a, "text_b": b, "label": i % 3, "inputs": a, "targets": b}
    for i, (a, b) in enumerate(zip(corpus.documents(50, seed=3), corpus.documents(50, seed=4), strict=True))
]


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    return "jsonl:" + corpus.write_jsonl(tmp_path_factory.mktemp("tasks") / "reviews.jsonl.gz", ROWS)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return "jsonl:" + corpus.write_jsonl(tmp_path_factory.mktemp("tasks") / "pairs.jsonl.gz", PAIRS)


def classification(
    source, tokenizer, batch_size=8, sequence_length=24, num_classes=2, text_fields=("text",), **kwargs
):
    label = Label(num_classes=num_classes)
    found = read_classification(Source(source), tokenizer, label, sequence_length, text_fields)
    return examples.labelled_batches(found, batch_size, **({"training": False} | kwargs))


def text_to_text(source, tokenizer, batch_size=8, training=False, pack=False, num_epochs=None, **kwargs):
    lengths = {"input_length": 48, "target_length": 64}
    found = read_text_to_text(Source(source), tokenizer, **(lengths | kwargs))
    start = tokenizer.start_token_id
    order = {"training": training, "pack": pack, "num_epochs": num_epochs}
    return text_to_text_batches(found, batch_size, start_token_id=start, **order)


def column(dataset, key):
    return np.concatenate([batch[key] for batch in dataset.as_numpy_iterator()])


def test_classification_equals_the_model_s_preprocessor(reviews, tokenizer):
    dataset = classification(reviews, tokenizer)
    assert {name: (spec.shape.as_list(), spec.dtype.name) for name, spec in dataset.element_spec.items()} == {
        "token_ids": ([8, 24], "int32"),
        "padding_mask": ([8, 24], "bool"),
        "label": ([8], "int32"),
        "weight": ([8], "float32"),
    }
    expected = TextClassifierPreprocessor(tokenizer, 24)([row["text"] for row in ROWS])
    for key in ("token_ids", "padding_mask"):
        np.testing.assert_array_equal(column(dataset, key)[:50], expected[key])
    np.testing.assert_array_equal(column(dataset, "label")[:50], [row["label"] for row in ROWS])
    assert int(dataset.cardinality()) == 7
    np.testing.assert_array_equal(column(dataset, "weight"), [1.0] * 50 + [0.0] * 6)


def test_pairs_equal_the_model_s_preprocessor(pairs, tokenizer):
    dataset = classification(
        pairs, tokenizer, num_classes=3, text_fields=("text_a", "text_b"), sequence_length=40
    )
    texts = tuple([row[field] for row in PAIRS] for field in ("text_a", "text_b"))
    expected = TextClassifierPreprocessor(tokenizer, 40)(x=texts)
    np.testing.assert_array_equal(column(dataset, "token_ids")[:50], expected["token_ids"])
    np.testing.assert_array_equal(column(dataset, "padding_mask")[:50], expected["padding_mask"])


def test_text_to_text_equals_the_model_s_preprocessor(pairs, tokenizer):
    dataset = text_to_text(pairs, tokenizer)
    x, y, weight = Seq2SeqLMPreprocessor(tokenizer, 48, 64)(
        {"encoder_text": [row["inputs"] for row in PAIRS], "decoder_text": [row["targets"] for row in PAIRS]}
    )
    for key in ("encoder_token_ids", "encoder_padding_mask", "decoder_padding_mask"):
        np.testing.assert_array_equal(column(dataset, key)[:50], x[key], err_msg=key)
    is_token = column(dataset, "decoder_padding_mask")[:50]
    np.testing.assert_array_equal(
        column(dataset, "decoder_token_ids")[:50][is_token], x["decoder_token_ids"][is_token]
    )
    np.testing.assert_array_equal(column(dataset, "target_token_ids")[:50], y)
    np.testing.assert_array_equal(column(dataset, "decoder_padding_mask")[:50], weight.numpy() > 0)
    assert not column(dataset, "decoder_padding_mask")[50:].any()  # rows that fill up the last batch


def test_two_input_texts_equal_the_model_s_preprocessor(pairs, tokenizer):
    dataset = text_to_text(pairs, tokenizer, input_field=("text_a", "text_b"))
    columns = [[row[field] for row in PAIRS] for field in ("text_a", "text_b", "targets")]
    texts = {"encoder_text": tuple(columns[:2]), "decoder_text": columns[2]}
    x, _, _ = Seq2SeqLMPreprocessor(tokenizer, 48, 64)(texts)
    for key in ("encoder_token_ids", "encoder_padding_mask"):
        np.testing.assert_array_equal(column(dataset, key)[:50], x[key], err_msg=key)


def test_names_of_classes_that_the_tokenizer_cannot_tell_apart(reviews, tokenizer):
    message = (
        "`task.label_names` must be names that the tokenizer tells apart. Received: '😀' and '😂', which"
    )
    with pytest.raises(ValueError, match=message):
        text_to_text(reviews, tokenizer, target_field="label", label_names=("😀", "😂"), input_field="text")


def test_of_several_answers_the_first_is_the_target(tokenizer, tmp_path):
    answers = [["the river", "a garden"], "music", ["river"]]
    rows = [{"inputs": "a", "targets": answer} for answer in answers]
    source = Source("jsonl:" + corpus.write_jsonl(tmp_path / "rows.jsonl", rows))
    lengths = {"input_length": 8, "target_length": 8}
    found = read_text_to_text(source, tokenizer, keep_texts=True, **lengths)
    assert [tokenizer.detokenize(row) for row in found.columns[1]] == ["the river", "music", "river"]
    assert [text.split(SEVERAL) for text in found.texts["targets"]] == [answers[0], ["music"], ["river"]]
    for wrong in ([], ["a", 1], 7):
        path = corpus.write_jsonl(tmp_path / "wrong.jsonl", [{"inputs": "a", "targets": wrong}])
        with pytest.raises(SourceError, match=r"line 1: `targets` must be a string or a non-empty list"):
            read_text_to_text(Source(f"jsonl:{path}"), tokenizer, **lengths)
    path = corpus.write_jsonl(tmp_path / "inputs.jsonl", [{"inputs": ["a"], "targets": "a"}])
    with pytest.raises(SourceError, match=r"line 1: `inputs` must be a string\. Received"):
        read_text_to_text(Source(f"jsonl:{path}"), tokenizer, **lengths)


@pytest.mark.parametrize("form", [lambda text: text, lambda text: [text, "b"], lambda text: {"text": [text]}])
def test_a_record_separator_in_a_text_does_not_split_it(tokenizer, tmp_path, form):
    rows = [{"inputs": f"a{SEVERAL}b", "targets": form(f"a{SEVERAL}b")}]
    source = Source("jsonl:" + corpus.write_jsonl(tmp_path / "a.jsonl", rows))
    found = read_text_to_text(source, tokenizer, input_length=12, target_length=6, keep_texts=True)
    assert found.texts["targets"][0].split(SEVERAL)[0] == "a b"
    assert tokenizer.detokenize(found.columns[1]) == ["a b"]


def test_training_shuffles_for_some_epochs(reviews, tokenizer):
    dataset = classification(reviews, tokenizer, training=True, num_epochs=2.5)
    assert int(dataset.cardinality()) == 125 // 8
    ids = column(dataset, "token_ids")[:100]
    once = column(classification(reviews, tokenizer), "token_ids")[:50]
    for epoch in (ids[:50], ids[50:]):
        assert sorted(map(tuple, epoch)) == sorted(map(tuple, once))
        assert (epoch != once).any()
    assert (ids[:50] != ids[50:]).any()
    assert column(dataset, "weight").all()


def test_label_strings_as_targets(reviews, tokenizer):
    dataset = text_to_text(
        reviews,
        tokenizer,
        input_field="text",
        target_field="label",
        label_names=("film", "story"),
        target_length=12,
    )
    texts = tokenizer.detokenize(column(dataset, "target_token_ids"))
    assert texts[:50] == [("film", "story")[row["label"]] for row in ROWS]
    with pytest.raises(
        ValueError,
        match=r"`data.target_length` must hold the name of every class, .* Received: data.target_length=2",
    ):
        text_to_text(
            reviews,
            tokenizer,
            input_field="text",
            target_field="label",
            label_names=("film", "story"),
            target_length=2,
        )


def test_packed_rows_hold_the_same_examples(pairs, tokenizer):
    lengths = {"input_length": 200, "target_length": 200, "training": True}
    plain = text_to_text(pairs, tokenizer, **lengths, num_epochs=8)
    packed = text_to_text(pairs, tokenizer, **lengths, pack=True, batch_size=4)
    assert packed.element_spec["encoder_segment_ids"].shape == (4, 200)

    def examples(batch, number_of):
        for row in range(len(batch["target_token_ids"])):
            for segment in range(1, number_of(batch, row) + 1):
                yield tuple(
                    tuple(
                        batch[f"{name}_token_ids"][row][batch[f"{side}_segment_ids"][row] == segment].tolist()
                    )
                    for name, side in (("encoder", "encoder"), ("decoder", "decoder"), ("target", "decoder"))
                )

    expected = set()
    for batch in plain.as_numpy_iterator():
        batch |= {
            f"{side}_segment_ids": batch[f"{side}_padding_mask"].astype(int)
            for side in ("encoder", "decoder")
        }
        expected |= set(examples(batch, lambda *_: 1))
    found = set()
    for batch in packed.take(4).as_numpy_iterator():
        for side in ("encoder", "decoder"):
            np.testing.assert_array_equal(batch[f"{side}_padding_mask"], batch[f"{side}_segment_ids"] > 0)
        assert batch["encoder_segment_ids"].max() > 1
        found |= set(examples(batch, lambda batch, row: batch["encoder_segment_ids"][row].max()))
    assert len(expected) == 50
    assert len(found) > 16
    assert found <= expected


@pytest.mark.parametrize("pack", [False, True])
def test_rows_are_packed_in_training_alone_and_if_the_task_says_so(pairs, tokenizer, pack):
    config = common.get_config()
    config.update_from_flattened_dict(
        {"task.kind": "text_to_text", "task.pack": pack, "data.input_length": 48, "data.target_length": 64}
    )
    task = build_task(config, tokenizer, Source(pairs))
    found = task.read(Source(pairs), training=True)
    is_packed = [
        "decoder_segment_ids" in task.batches(found, 2, training=training).element_spec
        for training in (True, False)
    ]
    assert is_packed == [pack, False]


@pytest.mark.parametrize("pack", [False, True])
def test_a_restored_iterator_goes_on_with_the_same_batches(pairs, tokenizer, tmp_path, pack):
    def batches():
        return iter(text_to_text(pairs, tokenizer, training=True, pack=pack, batch_size=2))

    iterator = batches()
    for _ in range(60):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    again = batches()
    tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
    for _ in range(5):
        expected, actual = next(iterator), next(again)
        for key in expected:
            np.testing.assert_array_equal(actual[key], expected[key], err_msg=key)


def test_a_wrong_label_anywhere_is_found_before_training(tmp_path, tokenizer):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*ROWS, {"text": "x", "label": 2}]))
    with pytest.raises(
        SourceError, match=rf"^{path}, line 51: `label` must be an integer in \[0, 2\). Received: 2"
    ):
        classification(f"jsonl:{path}", tokenizer)


@pytest.mark.parametrize(
    "text", ["word " * 200_000, "😀🎉👍" * 300, "\t \u00a0"], ids=["1 MB", "emoji", "blank"]
)
def test_unusual_texts(tmp_path, tokenizer, text):
    path = corpus.write_jsonl(tmp_path / "a.jsonl", [{"text": text, "label": 0}])
    (batch,) = classification(f"jsonl:{path}", tokenizer, batch_size=1).as_numpy_iterator()
    length = batch["padding_mask"].sum()
    assert 1 <= length <= 24
    assert batch["token_ids"][0, length - 1] == tokenizer.end_token_id


def test_cut_texts_are_counted(reviews, tokenizer, caplog):
    list(classification(reviews, tokenizer, sequence_length=4))
    assert (
        "truncated 50 of 50 examples (100.0%) to 4 tokens of text; raise data.input_length to keep more"
        in caplog.text
    )


def test_texts_that_the_model_cannot_read_are_pointed_out(tmp_path, tokenizer, caplog):
    texts = [row["text"] for row in ROWS]
    path = corpus.write_jsonl(tmp_path / "a.jsonl", [{"text": text, "label": 0} for text in texts])
    classification(f"jsonl:{path}", tokenizer)
    assert "have no text" not in caplog.text
    assert "unknown" not in caplog.text
    texts = [*["\u6211\u7684\u5361"] * 37, *["", " ", "\u200b"], *texts[:10]]
    corpus.write_jsonl(path, [{"text": text, "label": 0} for text in texts])
    classification(f"jsonl:{path}", tokenizer)
    assert f"jsonl:{path}, split train: 3 of 50 examples (6.0%) have no text in text" in caplog.text
    ids = np.concatenate([tokenizer(text)[:23] for text in texts])
    share = np.sum(ids == tokenizer.unk_token_id) / (len(ids) + len(texts))
    assert (
        f"train: {share:.1%} of the pieces of text are unknown to the vocabulary; is the text" in caplog.text
    )


def test_wrong_arguments(pairs, tokenizer):
    too_short = r"`data.input_length` must be at least 4 for a row of text_a, text_b\. Received: .*=3"
    with pytest.raises(ValueError, match=too_short):
        classification(pairs, tokenizer, text_fields=("text_a", "text_b"), sequence_length=3)
    assert classification(pairs, tokenizer, 8, 4, 3, ("text_a", "text_b"))
    with pytest.raises(ValueError, match="`pack` must be False in evaluation"):
        text_to_text(pairs, tokenizer, pack=True)
    with pytest.raises(ValueError, match="A label must have `num_classes`, `names` or `threshold`"):
        classification(pairs, tokenizer, num_classes=None)


def test_some_of_the_examples(reviews, tokenizer):
    found = read_classification(Source(reviews), tokenizer, Label(num_classes=2), 24, keep_texts=True)
    few = found.take(np.array([5, 1]))
    assert len(few) == 2
    assert few.labels.tolist() == [found.labels[5], found.labels[1]]
    assert few.texts["text"] == [found.texts["text"][5], found.texts["text"][1]]
    assert few.columns[0].to_list() == [found.columns[0][i].numpy().tolist() for i in (5, 1)]
    assert few.lengths == found.lengths
