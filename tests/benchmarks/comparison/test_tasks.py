import pytest

from benchmarks.comparison.tasks import TASKS, named_task
from convnlp.data.source import Split


def test_a_task_without_a_validation_file_holds_a_tenth_out():
    data = named_task("trec6")
    assert data.source == data.test_source == "jsonl:{data_dir}/classification/trec6.{split}.jsonl.gz"
    assert (data.split, data.validation_split, data.test_split) == ("train[10%:]", "train[:10%]", "test")
    assert (len(data.label_names), data.length, data.validation_source) == (6, 32, "")


def test_pairs_have_two_texts_and_rte_is_tested_on_what_has_labels():
    data = named_task("rte")
    assert data.source == "jsonl:{data_dir}/pairs/rte.{split}.jsonl.gz"
    assert (data.text_field, data.second_text_field) == ("text_a", "text_b")
    assert (data.split, data.validation_split, data.test_split) == ("train[10%:]", "train[:10%]", "valid")


def test_phrases_are_trained_on_and_sentences_scored():
    data = named_task("sst2_phrases")
    assert data.source.endswith("/sst2_phrases.{split}.jsonl.gz")
    assert data.validation_source == data.test_source != data.source
    assert data.test_source.endswith("/sst2.{split}.jsonl.gz")


@pytest.mark.parametrize("name", TASKS)
def test_few_labels_are_none_of_those_to_validate_on(name):
    whole, few = named_task(name), named_task(f"{name}:100")
    assert few.validation_split == whole.validation_split
    chosen = set(range(*Split.parse(few.split).bounds(1000)))
    assert len(chosen) == 100
    assert chosen <= set(range(*Split.parse(whole.split).bounds(1000)))
    if whole.validation_split.startswith("train"):
        assert not chosen & set(range(*Split.parse(whole.validation_split).bounds(1000)))


@pytest.mark.parametrize("name", ["trec", "sst2:", "sst2:few", "sst2:0"])
def test_an_unknown_task_is_named(name):
    with pytest.raises(ValueError, match=rf"`--tasks` must be among trec6, sst2.*Received: '{name}'"):
        named_task(name)


def test_logical_forms_are_written():
    data = named_task("cogs")
    assert data.source == "jsonl:{data_dir}/seq2seq/cogs.{split}.jsonl.gz"
    assert (data.text_field, data.label_field, data.target_length) == ("inputs", "targets", 256)
    assert data.kind == "text_to_text"


def test_questions_are_answered_from_their_context():
    data = named_task("squad")
    assert data.source == data.test_source == "jsonl:{data_dir}/qa/squad_v1.{split}.jsonl.gz"
    assert (data.split, data.validation_split, data.test_split) == ("train", "valid", "test")
    assert (data.text_field, data.second_text_field, data.label_field) == ("question", "context", "answers")
    assert data.kind == "question_answering"


def test_settings_of_a_classification_name_nothing_of_other_kinds():
    """A field more in them would be another cell for everything that docs/paper.json has."""
    assert set(named_task("snli").settings()) == {
        *("source", "split", "validation_source", "validation_split", "test_source", "test_split"),
        *("text_field", "second_text_field", "label_field", "label_names", "length"),
    }
    assert named_task("cogs").settings()["kind"] == "text_to_text"
    assert named_task("squad").settings()["kind"] == "question_answering"
    assert "target_length" not in named_task("squad").settings()
