"""axe-core on a page: what keeps people who cannot see it well from using it.

https://github.com/dequelabs/axe-core is no part of this repository; the variable AXE names its axe.min.js,
and without it these tests are skipped.
"""

import os
from pathlib import Path

import pytest

_RUN = """
const said = (rule) => rule.nodes.map((node) => `${rule.id}: ${node.html}: ${node.failureSummary}`);
return axe.run(document).then((found) => found.violations.flatMap(said));
"""


IS_GIVEN = "AXE" in os.environ
needed = pytest.mark.skipif(not IS_GIVEN, reason="AXE names no axe.min.js")


def violations(window):
    """What axe-core finds wrong on the page of a `Browser`, list of str, in light and in dark colours."""
    source, found = Path(os.environ["AXE"]).read_text(), []
    for scheme in ("light", "dark"):
        window.command(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        window.script(source)
        found += [f"{scheme}: {line}" for line in window.script(_RUN)]
    window.command("Emulation.setEmulatedMedia", features=[])
    return found
