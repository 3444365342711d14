"""Copies the weights of our backbone into the PyTorch models, to see that both compute the same."""

import torch


def copy_backbone(backbone, model):
    """Of a `Seq2SeqBackbone` into an `EncoderDecoder` of the same mixing.

    Attention: the bias of positions of ours and the position embedding of PyTorch's become 0.
    """
    _set(model.encoder.embedding.weight, backbone.token_embedding.embeddings)
    for ours, theirs in ((backbone.encoder, model.encoder), (backbone.decoder, model.decoder)):
        _copy_norm(ours.final_norm, theirs.final_norm)
        if theirs.positions is not None:
            _set(theirs.positions.weight, torch.zeros_like(theirs.positions.weight))
        for source, layer in zip(ours.layers, theirs.layers, strict=True):
            _copy_layer(source, layer)


def _copy_layer(source, layer):
    if hasattr(layer.mixing, "taps"):
        _set_linear(layer.mixing.gate, source.mixing.gate)
        _set(layer.mixing.taps, source.mixing.mixer.kernel)
    else:
        mixing = source.mixing
        mixing.bias.table.assign(mixing.bias.table * 0.0)
        _set_linear(layer.mixing.query_key_value, _scaled(mixing), mixing.key, mixing.value)
    _set_linear(layer.mixing.output, source.mixing.output_projection)
    _copy_norm(source.mixing_residual.norm, layer.mixing_norm)
    _copy_norm(source.feed_forward_residual.norm, layer.feed_forward_norm)
    _set_linear(layer.inner, source.feed_forward.inner)
    _set_linear(layer.outer, source.feed_forward.outer)
    if hasattr(layer, "cross_attention"):
        cross, theirs = source.cross_attention, layer.cross_attention
        _set_linear(theirs.query, _scaled(cross))
        _set_linear(theirs.key_value, cross.key, cross.value)
        _set_linear(theirs.output, cross.output_projection)
        _copy_norm(source.cross_residual.norm, layer.cross_norm)


def _scaled(attention):
    """The query kernel for an attention that divides by sqrt(D / H); ours does not."""
    return attention.query.kernel * (attention.hidden_dim // attention.num_heads) ** 0.5


def _copy_norm(source, norm):
    _set(norm.weight, source.gamma)
    _set(norm.bias, source.beta)


def _set_linear(linear, *kernels):
    """Kernels [I,O] of Keras layers or tensors, side by side, transposed into a weight [O,I]."""
    kernels = [getattr(kernel, "kernel", kernel) for kernel in kernels]
    _set(linear.weight, torch.cat([torch.tensor(kernel.numpy().T) for kernel in kernels]))


@torch.no_grad()
def _set(parameter, value):
    value = value if isinstance(value, torch.Tensor) else torch.tensor(value.numpy())
    assert parameter.shape == value.shape
    parameter.copy_(value)
