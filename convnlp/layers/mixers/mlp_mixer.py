"""MLP-Mixer's token mixing: a multilayer perceptron over the positions."""

import keras

from convnlp.kernels import zero_pads
from convnlp.layers.checks import require_count
from convnlp.layers.token_mixer import TokenMixer
from convnlp.layers.token_mlp import TokenMLP


@keras.saving.register_keras_serializable(package="convnlp")
class MLPMixer(TokenMixer):
    """Two dense layers over the positions, the same for all channels.

        y[:, c] = W2 gelu(W1 x[:, c] + b1) + b2              W1: [S,L], b1: [S], W2: [L,S], b2: [L]

    A text of T <= L positions uses W1[:, :T], W2[:T] and b2[:T].

    Source: Tolstikhin et al., 2021, "MLP-Mixer: An all-MLP Architecture for Vision", section 2, equation 1,
    https://arxiv.org/abs/2105.01601.
    Departs from it: texts may be shorter than L. The skeleton provides the norm before, the residual
    connection, and the MLP over the channels after it.

    Masking: inputs at pads are zero, so that their number does not matter. Causality: no, a hidden value sees
    all positions. Packing: no.
    Cost: 2 S L + S + L parameters, 2 T S D multiply-adds.

    Args:
        hidden_dim: int. Width D.
        max_sequence_length: int. The longest text L, >= 1.
        token_dim: int. Hidden size S over the positions. Defaults to half of `hidden_dim`, as in the paper.
        causal: bool. Must be False.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, a text is longer than `max_sequence_length`, or `causal`
            is True.

    Example:
    >>> mixer = MLPMixer(hidden_dim=8, max_sequence_length=16)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> mixer.cost(5)
    {'parameters': 148, 'multiply_adds': 320, 'state_elements': 0}
    """

    name = "mlp_mixer"
    supports_causal = False
    supports_step = False
    supports_packing = False
    needs_max_length = True
    gated = False

    def __init__(self, hidden_dim, max_sequence_length, token_dim=None, causal=False, **kwargs):
        super().__init__(hidden_dim, causal, **kwargs)
        require_count("max_sequence_length", max_sequence_length)
        token_dim = max(1, hidden_dim // 2) if token_dim is None else token_dim
        require_count("token_dim", token_dim)
        self.max_sequence_length = max_sequence_length
        self.token_dim = token_dim
        self.mlp = TokenMLP(max_sequence_length, token_dim, dtype=self.dtype_policy, name="mlp")

    def build(self, input_shape):
        super().build(input_shape)
        self.mlp.build()

    def mix(self, x, masks, training):
        return self.mlp(zero_pads(x, masks.padding_mask))

    def cost(self, length):
        return self.mlp.cost(length, self.hidden_dim)

    def get_config(self):
        return {
            **super().get_config(),
            "max_sequence_length": self.max_sequence_length,
            "token_dim": self.token_dim,
        }
