r"""A mini encoder on your own text, pre-trained as a language model behind a prefix.

    python -m convnlp.pretrain --config=configs/pretrain_prefix_lm.py:dynamic_conv --workdir=DIR \
        --config.data.source='jsonl:PATH/*.jsonl.gz' --config.tokenizer=spm.model

One stack without a decoder. It reads the prefix from both sides and the rest from the left (UniLM; see
`convnlp.layers.TokenMixer.call`); a fine-tuned classifier reads its whole text from both sides. The argument
is a mixer with supports_prefix.
"""

from convnlp.configs import pretrain_mini


def get_config(mixer="dynamic_conv"):
    """The recipe of `pretrain_mini`. Args: mixer: a name of `convnlp.layers.MIXERS`."""
    config = pretrain_mini.get_config(mixer)
    config.model.num_decoder_layers = 0
    config.objective.names = ("prefix_lm",)
    return config
