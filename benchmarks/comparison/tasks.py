"""The tasks: public data sets by name, in the files of --data_dir, or any other source."""

import dataclasses

from benchmarks.comparison.task_kinds import KINDS

_NLI = ("entailment", "neutral", "contradiction")
_PAIR = {"folder": "pairs", "text_field": "text_a", "second_text_field": "text_b"}
_TEXT_TO_TEXT = {
    "folder": "seq2seq",
    "kind": "text_to_text",
    "label_names": (),
    "text_field": "inputs",
    "label_field": "targets",
}
_HELD_OUT = {"split": "train[10%:]", "validation_split": "train[:10%]"}  # for sets without a validation file
# Fields of `Data`, the folder, and `train_file` and `file` if they are not named after the task.
TASKS = {
    "trec6": {
        "label_names": ("abbreviation", "description", "entity", "human", "location", "number"),
        "length": 32,
        **_HELD_OUT,
    },
    "sst2": {"label_names": ("negative", "positive"), "length": 48},
    "sst2_phrases": {
        "label_names": ("negative", "positive"),
        "length": 48,
        "train_file": "sst2_phrases",
        "file": "sst2",
    },
    "sst5": {
        "label_names": ("very negative", "negative", "neutral", "positive", "very positive"),
        "length": 48,
    },
    "ag_news": {"label_names": ("world", "sports", "business", "science"), "length": 64},
    "imdb": {"label_names": ("negative", "positive"), "length": 256, **_HELD_OUT},
    "jigsaw_toxicity": {"label_names": ("fine", "toxic"), "length": 64},
    "sentiment140": {"label_names": ("negative", "positive"), "length": 48},
    "sick": {"label_names": _NLI, "length": 48, **_PAIR},
    "snli": {"label_names": _NLI, "length": 48, **_PAIR},
    "mnli": {"label_names": _NLI, "length": 80, **_PAIR},
    # Its test labels are not public, so the published validation data serve as test data.
    "rte": {
        "label_names": ("entailment", "not entailment"),
        "length": 128,
        "test_split": "valid",
        **_PAIR,
        **_HELD_OUT,
    },
    # About four examples per row.
    "cogs": {"length": 64, "target_length": 256, **_TEXT_TO_TEXT},
    "cogs_variable_free": {"length": 48, "target_length": 80, **_TEXT_TO_TEXT},
    # The test data are SQuAD's official development set. Longer paragraphs are read in windows.
    "squad": {
        "file": "squad_v1",
        "train_file": "squad_v1",
        "folder": "qa",
        "kind": "question_answering",
        "label_names": (),
        "length": 256,
        "text_field": "question",
        "second_text_field": "context",
        "label_field": "answers",
    },
}


@dataclasses.dataclass(frozen=True)
class Data:
    """A task: texts or pairs of texts, each with a class, or with a text to be written or found.

    Args:
        source: str, see `convnlp.data.sources`.
        split: str, the split to train on.
        validation_split: str, the split by which the best step is chosen.
        test_source: str, the source that is scored.
        test_split: str.
        label_names: tuple of str; empty for a source that names its own.
        length: int, tokens of a text or pair; longer ones are truncated.
        text_field: str; for questions, the field of the question.
        label_field: str, the field of the class, the text to be written, or the correct answers.
        second_text_field: str, the field of the second text of a pair, or of the text that answers a
            question; "" for none.
        validation_source: str, the source of `validation_split`; "" for `source`.
        kind: str, one of `benchmarks.comparison.task_kinds.KINDS`.
        target_length: int, tokens of a text to be written.
    """

    source: str
    split: str
    validation_split: str
    test_source: str
    test_split: str
    label_names: tuple
    length: int
    text_field: str = "text"
    label_field: str = "label"
    second_text_field: str = ""
    validation_source: str = ""
    kind: str = "classification"
    target_length: int = 0

    @property
    def task_kind(self):
        """The `TaskKind` that `kind` names."""
        return KINDS[self.kind]

    def settings(self):
        """Returns what affects a result: the fields, without those of the other kinds."""
        fields = dataclasses.asdict(self)
        return {name: value for name, value in fields.items() if name not in self.task_kind.left_out}


def named_task(name):
    """Returns the `Data` of a name in `TASKS`, or of `NAME:COUNT`, the same with COUNT labelled examples.

    The examples are the first of the training file, or the last if the first are the validation data. The
    sources contain the placeholder `{data_dir}`, see `benchmarks.comparison.plan.Plan`.

    Raises:
        ValueError: if there is no such task, or COUNT is not a number above 0.

    Example:
    >>> data = named_task("ag_news:1000")
    >>> data.source, data.split
    ('jsonl:{data_dir}/classification/ag_news.{split}.jsonl.gz', 'train[:1000]')
    """
    task, colon, count = name.partition(":")
    if task not in TASKS or (colon and not count.isdigit()) or count == "0":
        raise ValueError(
            f"`--tasks` must be among {', '.join(TASKS)}, or NAME:COUNT for fewer labels. Received: {name!r}"
        )
    given = {"split": "train", "validation_split": "valid", "test_split": "test", **TASKS[task]}
    folder = f"jsonl:{{data_dir}}/{given.pop('folder', 'classification')}"
    file, train_file = given.pop("file", task), given.pop("train_file", task)
    sources = [f"{folder}/{each}.{{split}}.jsonl.gz" for each in (train_file, file)]
    if count:
        given["split"] = f"train[:{count}]" if given["split"] == "train" else f"train[-{count}:]"
    if train_file != file:
        given["validation_source"] = sources[1]
    return Data(source=sources[0], test_source=sources[1], **given)
