"""Explains each field of a config, as --help_config prints it."""

import textwrap

from convnlp.runs.config_fields import FIELDS
from convnlp.runs.config_rules import value_of

_WIDTH, _COLUMN = 110, 46


def page(config, about=""):
    """Returns what --help_config prints.

    Args:
        config: ConfigDict.
        about: str, the text above the fields.

    Returns:
        str, a line or two for each field: its flag, value, meaning and rule.
    """
    lines = [about.strip(), "", "Every field is a flag; here with the values of this config:", ""]
    for path, (text, rule, _) in FIELDS.items():
        value = value_of(config, path)
        value = value.to_dict() if hasattr(value, "to_dict") else value
        flag = f"--config.{path}={value}"
        text = f"{text}; {rule.text}" if rule and "string" not in rule.text else text
        indent = " " * _COLUMN
        wrapped = textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)
        lines += [flag, *wrapped] if len(flag) >= _COLUMN else [flag + wrapped[0][len(flag) :], *wrapped[1:]]
    return "\n".join(lines).lstrip("\n")
