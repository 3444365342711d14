r"""A decoder on an encoder that is trained already, for models that write text.

    python -m convnlp.pretrain --config=configs/pretrain_decoder.py --workdir=DIR \
        --config.init_from=PRESET --config.data.source='jsonl:PATH/*.jsonl.gz'

Two layers of the encoder's mixer, by span corruption; masked LM beside it is to keep the encoder what it was
good for. A preset that has a decoder keeps it and is trained on.
"""

from convnlp.configs import pretrain_mini


def get_config():
    """No argument: the mixer is the preset's, and `config.model.decoder_mixer` names another one."""
    config = pretrain_mini.get_config()  # which trains a decoder of two layers
    config.optimizer.learning_rate = 1e-3
    config.optimizer.weight_decay = 0.1
    config.train.num_steps = 8000  # of 32 rows of 128 tokens
    config.train.num_samples = 0
    return config
