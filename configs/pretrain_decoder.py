r"""Pre-trains a decoder on an encoder that is already trained, for models that write text.

    convnlp pretrain --config=pretrain_decoder --workdir=DIR \
        --config.init_from=PRESET --config.data.source='jsonl:PATH/*.jsonl.gz'

The decoder has two layers of the encoder's mixer and is trained by span corruption. The encoder and the
embedding stay the same, bit for bit, so that whatever was fine-tuned or measured with them still holds, and
the backward pass ends in the decoder. `--config.objective.freeze_encoder=false` trains them too, preferably
with masked LM: `--config.objective.names="('span_corruption', 'masked_lm')"`. If the preset has a decoder, it
is kept and trained further.
"""

from convnlp.configs import pretrain_mini


def get_config():
    """Takes no argument: the mixer is the preset's; `config.model.decoder_mixer` selects another one."""
    config = pretrain_mini.get_config()  # has a decoder of two layers
    config.model.decoder_kernel_size = (15, 31)  # 45 tokens: all of a usual target
    config.objective.names = ("span_corruption",)
    config.objective.freeze_encoder = True
    config.optimizer.learning_rate = 2e-3
    config.optimizer.weight_decay = 0.1
    config.train.num_steps = 8000  # of 32 rows of 128 tokens
    config.optimizer.decay_steps = 3000
    config.train.num_samples = 0
    return config
