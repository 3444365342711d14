"""The project's encoder around any token mixer, with an answer at each position asked for."""

import itertools

import keras
import tensorflow as tf

from benchmarks.comparison.variants import Variant
from benchmarks.recalling import data
from convnlp.layers import MIXERS, Encoder
from convnlp.models import backbone_arguments
from convnlp.models.position_embedding import PositionEmbedding
from convnlp.models.token_embedding import TokenEmbedding

DIM, INTERMEDIATE_DIM, NUM_HEADS = 64, 128, 4
_LONG = 1_000_000  # longer than any convolution sees


def layer_names(mixer, num_layers):
    """Returns the mixer of a row as the encoder takes it: a name, or a list with one per layer.

    Args:
        mixer: str, a mixer or a layout; `a+b` is repeated: a b a b.
        num_layers: int.

    Raises:
        ValueError: if more are named than there are layers.

    Example:
    >>> layer_names("dynamic_conv+dynamic_conv+self_attention", 4)
    ['dynamic_conv', 'dynamic_conv', 'self_attention', 'dynamic_conv']
    """
    names = mixer.split("+")
    if len(names) == 1:
        return mixer
    if len(names) > num_layers:
        raise ValueError(
            f"`mixers` must name at most {num_layers} for {num_layers} layers. Received: {mixer!r}"
        )
    return list(itertools.islice(itertools.cycle(names), num_layers))


def taps(distance, num_layers):
    """Returns the kernel size and dilation rates with which two convolutions reach just far enough.

    Taps that are 1 apart in the first layer and K apart in the second reach every position up to (K^2 - 1)
    / 2 to either side, in exactly one way. K is odd and as small as possible, because a model that sees
    further has more positions to tell apart. Further layers repeat the two.

    Args:
        distance: int, in positions; up to `NUM_PAIRS` - 1 more are reached too.
        num_layers: int.

    Returns:
        (int, list of ints).

    Example:
    >>> taps(32, 4)
    (9, [1, 9, 1, 9])
    """
    farthest = distance + data.NUM_PAIRS - 1
    size = next(size for size in itertools.count(3, 2) if (size * size - 1) // 2 >= farthest)
    return size, list(itertools.islice(itertools.cycle((1, size)), num_layers))


def supports_causal(mixer):
    """Returns whether all mixers of a row can be restricted to one side."""
    return all(MIXERS[name].supports_causal for name in Variant.parse(mixer).names())


class Reader:
    """Encoder and head.

    Args:
        mixer: str, a row as for `benchmarks.comparison.variants.Variant`.
        num_layers: int.
        causal: bool.
        distance: int, which convolutions reach unless their options say otherwise.
        length: int, positions of a row, for mixers with weights for each position.
    """

    def __init__(self, mixer, num_layers, causal, distance, length):
        variant = Variant.parse(mixer)
        kernel_size, dilation_rates = taps(distance, num_layers)
        config = {
            "mixer": layer_names(variant.mixer, num_layers),
            "encoder_mixer": None,
            "decoder_mixer": None,
            "num_layers": num_layers,
            "num_decoder_layers": 0,
            "hidden_dim": DIM,
            "intermediate_dim": INTERMEDIATE_DIM,
            "num_heads": NUM_HEADS,
            "kernel_size": kernel_size,
            "dilation_rate": dilation_rates,
            "weight_softmax": None,
            "max_sequence_length": length,
            "dropout": 0.0,
            "mixer_options": variant.options,
        }
        mixers = backbone_arguments.mixers(config)["encoder"]
        self.causal = causal
        self.encoder = Encoder([{**arguments, "causal": causal} for arguments in mixers], INTERMEDIATE_DIM)
        self.embedding = TokenEmbedding(data.VOCABULARY_SIZE, DIM)
        self.positions, kind = None, backbone_arguments.position_embedding("auto", self.encoder, None)
        if kind:
            self.positions = PositionEmbedding(kind, DIM, length)
        self.head = keras.layers.Dense(data.NUM_VALUES)
        self(tf.zeros([1, length, 2], tf.int32), tf.constant([0]))

    def __call__(self, ids, asked):
        """Returns logits, float32 [R,A,V], for int32 `ids` [R,n,2] and positions `asked` [A]."""
        x = self.embedding(ids[:, :, 0]) + self.embedding(ids[:, :, 1])
        if self.positions is not None:
            x = self.positions(x)
        return self.head(tf.gather(self.encoder(x), asked, axis=1))

    @property
    def trainable_variables(self):
        layers = [self.embedding, self.encoder, self.head, *([self.positions] if self.positions else [])]
        return [variable for layer in layers for variable in layer.trainable_variables]

    def reach(self):
        """Returns how many positions to the left an output can see, or None for all of them."""
        seen = self.encoder.receptive_field(_LONG)
        if seen >= _LONG:
            return None
        return seen - 1 if self.causal else (seen - 1) // 2
