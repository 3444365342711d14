r"""Pre-trains a mini encoder on your own text as a language model after a prefix.

    convnlp pretrain --config=pretrain_prefix_lm:dynamic_conv --workdir=DIR \
        --config.data.source='jsonl:PATH/*.jsonl.gz' --config.tokenizer=spm.model

It is a single stack without a decoder. It reads the prefix in both directions and the rest from the left
(UniLM; see `convnlp.layers.TokenMixer.call`); a fine-tuned classifier reads its whole text in both
directions. The argument is a mixer with supports_prefix.
"""

from convnlp.configs import pretrain_mini


def get_config(mixer="dynamic_conv"):
    """The recipe of `pretrain_mini`. Args: mixer: a name of `convnlp.layers.MIXERS`."""
    config = pretrain_mini.get_config(mixer)
    config.model.num_decoder_layers = 0
    config.objective.names = ("prefix_lm",)
    return config
