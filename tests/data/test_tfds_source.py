"""TFDS data sets written by our program and read back by TFDS's own code and by ours."""

import itertools
import os
import signal

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from convnlp import prepare_tfds
from convnlp.data import Label, Number, Shard, Source, SourceError, pretraining, sources
from convnlp.data.schema import Group
from convnlp.training import run_lock
from tests import corpus

TEXTS = corpus.documents(60)
ROWS = corpus.reviews(20)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfds")
    documents = corpus.write_jsonl(folder / "documents.jsonl.gz", [{"text": text} for text in TEXTS])
    reviews = corpus.write_jsonl(folder / "reviews.jsonl", ROWS)
    splits = {"train": "train[:50]", "validation": "train[50:]"}
    prepare_tfds.prepare(f"jsonl:{documents}", "c4/en:3.1.0", str(folder), splits)
    prepare_tfds.prepare(
        f"jsonl:{reviews}", "reviews:1.0.0", str(folder), {"test": "train"}, label_field="label"
    )
    return str(folder)


def texts(name, split="train", data_dir=None, **kwargs):
    examples = sources.read(Source(name, split, data_dir), **kwargs)
    return [example["text"].decode() for example in examples.as_numpy_iterator()]


def test_tfds_reads_it_as_c4(data_dir):
    builder = tfds.builder("c4/en", data_dir=data_dir)
    assert type(builder).__module__ == "tensorflow_datasets.text.c4"
    examples = list(tfds.load("c4/en", split="train", data_dir=data_dir, download=False).as_numpy_iterator())
    assert [example["text"].decode() for example in examples] == TEXTS[:50]
    assert examples[0].keys() == {"text", "url", "content-type", "content-length", "timestamp"}
    assert examples[0]["url"] == b""


def test_the_source_reads_it(data_dir):
    assert texts("tfds:c4/en", "train", data_dir=data_dir) == TEXTS[:50]
    assert texts("tfds:c4/en", "validation[:50%]", data_dir=data_dir) == TEXTS[50:55]
    shards = [texts("tfds:c4/en", data_dir=data_dir, shard=Shard(3, i)) for i in range(3)]
    assert sorted(itertools.chain.from_iterable(shards)) == sorted(TEXTS[:50])


def test_labels(data_dir):
    reviews = Source("tfds:reviews", "test", data_dir)
    assert sources.label_names(reviews) == ("0", "1")
    found = list(sources.read(reviews, label=Label(num_classes=2)).as_numpy_iterator())
    assert [{"text": e["text"].decode(), "label": e["label"]} for e in found] == ROWS
    turned = sources.read(reviews, label=Label(names=("1", "0")))  # by the names that TFDS stores
    assert [1 - example["label"] for example in turned.as_numpy_iterator()] == [row["label"] for row in ROWS]
    own = sources.read(reviews, label=Label(names=("fine", "bad")))  # in the order of those
    assert [example["label"] for example in own.as_numpy_iterator()] == [row["label"] for row in ROWS]
    groups = sources.read(reviews, (), Group("label")).as_numpy_iterator()
    assert [example["label"].decode() for example in groups] == [str(row["label"]) for row in ROWS]
    with pytest.raises(SourceError, match="tfds:reviews: text must be a ClassLabel"):
        sources.label_names(reviews, "text")
    numbers = list(sources.read(reviews, label=Number()).as_numpy_iterator())
    assert [(e["label"], e["label"].dtype.name) for e in numbers] == [(r["label"], "float32") for r in ROWS]


def test_the_classes_are_those_of_the_whole_split(tmp_path):
    rows = [{"text": "A fine day.", "label": label} for label in "aabb"]  # sorted by class
    source = f"jsonl:{corpus.write_jsonl(tmp_path / 'days.jsonl', rows)}"
    splits = {"validation": "train[:25%]", "train": "train[25%:]"}
    prepare_tfds.prepare(source, "days:1.0.0", str(tmp_path), splits, label_field="label")
    assert sources.label_names(Source("tfds:days", "validation", str(tmp_path))) == ("a", "b")


