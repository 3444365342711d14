r"""Pre-trains a mini encoder on your own text by UniLM's masked language models in four directions.

    convnlp pretrain --config=pretrain_unilm:dynamic_conv --workdir=DIR \
        --config.data.source='jsonl:PATH/*.jsonl.gz' --config.tokenizer=spm.model

A batch is read in both directions (a third of the time), as source and target (a third), from left to right
or from right to left (a sixth each). The result is an encoder, like that of `configs/pretrain_encoder.py`.
The argument is a mixer with supports_prefix and supports_right_to_left.
"""

from convnlp.configs import pretrain_encoder


def get_config(mixer="dynamic_conv"):
    """The recipe of `pretrain_encoder`. Args: mixer: a name of `convnlp.layers.MIXERS`."""
    config = pretrain_encoder.get_config(mixer)
    config.objective.names = ("unilm",)
    return config
