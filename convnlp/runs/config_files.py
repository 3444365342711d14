"""The flag --config: takes a shipped config by name, or one of your own by path."""

import ast
import difflib
import importlib.util
import os
import pathlib
import re

import ml_collections
from absl import flags
from ml_collections.config_flags import config_flags

from convnlp.configs import common

_NO_CONFIGS = ("__init__", "common")
# What fields are called in other libraries, or were called, if no letters tell.
OTHER_NAMES = {
    "lr": "optimizer.learning_rate",
    "epochs": "task.num_epochs",
    "num_train_epochs": "task.num_epochs",
    "max_epochs": "task.num_epochs",
    "max_steps": "train.num_steps",
    "max_length": "data.input_length",
    "max_seq_length": "data.input_length",
    "text_column": "task.text_field",
    "label_column": "task.label_field",
    "target_column": "task.label_field",
    "masked_lm_weight": "objective.options.masked_lm.weight",  # until 0.1.0
}


def folder():
    """Returns the directory of the shipped configs, a path."""
    return pathlib.Path(importlib.util.find_spec("convnlp.configs").origin).parent


def names():
    """Returns the names of the shipped configs, sorted."""
    return sorted(path.stem for path in folder().glob("*.py") if path.stem not in _NO_CONFIGS)


def locate(config):
    """Returns the path of a config's file, with its argument.

    Args:
        config: str, the name of a shipped config, or the path of a file (recognised by a separator or the
            ending ".py"). A ":" and the argument of its `get_config` may follow.

    Returns:
        str, "PATH" or "PATH:ARGUMENT".

    Raises:
        ValueError: if there is no such name or file.
    """
    name, colon, argument = config.partition(":")
    is_path = os.path.basename(name) != name or name.endswith(".py")
    path = name if is_path else folder() / f"{name}.py"
    if not os.path.isfile(path) or name in _NO_CONFIGS:
        stem = pathlib.Path(name).stem
        near = difflib.get_close_matches(stem, names(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(
            f"`config` must be one of {', '.join(names())}, or the path of a file of your own. "
            f"Received: {name!r}{hint}"
        )
    return f"{path}{colon}{argument}"


def unknown_field(argv):
    """Returns a sentence about the first `--config.FIELD` that does not exist; None if all do."""
    values = {
        f"{section}.{name}" if isinstance(fields, dict) else section: value
        for section, fields in common.get_config().to_dict().items()
        for name, value in (fields if isinstance(fields, dict) else {section: fields}).items()
    }
    options = tuple(f"{name}." for name, value in values.items() if isinstance(value, dict))  # of any name
    for argument in argv:
        given = re.match(r"--?config\.([\w.]+)", argument)
        if given and given[1] not in values and not given[1].startswith(options):
            known = OTHER_NAMES.get(given[1].rpartition(".")[2])
            near = [known] if known else difflib.get_close_matches(given[1], values, n=1)
            return f"unknown config field {given[1]}" + (f"; did you mean {near[0]}?" if near else "")
    return None


def one_line(message):
    """Returns the first and the last line of a message as one; a config file's own error is in the last."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return " ".join(lines if len(lines) < 2 else (lines[0], lines[-1]))


class OrNoneParser(flags.ArgumentParser):
    """The parser of a field that may be None, as --help_config shows it.

    Args:
        parser: `flags.ArgumentParser` of all other values.
    """

    def __init__(self, parser):
        super().__init__()
        self._parser = parser

    def parse(self, argument):
        """Returns the value that a flag's text stands for."""
        return None if argument == "None" else self._parser.parse(argument)

    def flag_type(self):
        """Returns the name of the type."""
        return self._parser.flag_type()


for _kind, _parser in {
    bool: flags.BooleanParser(),
    int: flags.IntegerParser(),
    float: flags.FloatParser(),
    str: flags.ArgumentParser(),
}.items():
    config_flags.register_flag_parser_for_type(common.OR_NONE[_kind], OrNoneParser(_parser))


class ConfigParser(config_flags.ConfigFileFlagParser):
    """The parser of ml_collections, which knows only paths, extended to names.

    Attributes:
        about: str, the file's own description of the config that was parsed last.
    """

    about = ""

    def parse(self, path):
        """Returns the config that the flag's value stands for."""
        path = locate(path)
        config = super().parse(path)
        if not isinstance(config, ml_collections.ConfigDict):
            raise ValueError(
                f"`get_config` of {path} must return a ConfigDict, as that of convnlp.configs.common does. "
                f"Received: a {type(config).__name__}"
            )
        source = pathlib.Path(path.partition(":")[0]).read_text(encoding="utf-8")
        self.about = ast.get_docstring(ast.parse(source)) or ""
        return config
