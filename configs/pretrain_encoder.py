r"""Pre-trains an encoder alone, of size mini, by masked LM, for classifiers and embeddings.

    convnlp pretrain --config=pretrain_encoder:dynamic_conv --workdir=DIR \
        --config.data.source='jsonl:PATH/*.jsonl.gz' --config.tokenizer=spm.model

The steps have no decoder, so that nearly all of the time goes into what a classifier will use. The argument
is the mixer. Rows have 128 tokens, 4,096 tokens per step, 10M tokens in all; `benchmarks.pretraining.search`
compares these with other values.
"""

from convnlp.configs import common


def get_config(mixer="dynamic_conv"):
    """Args: mixer: a name of `convnlp.layers.MIXERS` or `convnlp.models.LAYOUTS`."""
    config = common.get_config()
    config.model.size = "mini"
    config.model.num_decoder_layers = 0
    config.model.mixer = mixer
    common.set_kernels(config, mixer)
    config.model.dropout = 0.0
    config.model.max_sequence_length = 512

    config.data.input_length = 128
    config.data.validation_split = "train[:2%]"
    config.data.split = "train[2%:]"
    config.objective.names = ("masked_lm",)

    config.optimizer.name = "adamw"
    config.optimizer.schedule = "warmup_linear"
    config.optimizer.learning_rate = 2e-3
    config.optimizer.weight_decay = 0.1
    config.optimizer.warmup_steps = 200
    config.optimizer.clip_norm = 1.0

    config.train.batch_size = 32
    config.train.num_steps = 2440  # 10M tokens
    config.train.steps_per_call = 20
    config.train.eval_every = 1220
    config.train.checkpoint_every = 1220
    config.train.num_samples = 0
    return config
