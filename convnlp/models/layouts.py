"""Named stacks, which say which mixer each layer has."""


def _coatnet(num_quarters):
    """CoAtNet: convolutions, then attention in some quarters of the layers, in at least one if any."""

    def layers(num_layers):
        num_attention = max(num_layers * num_quarters // 4, min(1, num_quarters, num_layers - 1))
        return ["mb_conv"] * (num_layers - num_attention) + ["relative_attention"] * num_attention

    return layers


def _on_top(mixer, below="dynamic_conv"):
    """A mixer in the last layer (the last two, given six layers or more), and another one below."""

    def layers(num_layers):
        num_others = 1 if num_layers < 6 else 2
        return [below] * (num_layers - num_others) + [mixer] * num_others

    return layers


def _every_third(mixer):
    """Convolutions, with the mixer in every third layer; with two layers, in the last one."""

    def layers(num_layers):
        chosen = range(min(2, num_layers - 1), num_layers, 3)
        return [mixer if i in chosen else "dynamic_conv" for i in range(num_layers)]

    return layers


# Per layout: the encoder's mixers by its number of layers, and the mixer of all decoder layers.
LAYOUTS = {
    # Dai et al., 2021, "CoAtNet", section 2.2: convolution generalises, attention has the capacity.
    "c_c_c_c": (_coatnet(0), "dilated_conv"),
    "c_c_c_t": (_coatnet(1), "relative_attention"),
    "c_c_t_t": (_coatnet(2), "relative_attention"),
    "c_t_t_t": (_coatnet(3), "relative_attention"),
    # Lee-Thorp et al., 2022, "FNet": its hybrids, with attention in the place of the last two transforms.
    "fnet_hybrid": (_on_top("self_attention", below="fourier"), "self_attention"),
    # Tay et al., 2021, section 5.1: attention relates two texts in a row, which convolutions alone do not.
    "cross_segment_attention": (_on_top("self_attention"), "dynamic_conv"),
    # Arora et al., 2023, "Zoology": convolutions lack recall by content. These add it at a linear cost.
    "linear_attention_on_top": (_on_top("linear_attention"), "dynamic_conv"),
    "linear_attention_every_third": (_every_third("linear_attention"), "dynamic_conv"),
    "latent_attention_on_top": (_on_top("latent_attention"), "dynamic_conv"),
    "latent_attention_every_third": (_every_third("latent_attention"), "dynamic_conv"),
}

_ENOUGH_LAYERS = 4  # for a layout to use all of its mixers


def layer_mixers(names, num_layers, is_decoder):
    """Returns one mixer name per layer for a layout; returns anything else unchanged.

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


def all_mixers(name, is_decoder):
    """Returns the names of all mixers of a layout, or the one of a mixer, in a list.

    Example:
    >>> all_mixers("c_c_t_t", is_decoder=True), all_mixers("muse", is_decoder=True)
    (['relative_attention'], ['muse'])
    """
    found = layer_mixers(name, _ENOUGH_LAYERS, is_decoder)
    return [found] if isinstance(found, str) else [*dict.fromkeys(found)]
