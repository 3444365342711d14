r"""Fine-tunes an encoder on labelled texts, or on pairs of texts.

    python -m convnlp.finetune --config=configs/finetune_classification.py --workdir=DIR \
        --config.init_from=PRESET --config.data.source=jsonl:train.jsonl \
        --config.data.test_source=jsonl:test.jsonl

With `--config.init_from=` and `--config.tokenizer=spm.model` the same model is trained from random weights;
then `--config=configs/finetune_classification.py:fourier` names another mixer.
"""

from convnlp.configs import common


def get_config(mixer="dynamic_conv"):
    """The recipe for a few thousand to a few ten thousand examples.

    Args: mixer: a name of `convnlp.layers.MIXERS`; a preset to start from has its own.
    """
    config = common.get_config()
    config.model.size = "mini"
    config.model.mixer = mixer
    config.model.num_decoder_layers = 0
    common.set_kernels(config, mixer)
    config.model.dropout = 0.1

    config.data.split = "train"
    config.data.validation_split = ""  # a tenth of `split` is held out, see convnlp/data/validation.py
    config.data.test_split = "train"  # of `test_source`, a file of its own
    config.data.input_length = 128
    config.data.group_by_length = True

    config.optimizer.name = "adamw"
    config.optimizer.schedule = "warmup_linear"
    config.optimizer.learning_rate = 5e-4
    config.optimizer.warmup_steps = 0  # 0: a tenth of the steps
    config.optimizer.weight_decay = 0.01
    config.optimizer.clip_norm = 1.0

    config.train.batch_size = 32
    config.train.steps_per_call = 10
    config.task.num_epochs = None  # by the size of the data
    return config
