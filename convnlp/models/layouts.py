"""Named stacks: which mixer stands in which layer."""


def _c_c_t_t(num_layers):
    """CoAtNet: convolutions in the first half of the layers, attention in the second."""
    num_attention = num_layers // 2
    return ["mb_conv"] * (num_layers - num_attention) + ["relative_attention"] * num_attention


def _on_top(mixer):
    """Convolutions, and the mixer in the last layer; in the last two from six layers on."""

    def layers(num_layers):
        num_others = 1 if num_layers < 6 else 2
        return ["dynamic_conv"] * (num_layers - num_others) + [mixer] * num_others

    return layers


def _every_third(mixer):
    """Convolutions, and the mixer in every third layer; in the last one of two."""

    def layers(num_layers):
        chosen = range(min(2, num_layers - 1), num_layers, 3)
        return [mixer if i in chosen else "dynamic_conv" for i in range(num_layers)]

    return layers


# Per layout: the encoder's mixers by its number of layers, and the one of all decoder layers.
LAYOUTS = {
    # Dai et al., 2021, "CoAtNet", section 2.2: convolution generalises, attention has the capacity.
    "c_c_t_t": (_c_c_t_t, "relative_attention"),
    # Tay et al., 2021, section 5.1: what relates two texts in one row, which convolutions alone do not.
    "cross_segment_attention": (_on_top("self_attention"), "dynamic_conv"),
    # Arora et al., 2023, "Zoology": what convolutions lack is recall by content. Here at a linear cost.
    "linear_attention_on_top": (_on_top("linear_attention"), "dynamic_conv"),
    "linear_attention_every_third": (_every_third("linear_attention"), "dynamic_conv"),
    "latent_attention_on_top": (_on_top("latent_attention"), "dynamic_conv"),
    "latent_attention_every_third": (_every_third("latent_attention"), "dynamic_conv"),
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
