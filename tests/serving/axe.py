"""axe-core on a page: what keeps people who cannot see it well from using it.

https://github.com/dequelabs/axe-core is no part of this repository; the variable AXE names its axe.min.js,
and without it nothing is checked.
"""

import os
from pathlib import Path

_RUN = """
const said = (rule) => rule.nodes.map((node) => `${rule.id}: ${node.html}: ${node.failureSummary}`);
return axe.run(document).then((found) => [found.passes.length, found.violations.flatMap(said)]);
"""


def check(window):
    """Asserts that axe-core finds no violation on the page of a `Browser`, in light and in dark colours."""
    if not (path := os.environ.get("AXE")):
        return
    for scheme in ("light", "dark"):
        window.command(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        window.script(Path(path).read_text())
        num_passed, violations = window.script(_RUN)
        assert num_passed > 5
        assert violations == [], scheme
    window.command("Emulation.setEmulatedMedia", features=[])
