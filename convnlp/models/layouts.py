"""Named stacks: which mixer stands in which layer."""


def _c_c_t_t(num_layers):
    """CoAtNet: convolutions in the first half of the layers, attention in the second."""
    num_attention = num_layers // 2
    return ["mb_conv"] * (num_layers - num_attention) + ["relative_attention"] * num_attention


def _cross_segment_attention(num_layers):
    """Convolutions, and attention on top of them in the last layer; in the last two from six layers on."""
    num_attention = 1 if num_layers < 6 else 2
    return ["dynamic_conv"] * (num_layers - num_attention) + ["self_attention"] * num_attention


# Per layout: the encoder's mixers by its number of layers, and the one of all decoder layers.
LAYOUTS = {
    # Dai et al., 2021, "CoAtNet", section 2.2: convolution generalises, attention has the capacity.
    "c_c_t_t": (_c_c_t_t, "relative_attention"),
    # Tay et al., 2021, section 5.1: what relates two texts in one row, which convolutions alone do not.
    "cross_segment_attention": (_cross_segment_attention, "dynamic_conv"),
}


def layer_mixers(names, num_layers, is_decoder):
    """One mixer name per layer, or what was given where it is not a layout.

    Args:
        names: str, a key of `LAYOUTS` or the name of a mixer; or a list of mixers.
        num_layers: int. Layers of the encoder or the decoder.
        is_decoder: bool.

    Returns:
        List of `num_layers` str for a layout, else `names`.

    Example:
    >>> layer_mixers("c_c_t_t", 4, is_decoder=False)
    ['mb_conv', 'mb_conv', 'relative_attention', 'relative_attention']
    """
    if not isinstance(names, str) or names not in LAYOUTS:
        return names
    encoder, decoder = LAYOUTS[names]
    return [decoder] * num_layers if is_decoder else encoder(num_layers)
