"""The architectures: one token mixer a file."""

import inspect

from convnlp.layers.mixers.dilated_conv import DilatedConv
from convnlp.layers.mixers.dynamic_conv import DynamicConv
from convnlp.layers.mixers.lightweight_conv import LightweightConv
from convnlp.layers.mixers.self_attention import SelfAttention

MIXERS = {
    "lightweight_conv": LightweightConv,
    "dynamic_conv": DynamicConv,
    "dilated_conv": DilatedConv,
    "self_attention": SelfAttention,
}

# What a model offers to every mixer of every layer; each takes what it has a use for.
SHARED_ARGUMENTS = {
    "hidden_dim",
    "num_heads",
    "kernel_size",
    "dilation_rate",
    "weight_softmax",
    "max_sequence_length",
    "dropout",
    "causal",
    "output_init_scale",
}


def build_mixer(name, **config):
    """Makes the mixer of that name from a model's configuration.

    Args:
        name: str, a key of `MIXERS`.
        **config: the arguments that all mixers share, of which the mixer takes those its constructor names
            and leaves its own default where the value is None; arguments of its own, which its constructor
            must name; and `dtype`.

    Returns:
        A `TokenMixer`.

    Raises:
        ValueError: if the name or an argument is unknown.

    Example:
    >>> build_mixer("dilated_conv", hidden_dim=8, num_heads=2, kernel_size=5).cost(4)["parameters"]
    40
    """
    if name not in MIXERS:
        raise ValueError(f"`mixer` must be one of {', '.join(MIXERS)}. Received: {name!r}")
    accepted = set(inspect.signature(MIXERS[name]).parameters) - {"kwargs"}
    unknown = sorted(set(config) - accepted - SHARED_ARGUMENTS - {"dtype"})
    if unknown:
        raise ValueError(
            f"mixer {name!r} has no argument `{unknown[0]}`; it accepts {', '.join(sorted(accepted))}. "
            f"Received: {unknown[0]}={config[unknown[0]]!r}"
        )
    taken = {
        key: value
        for key, value in config.items()
        if key == "dtype" or (key in accepted and not (value is None and key in SHARED_ARGUMENTS))
    }
    return MIXERS[name](**taken, name=name)
