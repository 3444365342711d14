r"""Fine-tunes the shipped preset on pairs of texts, to rewrite, correct or name texts.

    convnlp finetune --config=finetune_text_to_text --workdir=DIR \
        --config.data.source=csv:train.csv --config.task.input_field=before --config.task.target_field=after

starts from the preset that ships with the package. `--config.init_from=PRESET` selects another one; it gets a
decoder of two layers if it has none.
"""

from convnlp.configs import common


def get_config():
    """The recipe for a few thousand to a few ten thousand pairs."""
    config = common.get_config()
    config.init_from = "dynamic_conv_mini_en"
    config.model.num_decoder_layers = 2
    config.model.decoder_kernel_size = (15, 31)
    config.model.dropout = 0.1
    config.model.cross_attention_init = "tied"

    config.data.split = "train"
    config.data.validation_split = ""  # a tenth of `split` is held out, see convnlp/data/validation.py
    config.data.test_split = "train"  # of `test_source`, a file of its own
    config.data.input_length = 128
    config.data.target_length = 128

    config.optimizer.name = "adamw"
    config.optimizer.schedule = "warmup_linear"
    config.optimizer.learning_rate = 1e-3
    config.optimizer.warmup_steps = 0  # means a tenth of the steps
    config.optimizer.weight_decay = 0.01
    config.optimizer.clip_norm = 1.0

    config.train.batch_size = 32
    config.train.steps_per_call = 10
    config.task.kind = "text_to_text"
    config.task.num_epochs = None  # by the size of the data
    return config
