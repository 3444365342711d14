r"""Pre-trains the shipped encoders of size mini: 500M tokens of masked LM.

    convnlp pretrain --config=pretrain_mini_en:dynamic_conv --workdir=DIR \
        --config.data.source='jsonl:MIXTURE/mixture*.{split}.jsonl.gz' --config.tokenizer=spm.model

The argument is the mixer. docs/recipes.md says what was tried before. The rate is flat until the last fifth,
so that a run can be judged, extended or ended on the way; an average of the weights is evaluated.
"""

from convnlp.configs import pretrain_encoder


def get_config(mixer="dynamic_conv"):
    """Args: mixer: a name of `convnlp.layers.MIXERS` or `convnlp.models.LAYOUTS`."""
    config = pretrain_encoder.get_config(mixer)
    config.data.split = "train"
    config.data.validation_split = "valid"
    config.objective.noise_density = 0.25

    config.optimizer.schedule = "warmup_flat_linear"
    config.optimizer.learning_rate = 3e-3
    config.optimizer.warmup_steps = 1200
    config.optimizer.decay_steps = 12_200
    config.optimizer.ema_momentum = 0.999

    config.train.batch_size = 64  # rows of 128 tokens
    config.train.num_steps = 61_000
    config.train.eval_every = 1000
    config.train.checkpoint_every = 500
    config.train.keep_checkpoints = 2
    return config