def test_pretraining_reads_it_and_goes_on_after_a_restart(data_dir, tokenizer, tmp_path):
    dataset = pretraining.batches(
        Source("tfds:c4/en", data_dir=data_dir),
        tokenizer,
        row_length=16,
        examples=lambda tokens, seed, shared_seed: {"token_ids": tokens},
        batch_size=2,
        seed=3,
        shuffle_buffer=10,
    )
    iterator, again = iter(dataset), iter(dataset)
    for _ in range(40):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(iterator=again).read(path)
    assert next(again)["token_ids"].numpy().tolist() == next(iterator)["token_ids"].numpy().tolist()


@pytest.mark.parametrize(
    ("source", "split", "fields", "message"),
    [
        ("tfds:c4/en", "test", ("text",), r"cannot read split 'test' \(available: train, validation\)"),
        (
            "tfds:c4/en",
            "train",
            ("body",),
            r"has no field 'body' \(available: content-length, .*, text, timestamp, url\)",
        ),
        ("tfds:reviews", "test", ("label",), "tfds:reviews: label must be a text"),
        (
            "tfds:glue/sst2",
            "train",
            ("sentence",),
            "is not prepared in .*; prepare it .* by `tfds build glue",
        ),
        ("tfds:no_such_set", "train", ("text",), "TFDS has no data set with this name"),
        ("tfds:c4/nowhere", "train", ("text",), "TFDS has no data set with this name, config and version"),
    ],
)
def test_what_is_missing_is_named(data_dir, source, split, fields, message):
    with pytest.raises(SourceError, match=message) as caught:
        sources.read(Source(source, split, data_dir), fields)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    """A data set with a list of texts, and a text that is a class."""
    folder = tmp_path_factory.mktemp("lists")
    rows = {"words": tf.ragged.constant([["a", "b"], ["c"]]), "class": ["good", "süß"]}
    features = {"words": tfds.features.Sequence(tfds.features.Text()), "class": tfds.features.Text()}
    tfds.dataset_builders.store_as_tfds_dataset(
        name="lists",
        version="1.0.0",
        features=tfds.features.FeaturesDict(features),
        split_datasets={"train": tf.data.Dataset.from_tensor_slices(rows)},
        data_dir=folder,
        disable_shuffling=True,
    )
    return Source("tfds:lists", data_dir=str(folder))


def test_a_list_of_texts_is_not_a_text(lists):
    with pytest.raises(SourceError, match=r"tfds:lists: words must be a text\. Received: Sequence\(Text"):
        sources.read(lists, ("words",))


def test_a_text_can_be_a_class(lists):
    found = sources.read(lists, ("class",), Label("class", names=("süß", "good")))
    assert sorted((e["class"].decode(), e["label"]) for e in found.as_numpy_iterator()) == [
        ("good", 1),
        ("süß", 0),
    ]
    with pytest.raises(Exception, match="class 'good' is not one of the 2 classes"):
        list(sources.read(lists, ("class",), Label("class", names=("süß", "bad"))))


