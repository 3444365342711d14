"""The fields of a record on which an existing model is scored."""

import dataclasses

from convnlp.data import fields, sources


@dataclasses.dataclass(frozen=True)
class Fields:
    """The fields of a record on which an existing model is scored.

    Args:
        texts: tuple of one or two strings, the text or the pair. Defaults to `("text",)`.
        label: str, the class. Defaults to "label".
        label_names: tuple of str, the classes in order. Default None: those saved with the model.
        label_threshold: float, if labels are fractions; see `convnlp.data.Label`. Default None.
        target: str, the text that a model should write, or the acceptable answers. Default None: the name
            of the class, or "answers".
        has_order: bool, whether the names saved with the model may be in an order that someone chose, so that
            integers can be places among them. Defaults to True.
        options: dict, the task's own options in its training, as far as they are known. Default: none.

    Raises:
        ValueError: if there are more than two texts, or none.
    """

    texts: tuple = ("text",)
    label: str = "label"
    label_names: tuple | None = None
    label_threshold: float | None = None
    target: str | None = None
    has_order: bool = True
    options: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if len(self.texts) not in (1, 2):
            raise ValueError(f"`text_fields` must be one or two fields. Received: {list(self.texts)}")


def with_label(source, trained, given, text_roles, finds_label=True):
    """Returns the fields of a text, or a pair, with a label; arguments as for `Task.scored_fields`.

    Args:
        source: `convnlp.data.Source`.
        trained: dict.
        given: dict.
        text_roles: tuple of str, the keys of `trained` for the texts.
        finds_label: bool. Whether to look for a field of the label. Default True.

    Returns:
        `Fields`.

    Raises:
        SourceError: if it is not clear which fields are meant.
    """
    there = {*sources.Sample(source, 1).fields}
    own = {"texts": texts_of(trained, text_roles), "label": trained.get("label_field")}
    own = {name: value for name, value in own.items() if value and names_of(value) <= there}
    own |= {"label_threshold": trained.get("label_threshold"), "options": trained.get("options") or {}}
    own |= {"has_order": bool(trained.get("label_names", True))}  # True also if it is not known
    found = Fields(**{**own, **given})
    # A key that is not a role only keeps its field from being taken for another role.
    roles = {
        "first text" if "texts" in given else "text_field": found.texts[0],
        "last text": found.texts[-1],
        "label_field" if finds_label and "label" not in given else "label": found.label,
    }
    taken = fields.take(source, roles)
    texts = (taken.get("text_field", found.texts[0]), *found.texts[1:])
    return dataclasses.replace(found, texts=texts, label=taken.get("label_field", found.label))


def texts_of(trained, text_roles):
    """Returns the fields of the texts that a model was trained on, a tuple; empty if it is not known."""
    return tuple(filter(None, map(trained.get, text_roles)))


def names_of(value):
    """Returns the names in one of the `Fields`, a string or a tuple, as a set."""
    return {value} if isinstance(value, str) else {*value}
