r"""Classifies long documents with CoAtNet's layout: convolutions, then attention on a quarter of the length.

    convnlp finetune --config=finetune_long_documents --workdir=DIR \
        --config.tokenizer=spm.model --config.data.source=jsonl:train.jsonl \
        --config.data.test_source=jsonl:test.jsonl

It starts from random weights; with `--config.init_from=PRESET`, it fine-tunes the preset's own model.
Positions are merged in pairs before the second and the third layer, so that both attention layers see 512 of
2048 positions.
"""

from convnlp.configs import finetune_classification


def get_config():
    """The recipe of `finetune_classification` on 2048 tokens."""
    config = finetune_classification.get_config("c_c_t_t")
    config.model.kernel_size = (7,)
    config.model.pool_size = (1, 2, 2, 1)
    config.data.input_length = 2048
    config.train.batch_size = 16
    return config
