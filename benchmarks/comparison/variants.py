"""Rows of a comparison: a mixer, a layout, or one mixer per layer, with options of their own."""

import ast
import dataclasses

from convnlp.layers import MIXERS
from convnlp.layers.mixer_options import route_options
from convnlp.models import LAYOUTS
from convnlp.models.layouts import all_mixers

# Config fields that a row may set in addition to the options of its mixers.
FIELDS = {
    "model": ("kernel_size", "dilation_rate", "residual_form"),
    "pretraining": ("objective",),
    "task": ("pooling",),
}
OBJECTIVES = ("masked_lm", "span_corruption")  # for pre-training; the first is the default


@dataclasses.dataclass(frozen=True)
class Variant:
    """What one row of a comparison stands for.

    Args:
        mixer: str, one of `MIXERS` or `LAYOUTS`; `a+b` names one for each layer.
        options: dict, see `mixer_options` of `convnlp.models.Seq2SeqBackbone`.
        fields: dict, part -> dict, the fields of the config that the row changes, see `FIELDS`.
    """

    mixer: str
    options: dict
    fields: dict = dataclasses.field(default_factory=dict)

    @classmethod
    def parse(cls, text):
        """Returns the variant described by `NAME[:OPTION=VALUE]...`.

        An option applies to all mixers of the row that have it, `MIXER.OPTION` only to that mixer;
        `model.FIELD` and `task.FIELD` are fields of the config, such as a kernel size for each layer, and
        `pretraining.objective` is one of `OBJECTIVES`. The items of a list are joined by `+`; `[]` and `[3]`
        are lists of no item and of one.

        Raises:
            ValueError: if a name or an option is unknown, or a value has the wrong type.

        Example:
        >>> Variant.parse("synthesizer:rank=4:modes=dense+random").options
        {'rank': 4, 'modes': ['dense', 'random']}
        """
        mixer, *settings = text.split(":")
        unknown = [part for part in mixer.split("+") if part not in MIXERS and part not in LAYOUTS]
        if unknown:
            raise ValueError(
                f"--mixers must be among {', '.join([*MIXERS, *LAYOUTS])}. Received: {unknown[0]!r}"
            )
        options, fields = {}, {}
        for setting in settings:
            path, equals, value = setting.partition("=")
            name, dot, option = path.partition(".")
            if not equals or not path:
                raise ValueError(f"--mixers must have options as NAME:OPTION=VALUE. Received: {text!r}")
            if name in FIELDS:
                if option not in FIELDS[name]:
                    known = [f"{each}.{field}" for each, names in FIELDS.items() for field in names]
                    raise ValueError(f"--mixers must set fields of {', '.join(known)}. Received: {text!r}")
                fields.setdefault(name, {})[option] = _value(value)
            elif dot:
                options.setdefault(name, {})[option] = _value(value)
            else:
                options[name] = _value(value)
        variant = cls(mixer, options, fields)
        route_options(options, variant.names())
        if variant.objective not in OBJECTIVES:
            raise ValueError(
                f"--mixers must have pretraining.objective as one of {', '.join(OBJECTIVES)}. "
                f"Received: {text!r}"
            )
        if variant.objective == "span_corruption" and not variant.can_write():
            raise ValueError(
                "--mixers must be able to decode for pretraining.objective=span_corruption. "
                f"Received: {text!r}"
            )
        return variant

    @property
    def objective(self):
        """The row's objective of pre-training, one of `OBJECTIVES`."""
        return self.fields.get("pretraining", {}).get("objective", OBJECTIVES[0])

    def without(self, part):
        """Returns the variant without its fields of a part; without "task" it is what is pre-trained.

        Example:
        >>> str(Variant.parse("dynamic_conv:task.pooling=pair:model.kernel_size=3+5+7+9").without("task"))
        'dynamic_conv:model.kernel_size=3+5+7+9'
        """
        fields = {name: values for name, values in self.fields.items() if name != part}
        return dataclasses.replace(self, fields=fields)

    def names(self, is_decoder=False):
        """Returns the names of all mixers of the row, in the encoder or the decoder."""
        return [name for part in self.mixer.split("+") for name in all_mixers(part, is_decoder)]

    def can_write(self):
        """Returns whether it can learn to write texts: it decodes, and can have several examples in a row.

        Example:
        >>> [Variant.parse(name).can_write() for name in ("muse", "fourier", "cross_segment_attention")]
        [True, False, True]
        """
        encoder, decoder = self.names(), self.names(is_decoder=True)
        packs = all(MIXERS[name].supports_packing for name in encoder + decoder)
        return packs and all(MIXERS[name].supports_causal for name in decoder)

    def __str__(self):
        """Returns the text that `parse` takes, the same for the same options in any order.

        Example:
        >>> str(Variant.parse("synthesizer:rank=04:modes='dense'"))
        'synthesizer:modes=dense:rank=4'
        """
        flat = {}
        for name, value in (self.options | self.fields).items():
            nested = value.items() if isinstance(value, dict) else [(None, value)]
            flat |= {name if option is None else f"{name}.{option}": own for option, own in nested}
        return "".join([self.mixer, *(f":{name}={_text(flat[name])}" for name in sorted(flat))])


def _value(text):
    """Returns the value that a text stands for: a number, a bool, a list of parts, or the text itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for read in (int, float, ast.literal_eval):
        try:
            return read(text)
        except (SyntaxError, ValueError):
            continue
    return [_value(part) for part in text.split("+")] if "+" in text else text


def _text(value):
    if isinstance(value, (list, tuple)):
        return "+".join(map(_text, value)) if len(value) > 1 else repr(list(value))
    return str(value).lower() if isinstance(value, bool) else str(value)