def test_a_data_set_is_never_written_over_or_by_half(data_dir, tmp_path, monkeypatch):
    source = "jsonl:" + corpus.write_jsonl(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(ValueError, match=r"3\.1\.0 already exists: remove it first"):
        prepare_tfds.prepare(source, "c4/en:3.1.0", data_dir, {"train": "train"})
    with open(tmp_path / "a.jsonl", "a") as file:
        file.write("broken\n")
    with pytest.raises(SourceError, match="line 21: not JSON"):
        prepare_tfds.prepare(source, "broken:1.0.0", str(tmp_path / "out"), {"train": "train"})
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(sources, "CHECKED_BYTES", 1)  # a row that is too far behind to be looked at first
    with pytest.raises(Exception, match="line 21: not JSON"):
        prepare_tfds.prepare(source, "broken:1.0.0", str(tmp_path / "out"), {"train": "train"})
    assert os.listdir(tmp_path / "out") == []


def test_a_data_set_that_another_run_has_written_meanwhile_stays(tmp_path, monkeypatch):
    final, store = tmp_path / "out" / "new" / "1.0.0", tfds.dataset_builders.store_as_tfds_dataset

    def store_and_be_late(**arguments):
        store(**arguments)
        final.mkdir(parents=True)
        (final / "dataset_info.json").write_text("of the other")

    monkeypatch.setattr(tfds.dataset_builders, "store_as_tfds_dataset", store_and_be_late)
    source = "jsonl:" + corpus.write_jsonl(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(OSError, match="not empty"):
        prepare_tfds.prepare(source, "new:1.0.0", str(tmp_path / "out"), {"train": "train"})
    assert os.listdir(final) == ["dataset_info.json"]
    assert os.listdir(tmp_path / "out") == ["new"]


def test_nothing_is_left_of_a_run_that_was_stopped_or_killed(tmp_path, monkeypatch):
    source, out = "jsonl:" + corpus.write_jsonl(tmp_path / "a.jsonl", ROWS), tmp_path / "out"

    def prepare():
        prepare_tfds.prepare(source, "new/a:1.0.0", str(out), {"train": "train"})

    with monkeypatch.context() as patch:
        stop = lambda **_: os.kill(os.getpid(), signal.SIGTERM)  # noqa: E731
        patch.setattr(tfds.dataset_builders, "store_as_tfds_dataset", stop)
        with pytest.raises(SystemExit, match="143"):
            prepare()
    assert os.listdir(out) == []
    killed = out / ".partial-new-a-1.0.0"
    (killed / "new" / "a").mkdir(parents=True)
    (killed / "new" / "a" / "half").touch()
    (killed / "run.lock").touch()
    lock = run_lock.FileLock(str(killed / "run.lock"))  # of a process that is still at work
    with pytest.raises(run_lock.LockedError, match="`data_dir` must be a directory that no other process"):
        prepare()
    assert (killed / "new" / "a" / "half").exists()
    lock.release()
    prepare()
    assert os.listdir(out) == ["new"]
    assert len(texts("tfds:new/a", data_dir=str(out))) == len(ROWS)


@pytest.mark.parametrize(
    "name",
    ["c4", "c4/en", "c4/en:3", "../c4:1.0.0", "", "c4/..:3.1.0", "MySet:1.0.0", "1set:1.0.0", "süß:1.0.0"],
)
def test_a_name_that_tfds_could_not_read_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="`name` must be NAME:VERSION or NAME/CONFIG:VERSION"):
        prepare_tfds.prepare("pydocs", name, str(tmp_path), {"train": "train"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"splits": {}}, r"`splits` must have names .* Received: none"),
        ({"splits": {"train": "train", "all": "train"}}, "`splits` must have names .* 'train', 'all'"),
        ({"splits": {"train-a": "train"}}, "`splits` must have names .* Received: 'train-a'"),
        ({"data_dir": "gs://bucket/tfds"}, r"`data_dir` must be a path on this machine"),
        ({"name": "c4/en:3.1.0", "fields": ("url", "title")}, "of c4 must be among text, .*Received: title"),
        ({"fields": ("text", "label")}, "`label_field` must not be one of `text_fields`.* Received: label"),
        ({"fields": ("label",), "label_field": "text"}, "must not be called 'label' if a label is read"),
    ],
)
def test_what_could_not_be_written_or_read_is_refused_at_once(tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    source = "jsonl:" + corpus.write_jsonl(tmp_path / "a.jsonl", corpus.reviews(4))
    usual = {"name": "new:1.0.0", "data_dir": "out", "splits": {"train": "train"}, "label_field": "label"}
    with pytest.raises(ValueError, match=message):
        prepare_tfds.prepare(source, **{**usual, **changes})
    assert os.listdir(tmp_path) == ["a.jsonl"]
