r"""Pre-trains a mini model on your own text, on a CPU: the earlier runs of docs/recipes.md.

    convnlp pretrain --config=pretrain_mini:dynamic_conv --workdir=DIR \
        --config.data.source='jsonl:PATH/*.jsonl.gz' --config.tokenizer=spm.model

It differs from the paper's recipe in what a small budget needs (docs/recipes.md): masked LM on the encoder
with span corruption, two decoder layers, and cross-attention that starts at W_q = 0.25 W_k. The argument is
the mixer, or a layout: `c_c_t_t`, or `cross_segment_attention` for pairs of texts. A mixer that cannot be
causal makes an encoder alone, pre-trained by masked LM alone.
"""

from convnlp.configs import common


def get_config(mixer="dynamic_conv"):
    """Args: mixer: a name of `convnlp.layers.MIXERS` or `convnlp.models.LAYOUTS`."""
    config = common.get_config()
    config.model.size = "mini"
    config.model.num_decoder_layers = 2
    common.set_kernels(config, mixer)
    config.model.dropout = 0.0
    config.model.cross_attention_init = "tied"

    config.data.input_length = 128
    config.data.validation_split = "train[:2%]"
    config.data.split = "train[2%:]"
    config.objective.names = ("span_corruption", "masked_lm")
    common.set_mixer(config, mixer)

    config.optimizer.name = "adamw"
    config.optimizer.schedule = "warmup_flat_linear"
    config.optimizer.learning_rate = 1.5e-3
    config.optimizer.warmup_steps = 200
    config.optimizer.clip_norm = 1.0

    config.train.batch_size = 32
    config.train.num_steps = 6000
    config.optimizer.decay_steps = 2500
    config.train.steps_per_call = 20
    config.train.eval_every = 500
    config.train.checkpoint_every = 500
    return config
