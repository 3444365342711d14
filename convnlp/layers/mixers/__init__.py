"""The architectures: one token mixer per file."""

import inspect

import keras

from convnlp import tables
from convnlp.layers.mixers.conv_s2s import ConvS2S
from convnlp.layers.mixers.dilated_conv import DilatedConv
from convnlp.layers.mixers.dynamic_conv import DynamicConv
from convnlp.layers.mixers.external_attention import ExternalAttention
from convnlp.layers.mixers.feed_forward_stack import FeedForwardStack
from convnlp.layers.mixers.focal_attention import FocalAttention
from convnlp.layers.mixers.fourier import FourierMixing
from convnlp.layers.mixers.gated_dilated_conv import GatedDilatedConv
from convnlp.layers.mixers.gated_long_conv import GatedLongConv
from convnlp.layers.mixers.latent_attention import LatentAttention
from convnlp.layers.mixers.lightweight_conv import LightweightConv
from convnlp.layers.mixers.linear_attention import LinearAttention
from convnlp.layers.mixers.linformer import Linformer
from convnlp.layers.mixers.local_attention import LocalAttention
from convnlp.layers.mixers.matrix_decomposition import MatrixDecomposition
from convnlp.layers.mixers.mb_conv import MBConv
from convnlp.layers.mixers.mlp_mixer import MLPMixer
from convnlp.layers.mixers.muse import Muse
from convnlp.layers.mixers.outlook_attention import OutlookAttention
from convnlp.layers.mixers.relative_attention import RelativeAttention
from convnlp.layers.mixers.res_mlp import ResMLP
from convnlp.layers.mixers.self_attention import SelfAttention
from convnlp.layers.mixers.spatial_gating import SpatialGating
from convnlp.layers.mixers.synthesizer import Synthesizer
from convnlp.layers.token_mixer import TokenMixer

MIXERS = {
    cls.name: cls
    for cls in (
        LightweightConv,
        DynamicConv,
        DilatedConv,
        SelfAttention,
        GatedDilatedConv,
        ConvS2S,
        LocalAttention,
        FocalAttention,
        Muse,
        MBConv,
        RelativeAttention,
        Synthesizer,
        FourierMixing,
        SpatialGating,
        MLPMixer,
        FeedForwardStack,
        ResMLP,
        OutlookAttention,
        ExternalAttention,
        Linformer,
        LinearAttention,
        LatentAttention,
        GatedLongConv,
        MatrixDecomposition,
    )
}

# The arguments that a model offers to every mixer; each mixer takes those that its constructor names.
SHARED_ARGUMENTS = {
    "hidden_dim",
    "intermediate_dim",
    "num_heads",
    "kernel_size",
    "dilation_rate",
    "weight_softmax",
    "max_sequence_length",
    "dropout",
    "causal",
    "output_init_scale",
}


def require_mixer(argument, name, others=()):
    """Raises ValueError unless `name`, the value of an argument, is a key of `MIXERS`.

    Args:
        argument: str.
        name: str.
        others: names that may stand there too, such as those of layouts, for the message.
    """
    if name not in MIXERS:
        raise ValueError(
            f"`{argument}` must be one of {', '.join([*MIXERS, *others])}, or be registered first with "
            f"`register_mixer` (in a program by --modules). Received: {argument}={name!r}"
        )


def build_mixer(name, **config):
    """Builds the mixer of that name from a model's configuration.

    Args:
        name: str, a key of `MIXERS`.
        **config: arguments shared by all mixers, of which the mixer takes those that its constructor names
            (None keeps its own default); its own arguments, which its constructor must name; and `dtype`.

    Returns:
        A `TokenMixer`.

    Raises:
        ValueError: if the name or an argument is unknown, or the mixer refuses a value.

    Example:
    >>> build_mixer("dilated_conv", hidden_dim=8, num_heads=2, kernel_size=5).cost(4)["parameters"]
    40
    """
    require_mixer("mixer", name)
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


def register_mixer(cls):
    """Adds your own mixer to `MIXERS` under its `name`, which then works wherever one of ours does.

    This applies to the current process: a program imports the modules given by `--modules`; in Python, import
    the file with the class before you build or load a model. The class is also registered with Keras, unless
    it already is.

    Args:
        cls: a subclass of `TokenMixer` with a `name`, whose constructor names `hidden_dim` and `causal`.
            Running the same definition again, as in a notebook, replaces it.

    Returns:
        `cls`, so that the function can serve as a decorator.

    Raises:
        ValueError: if the name is taken or not an identifier, or the class is not such a mixer.

    Example:
    >>> @register_mixer
    ... class Identity(TokenMixer):
    ...     name = "identity"
    ...
    ...     def mix(self, x, masks, training):
    ...         return x
    >>> build_mixer("identity", hidden_dim=8)(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> del MIXERS["identity"]
    """
    tables.register(MIXERS, TokenMixer, cls, check=_check)
    if keras.saving.get_registered_name(cls) == cls.__name__:
        keras.saving.register_keras_serializable(package="convnlp_mixer", name=cls.name)(cls)
    return cls


def _check(cls):
    """Raises ValueError if a model could not build or call this mixer."""
    named = inspect.signature(cls).parameters
    for argument in ("hidden_dim", "causal"):
        if argument not in named:
            raise ValueError(
                f"`cls` must name `{argument}` among its constructor's arguments: a model passes only those "
                f"that are named. Received: {cls.__name__}({', '.join(named)})"
            )
    try:
        inspect.signature(cls.mix).bind("self", "x", "masks", "training")
    except TypeError:
        raise ValueError(
            "`cls` must have a method mix(self, x, masks, training), see docs/your_own_mixer.md. "
            f"Received: {cls.__name__}.mix{inspect.signature(cls.mix)}"
        ) from None
