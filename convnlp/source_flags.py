"""The flags that say which texts a program reads: alike in all programs, but for a prefix in their names."""

from absl import flags

flags.disclaim_key_flags()  # --help shows them as the program's own


def define_source(name, about="Texts to read", required=False):
    """Defines the flag of a source, such as --source, and returns its holder."""
    text = f"{about}: csv:GLOB, jsonl:GLOB, ... (docs/sources.md)."
    return flags.DEFINE_string(name, None, text, required=required)


def define_split(name, of="the source"):
    """Defines the flag of a source's split, such as --split, and returns its holder."""
    return flags.DEFINE_string(name, "train", f"Split of {of}, optionally sliced: train[:10%].")


def define_data_dir(name):
    """Defines the flag of TFDS's directory, such as --data_dir, and returns its holder."""
    return flags.DEFINE_string(name, None, "Where TFDS looks for tfds:NAME.")


def define_text_field(name, about="Field of the text. Default: the obvious one."):
    """Defines the flag of a program that reads one text, such as --text_field, also in the plural.

    Returns:
        The holder of a str, by default "text".
    """
    holder = flags.DEFINE_string(name, "text", about)
    flags.DEFINE_alias(f"{name}s", name)
    return holder


def define_text_fields(
    name,
    about="Field of the text; two fields for pairs. Default: as the preset was trained, else text.",
    default=None,
):
    """Defines the flag of a program that reads several texts, such as --text_fields, also in the singular.

    Returns:
        The holder of a list of str, or of None, by default.
    """
    holder = flags.DEFINE_list(name, default, about)
    flags.DEFINE_alias(name.removesuffix("s"), name)
    return holder
