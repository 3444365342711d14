"""The fine-tuning of `make demo`: which package does a docstring belong to?

    python -m convnlp.finetune --config=configs/demo_finetune.py --workdir=DIR --config.init_from=PRESET

From random weights: `--config.tokenizer=spm.model` in place of `--config.init_from=PRESET`.
"""

from convnlp.configs import finetune_classification

SOURCE = "pydocs:8"
TEST_SPLIT = "train[:10%]"  # neither pre-trained on nor fine-tuned on


def get_config():
    """The recipe of `finetune_classification` at the demo's size, with few examples."""
    config = finetune_classification.get_config()
    config.model.size = "tiny"
    config.model.kernel_size = (7, 15)
    config.data.source = SOURCE
    config.data.validation_split = "train[10%:15%]"
    config.data.split = "train[15%:35%]"
    config.task.num_epochs = 5.0
    return config
