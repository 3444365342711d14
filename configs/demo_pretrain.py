"""Tries out pre-training: a tiny model on the documentation of the installed Python, in minutes.

    convnlp pretrain --config=demo_pretrain --workdir=DIR --config.tokenizer=spm.model

The first tenth of the text is reserved for tests.
"""

from convnlp.configs import pretrain_mini


def get_config():
    """The recipe of `pretrain_mini`, smaller and shorter."""
    config = pretrain_mini.get_config()
    config.model.size = "tiny"
    config.model.kernel_size = (7, 15)
    config.data.source = "pydocs"
    config.data.validation_split = "train[10%:12%]"
    config.data.split = "train[12%:]"
    config.optimizer.warmup_steps = 50
    config.optimizer.decay_steps = 200
    config.train.num_steps = 600
    config.train.eval_every = 200
    config.train.eval_batches = 10
    config.train.checkpoint_every = 200
    config.train.num_samples = 1
    return config
