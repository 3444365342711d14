r"""Fine-tunes a model to answer questions with a part of a text, as in SQuAD.

    convnlp finetune --config=finetune_squad --workdir=DIR \
        --config.data.source='jsonl:squad_v1.{split}.jsonl.gz' --config.data.validation_split=valid

Records have "question", "context" and "answers", a list of acceptable answers. It starts from the preset that
ships with the package; `--config.init_from=PRESET` selects another one, and
`finetune_squad.py:self_attention --config.tokenizer=spm.model` trains that mixer from random weights.
"""

from convnlp.configs import finetune_classification


def get_config(mixer=""):
    """The recipe of `finetune_classification`, with a summary of the question beside the context.

    Args: mixer: as there. A mixer that relates question and context by itself, such as self_attention, does
        not need the summary: `--config.task.options.question_summary=False`.
    """
    config = finetune_classification.get_config(mixer)
    config.task.kind = "question_answering"
    config.task.options.question_summary = True
    config.task.head_dropout = 0.1
    if mixer:
        config.data.input_length = 384  # per row; longer contexts are read in windows
    return config
