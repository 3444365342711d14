"""The API reference, as `make reference` makes it."""

import html
import inspect
import re
import subprocess
import sys

import pytest

from convnlp import layers, models, objectives, tasks
from tests.documentation import ROOT


@pytest.mark.slow
def test_it_is_made_and_holds_what_is_public(tmp_path):
    packages = re.search(r"^REFERENCE := (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    command = [sys.executable, "-m", "pdoc", "--docformat", "google", "--output-directory", str(tmp_path)]
    done = subprocess.run([*command, *packages], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    for module in (models, layers, objectives, tasks):
        assert module.__name__ in packages
        page = (tmp_path / f"{module.__name__.replace('.', '/')}.html").read_text(encoding="utf-8")
        for name in module.__all__:
            if inspect.ismodule(getattr(module, name)):
                assert f"{name}.html" in page, (module.__name__, name)
            else:
                assert f'id="{name}"' in page, (module.__name__, name)
    page = html.unescape((tmp_path / "convnlp/models.html").read_text(encoding="utf-8"))
    assert "logits = W dropout" in page  # a docstring with its arguments beside it
    assert "ngram_buckets" in page
