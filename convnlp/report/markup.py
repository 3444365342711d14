"""Makes HTML and SVG in Python, so that no text can become markup by mistake."""

import html


class Markup(str):
    """Text that is already markup."""

    __slots__ = ()


def element(name, *children, **attributes):
    """Makes an element; strings among its children are texts unless they are `Markup`.

    An underscore at the end of an attribute's name is dropped; one inside becomes a hyphen.

    Example:
    >>> element("p", "1 < 2 ", element("b", "yes"), class_="note")
    '<p class="note">1 &lt; 2 <b>yes</b></p>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_number(value))}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def join(parts, between=""):
    """Joins parts to one piece of markup."""
    return Markup(
        between.join(part if isinstance(part, Markup) else html.escape(str(part)) for part in parts)
    )


def _number(value):
    return f"{value:.2f}".removesuffix(".00") if isinstance(value, float) else str(value)
