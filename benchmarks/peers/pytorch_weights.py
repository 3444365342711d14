"""Our classifier's weights under the names of its twin in PyTorch, as NumPy arrays; needs no PyTorch.

The twin is `pytorch_models.TextClassifier` around `pytorch_models.Encoder`. With attention, our model must
have a learned position embedding, like the twin, and a relative bias of zeros, which the twin lacks. Both
then compute the same, and the twin can use the fast kernel without a bias.
"""

import numpy as np


def state(classifier):
    """Returns the `state_dict` of the twin.

    Args:
        classifier: `TextClassifier` with pooling "mean_max" and the mixer `lightweight_conv` or
            `self_attention`.

    Returns:
        dict, name -> float32 array.

    Raises:
        ValueError: if the twin would not compute the same.
    """
    backbone = classifier.backbone
    if classifier.pooling != "mean_max" or classifier.ngram_buckets:
        raise ValueError(
            "`classifier` must have the pooling 'mean_max' and no n-grams. "
            f"Received: pooling={classifier.pooling!r}, ngram_buckets={classifier.ngram_buckets}"
        )
    arrays = {
        "encoder.embedding.weight": backbone.token_embedding.embeddings,
        "head.bias": classifier.head.bias,
        **_linear("head", classifier.head),
        **_norm("encoder.final_norm", backbone.encoder.final_norm),
    }
    if backbone.position_layer is not None:
        arrays["encoder.positions.weight"] = backbone.position_layer.position_embeddings
    for i, layer in enumerate(backbone.encoder.layers):
        arrays |= {f"encoder.layers.{i}.{name}": value for name, value in _layer(layer).items()}
    return {name: np.array(value, "float32") for name, value in arrays.items()}


def _layer(layer):
    mixing = layer.mixing
    if hasattr(mixing, "gate"):
        found = {**_linear("mixing.gate", mixing.gate), "mixing.taps": mixing.mixer.kernel}
    else:
        if np.any(mixing.bias.table):
            raise ValueError("`classifier` must have a relative position bias of zeros")
        # The twin divides by sqrt(D / H); in our model, this factor is part of the weights.
        query = np.array(mixing.query.kernel) * (mixing.hidden_dim // mixing.num_heads) ** 0.5
        found = _linear("mixing.query_key_value", query, mixing.key, mixing.value)
    return {
        **found,
        **_linear("mixing.output", mixing.output_projection),
        **_norm("mixing_norm", layer.mixing_residual.norm),
        **_norm("feed_forward_norm", layer.feed_forward_residual.norm),
        **_linear("inner", layer.feed_forward.inner),
        **_linear("outer", layer.feed_forward.outer),
    }


def _linear(name, *kernels):
    """Returns kernels [I,O] of Keras layers, or arrays, concatenated along O and transposed to [O,I]."""
    arrays = [np.array(getattr(kernel, "kernel", kernel)) for kernel in kernels]
    return {f"{name}.weight": np.concatenate(arrays, axis=1).T}


def _norm(name, norm):
    return {f"{name}.weight": norm.gamma, f"{name}.bias": norm.beta}
