r"""Fine-tunes an encoder on labelled texts or pairs of texts: the default of `finetune` and `fit-head`.

    convnlp finetune --config.data.source=csv:train.csv --config.data.test_source=csv:test.csv \
        --workdir=DIR

starts from the preset that ships with the package; `--config.init_from=PRESET` selects another one.
`--config=finetune_classification:fourier --config.tokenizer=spm.model` trains that mixer from
random weights.
"""

from convnlp.configs import common


def get_config(mixer=""):
    """The recipe for a few thousand to a few ten thousand examples.

    Args: mixer: a name of `convnlp.layers.MIXERS`, for a model with random weights. Without one, the run
        starts from the shipped preset, which has its own.
    """
    config = common.get_config()
    config.init_from = "" if mixer else "dynamic_conv_mini_en"
    config.model.size = "mini"
    config.model.mixer = mixer or "dynamic_conv"
    config.model.num_decoder_layers = 0
    common.set_kernels(config, config.model.mixer)
    config.model.dropout = 0.1

    config.data.split = "train"
    config.data.validation_split = ""  # a tenth of `split` is held out, see convnlp/data/validation.py
    config.data.test_split = "train"  # of `test_source`, a file of its own
    # Follows the length of the texts; a model with random weights must know it before it is built.
    config.data.input_length = 128 if mixer else None
    config.data.group_by_length = True

    config.optimizer.name = "adamw"
    config.optimizer.schedule = "warmup_linear"
    config.optimizer.learning_rate = 5e-4
    config.optimizer.warmup_steps = 0  # means a tenth of the steps
    config.optimizer.weight_decay = 0.01
    config.optimizer.clip_norm = 1.0

    config.train.batch_size = 32
    config.train.steps_per_call = 10
    config.task.num_epochs = None  # by the size of the data
    return config
