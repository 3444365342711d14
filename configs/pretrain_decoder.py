r"""A decoder on an encoder that is trained already, for models that write text.

    python -m convnlp.pretrain --config=configs/pretrain_decoder.py --workdir=DIR \
        --config.init_from=PRESET --config.data.source='jsonl:PATH/*.jsonl.gz'

Two layers of the encoder's mixer, by span corruption. The encoder and the embedding stay as they are, bit for
bit, so that what was fine-tuned or measured with them holds, and the backward pass ends in the decoder. With
`--config.objective.freeze_encoder=false` they are trained too, best with masked LM beside it:
`--config.objective.names="('span_corruption', 'masked_lm')"`. A preset that has a decoder keeps it and is
trained on.
"""

from convnlp.configs import pretrain_mini


def get_config():
    """No argument: the mixer is the preset's, and `config.model.decoder_mixer` names another one."""
    config = pretrain_mini.get_config()  # which has a decoder of two layers
    config.model.decoder_kernel_size = (15, 31)  # 45 tokens: all of a usual target
    config.objective.names = ("span_corruption",)
    config.objective.freeze_encoder = True
    config.optimizer.learning_rate = 2e-3
    config.optimizer.weight_decay = 0.1
    config.train.num_steps = 8000  # of 32 rows of 128 tokens
    config.optimizer.decay_steps = 3000
    config.train.num_samples = 0
    return config
