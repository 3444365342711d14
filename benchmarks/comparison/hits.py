"""Which test examples a fine-tuned model gets right."""

import tensorflow as tf

from convnlp.data import Source
from convnlp.data.schema import SEVERAL
from convnlp.models import QuestionAnswerer, Seq2SeqLM, TextClassifier
from convnlp.tasks import Classification, Fields, QuestionAnswering, TextToText, scores
from convnlp.tasks.text_to_text import greedy_predictions


def of_preset(plan, preset, dtype):
    """Returns the size of a model and its results on the test examples.

    Args:
        plan: `benchmarks.comparison.plan.Plan`.
        preset: str.
        dtype: str, the number type in which the model is run.

    Returns:
        dict: "parameters"; "multiply_adds" of an example of full length; "lengths" and "hits", lists of
        ints: the number of tokens of each example, and whether the model is right. For questions also
        "f1s", a list of floats.
    """
    data = plan.data
    model_cls, find = _BY_KIND[data.kind]
    model = model_cls.from_preset(preset, dtype=dtype)
    source = Source(plan.path(data.test_source), data.test_split)
    texts = tuple(filter(None, (data.text_field, data.second_text_field)))
    return {
        "parameters": model.count_params(),
        "multiply_adds": model.backbone.cost(data.length, data.target_length)["multiply_adds"],
        **find(model, source, texts, data.label_field, plan.batch_size),
    }


def _of_classes(classifier, source, texts, label, batch_size):
    task = Classification.from_model(classifier, source, Fields(texts, label))
    predict = tf.function(classifier, autograph=False)
    lengths, hits = [], []
    for batch in task.batches(task.read(source), batch_size):
        logits = predict({name: batch[name] for name in ("token_ids", "padding_mask")}).numpy()
        real = batch["weight"].numpy() > 0
        lengths += batch["padding_mask"].numpy().sum(1)[real].tolist()
        hits += (logits.argmax(1) == batch["label"].numpy())[real].astype(int).tolist()
    return {"lengths": lengths, "hits": hits}


def _of_texts(lm, source, texts, target, batch_size):
    """Counts exact matches, as `convnlp.tasks.text_to_text.text_to_text_scores` does."""
    found = TextToText.from_model(lm, source, Fields(texts, target=target)).read(source)
    inputs = tuple(found.texts[name] for name in texts)
    written = greedy_predictions(lm, inputs if len(inputs) > 1 else inputs[0], batch_size)
    hits = [
        int(scores.normalized(text) in map(scores.normalized, right.split(SEVERAL)))
        for text, right in zip(written, found.texts[target], strict=True)
    ]
    return {"lengths": found.columns[0].row_lengths().numpy().tolist(), "hits": hits}


def _of_answers(answerer, source, texts, answers, batch_size):
    """Counts SQuAD's exact matches of the model as it is exported: over all windows of a long text."""
    task = QuestionAnswering.from_model(answerer, source, Fields(texts, target=answers))
    found = task.read(source)
    each = task.scores_of_each(answerer, found, batch_size)
    return {
        "lengths": found.columns[0].row_lengths().numpy().tolist(),
        "hits": [int(value) for value in each["squad_exact_match"]],
        "f1s": each["squad_f1"],
    }


_BY_KIND = {
    "classification": (TextClassifier, _of_classes),
    "text_to_text": (Seq2SeqLM, _of_texts),
    "question_answering": (QuestionAnswerer, _of_answers),
}
