"""The commands in README.md and docs/: every ```bash block says, in a comment above it, how it is tested.

`<!-- test: make -->` holds targets of the Makefile; `demo` commands that `convnlp.demo` runs; `server` is run
against a server; of `flags`, commands that take long, modules and flags are looked up; `none: REASON`.
"""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
KINDS = ("make", "demo", "server", "flags")
_BLOCK = re.compile(
    r"(?:<!-- test: (?P<kind>[^\n]*) -->\n)?```(?:bash|sh|shell|console)\n(?P<text>.*?)```", re.S
)


def headings(page):
    """The anchors that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    names = re.findall(r"^#+ (.*)", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text), re.M)
    return {re.sub(r"[^\w -]", "", name).strip().lower().replace(" ", "-") for name in names}


def blocks():
    """Yields (page, kind, commands) of every block; a command is a list of words, as bash would see them."""
    for page in PAGES:
        for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            text = match["text"].replace("\\\n", " ")
            commands = [shlex.split(line, comments=True) for line in text.splitlines()]
            yield page.name, match["kind"], [words for words in commands if words]


def commands(kind):
    """All commands of the blocks of one kind, of which there must be some."""
    of_kind = [words for _, found, listed in blocks() if found == kind for words in listed]
    assert of_kind, kind
    return of_kind
