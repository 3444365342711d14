"""Every task, with what its suite needs to know: a new one fails until it has a row."""

from convnlp.tasks import Fields
from tests import corpus

TEXTS = corpus.documents(7, seed=5)

TASK_TABLE = {
    "classification": {
        "records": [{"text": text, "label": i % 2} for i, text in enumerate(TEXTS)],
        "config": {"task.label_names": ("bad", "good")},
    },
    "multi_label": {
        "records": [
            {"text": text, "label": [name for bit, name in enumerate("abc") if i >> bit & 1]}
            for i, text in enumerate(TEXTS)
        ],
    },
    "regression": {"records": [{"text": text, "label": 100 + 10 * i} for i, text in enumerate(TEXTS)]},
    "question_answering": {
        # Contexts of several windows; one answer, several of them, and one that stands nowhere.
        "records": [
            {
                "question": text[:9],
                "context": f"{text} {text}",
                "answers": answers,
            }
            for text, answers in zip(
                TEXTS,
                [["none", "the"], ["the"], "The", ["The", "the"], ["old.", "."], ["the", "."], ["none"]],
                strict=True,
            )
        ],
        "config": {"task.options.max_answer_length": 3, "task.options.stride": 4},
        "fields": Fields(texts=("question", "context"), target="answers"),
    },
    "text_to_text": {
        "records": [{"inputs": text, "targets": text[:9]} for text in TEXTS],
        "fields": Fields(texts=("inputs",), target="targets"),
    },
    "continuation": {"records": [{"text": text} for text in TEXTS]},
}

# A further row for a task: two input texts.
TEXT_PAIR_TO_TEXT = {
    "records": [{"question": text[:9], "passage": text, "answer": text[4:12]} for text in TEXTS],
    "config": {
        "task.input_field": "question",
        "task.second_text_field": "passage",
        "task.target_field": "answer",
    },
    "fields": Fields(texts=("question", "passage"), target="answer"),
}
