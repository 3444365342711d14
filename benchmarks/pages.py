"""Helpers for the generated pages of docs/: text between two marks, and tables."""

END = "<!-- end of generated part -->"


def replace_generated(page, begin, text):
    """Puts `text` between the marks of a page and leaves what people wrote around them.

    Args:
        page: pathlib.Path.
        begin: str, the mark before the generated part; `END` is the one after it.
        text: str.

    Raises:
        ValueError: if the page has no marks.
    """
    head, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, end, tail = rest.partition(END)
    if not end:
        raise ValueError(f"{page} must hold {begin!r} and {END!r}")
    page.write_text(f"{head}{begin}\n\n{text}\n\n{END}{tail}", encoding="utf-8")


def require_marks(flag, page, begin):
    """Checks that `replace_generated` can write into a page, before the hours that its text may take.

    Args:
        flag: str, the name of the flag that leads to the page.
        page: pathlib.Path.
        begin: as in `replace_generated`.

    Raises:
        ValueError: if there is no such page, or it has no marks.
    """
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    if END not in text.partition(begin)[2]:
        raise ValueError(
            f"`--{flag}` must lead to a page that holds {begin!r} and then {END!r}. Received: {page}"
        )


def table(header, lines):
    """Returns a Markdown table.

    Args:
        header: sequence of cells.
        lines: list of rows, each a sequence of cells.
    """
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def machine_table(machine):
    """Returns a table of what is known of a machine.

    Args:
        machine: dict, see `benchmarks.machine.describe`; entries that are None are left out.
    """
    known = sorted((key, words(value)) for key, value in machine.items() if value is not None)
    return table(["machine", ""], known)


def words(value):
    """Returns a value of `benchmarks.machine.describe` for a cell: a list as its items, with commas."""
    return ", ".join(map(str, value)) if isinstance(value, list) else value
