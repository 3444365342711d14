"""Checks which layers take a low-rank update (LoRA), before anything is frozen."""

from convnlp.layers.projection import Projection
from convnlp.models.token_rows import check_length


def layer_names(backbone):
    """Returns the sorted names of a backbone's layers that take LoRA: its projections."""
    return sorted({layer.name for layer in backbone._flatten_layers() if isinstance(layer, Projection)})


def check(backbone, rank, target_layer_names):
    """Raises ValueError unless `enable_lora` with these arguments reaches all layers that it names.

    keras_nlp ignores names that no layer has, and freezes the backbone all the same.

    Args:
        backbone: a `Seq2SeqBackbone`.
        rank: int >= 1.
        target_layer_names: list of str, or None for all projections.
    """
    known = layer_names(backbone)
    if not known:
        raise ValueError("`enable_lora` needs projections, and the layers of this backbone have none")
    check_length("rank", rank, 1)
    if target_layer_names is not None:
        names = [target_layer_names] if isinstance(target_layer_names, str) else list(target_layer_names)
        if isinstance(target_layer_names, str) or not names or not set(names) <= set(known):
            raise ValueError(
                f"`target_layer_names` must be a list of the layers that take LoRA: {', '.join(known)}. "
                f"Received: {target_layer_names!r}"
            )
    if is_enabled(backbone):
        raise ValueError(f"`enable_lora` was called before, with rank={backbone._lora_rank}: once is all")


def refuse_copy(backbone):
    """Raises ValueError if a backbone whose weights are to be copied has LoRA enabled."""
    if is_enabled(backbone):
        raise ValueError(
            "`backbone` has LoRA enabled, and its encoder is to be copied: build the classifier first, then "
            "call `classifier.backbone.enable_lora`"
        )


def saved_variables(model):
    """Returns the variables that a weight file has; a low-rank update is part of its kernel there."""
    return [v for v in model.variables if v.name not in ("lora_kernel_a", "lora_kernel_b")]


def is_enabled(backbone):
    """Returns whether layers of a backbone have a low-rank update."""
    return bool(getattr(backbone, "_lora_enabled_layers", None))
