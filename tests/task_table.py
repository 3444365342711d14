"""Every task, with what its suite needs to know: a new one fails until it has a row."""

from convnlp.tasks import Fields
from tests import corpus

TEXTS = corpus.documents(7, seed=5)

TASK_TABLE = {
    "classification": {
        "records": [{"text": text, "label": i % 2} for i, text in enumerate(TEXTS)],
        "config": {"task.label_names": ("bad", "good")},
    },
    "text_to_text": {
        "records": [{"inputs": text, "targets": text[:9]} for text in TEXTS],
        "fields": Fields(texts=("inputs",), target="targets"),
    },
    "continuation": {"records": [{"text": text} for text in TEXTS]},
}
