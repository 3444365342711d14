"""configs/finetune_paper.py: the paper's tasks, each form of each."""

import itertools

import pytest
import tensorflow_datasets as tfds

from convnlp import tasks
from convnlp.configs import finetune_paper
from convnlp.data import Source
from convnlp.models import Tokenizer
from tests import corpus

DATASETS = finetune_paper.DATASETS
OF_TFDS = {name: dataset for name, dataset in DATASETS.items() if dataset.source}


@pytest.mark.parametrize("name", OF_TFDS)
def test_the_fields_are_those_of_tfds(name):
    dataset = DATASETS[name]
    features = tfds.builder(dataset.source.removeprefix("tfds:")).info.features
    assert isinstance(features[dataset.text_field], tfds.features.Text)
    label = features[dataset.label_field]
    if isinstance(label, tfds.features.ClassLabel):
        # "neg" is "negative", "Sci/Tech" is "science", and so on: the order is what matters.
        assert [name[0].lower() for name in label.names] == [name[0] for name in dataset.label_names]
    else:
        assert dataset.label_threshold is not None


@pytest.mark.parametrize(("name", "form"), itertools.product(DATASETS, finetune_paper.FORMS))
def test_the_examples_of_each_form(name, form, tmp_path):
    if (name, form) == ("cogs", "class"):
        with pytest.raises(ValueError, match=r"for cogs text\. Received: 'cogs,class'"):
            finetune_paper.get_config(f"{name},{form}")
        return
    dataset, config = DATASETS[name], finetune_paper.get_config(f"{name},{form}")
    highest = dataset.label_threshold or len(dataset.label_names) - 1
    labels = ["a text", "another"] if name == "cogs" else [0, highest]
    rows = [{dataset.text_field: "the river", dataset.label_field: label} for label in labels]
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', rows)}")
    config.data.target_length = max(config.data.target_length, 40)  # of a vocabulary of letters
    task = tasks.build_task(config, Tokenizer(corpus.tiny_proto()), source)
    found = task.read(source)
    if form == "class":
        assert found.labels.tolist() == [0, len(dataset.label_names) - 1]
    else:
        names = (*dataset.label_names, *labels) if name == "cogs" else dataset.label_names
        assert found.texts[dataset.label_field] == [names[0], names[-1]]


def test_what_it_is_not_for():
    for argument in ("imdb", "mnli,text", "imdb,both"):
        with pytest.raises(ValueError, match="the argument must be TASK,FORM with a task of civil_comments"):
            finetune_paper.get_config(argument)
