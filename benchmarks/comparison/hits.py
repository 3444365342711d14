"""Which test examples a fine-tuned model gets right."""

from convnlp.data import Source
from convnlp.tasks import TASKS


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
    model = TASKS[data.kind].model_cls.from_preset(preset, dtype=dtype)
    source = Source(plan.path(data.test_source), data.test_split)
    texts = tuple(filter(None, (data.text_field, data.second_text_field)))
    return {
        "parameters": model.count_params(),
        "multiply_adds": model.backbone.cost(data.length, data.target_length)["multiply_adds"],
        **data.task_kind.hits(model, source, texts, data.label_field, plan.batch_size),
    }
