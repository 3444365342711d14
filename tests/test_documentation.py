"""The commands of the documentation: each is run, or shown to be one that another test runs, or looked up."""

import contextlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from convnlp import command, demo
from convnlp.tour import Tour
from tests import documentation
from tests.documentation import ROOT
from tests.serving import server_process
from tests.serving.small_models import save_upper


class Recorder(Tour):
    """Remembers the commands of the tour instead of running them."""

    def __init__(self):
        super().__init__()
        self.commands = []

    def run(self, title, command, result=None, path=""):
        self.commands.append(shlex.split(command))

    @contextlib.contextmanager
    def served(self, name, command, url, log):
        self.commands.append([*shlex.split(command.replace(url.rpartition(":")[2], "8501")), "&"])
        yield


def test_every_block_says_how_it_is_tested():
    untested = [
        (page, commands)
        for page, kind, commands in documentation.blocks()
        if not (kind or "").startswith((*documentation.KINDS, "none: "))
    ]
    assert untested == []
    assert {page for page, _, _ in documentation.blocks()} >= {"README.md", "serving.md"}


def test_links_lead_to_a_file_and_a_heading():
    broken = []
    for page in [*documentation.PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
            name, _, heading = link.partition("#")
            target = page.parent / name if name else page
            if not target.exists() or (heading and heading not in documentation.headings(target)):
                broken.append((page.name, link))
    assert broken == []


def test_pages_that_the_code_names_exist():
    folders = ("benchmarks", "configs", "convnlp", "export", "serving", "tests")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    named = {
        (path.name, page) for path in sources for page in re.findall(r"\bdocs/\w+\.md", path.read_text())
    }
    assert [(path, page) for path, page in sorted(named) if not (ROOT / page).exists()] == []


def test_make_targets_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for make, *names in documentation.commands("make"):
        assert make == "make"
        assert names
        assert set(names) <= targets


def test_the_readme_shows_what_the_demo_runs():
    recorder = Recorder()
    demo.whole_way(recorder, Path("runs/demo"))
    shown = documentation.commands("demo")
    assert len(shown) >= 7
    for words in shown:
        assert words in recorder.commands


def test_commands_need_no_checkout():
    """On the pages, in helps and in messages: `pip install` makes no packages called export and serving."""
    sources = [path for folder in ("convnlp", "export", "serving") for path in (ROOT / folder).rglob("*.py")]
    files = [*documentation.PAGES, *sources]
    assert [path for path in files if re.search(r"python -m (?:export|serving)\b", path.read_text())] == []


@pytest.mark.serving
@pytest.mark.multiprocess
def test_requests_to_a_server_work(tmp_path):
    save_upper(tmp_path / "banking" / "1")
    (tmp_path / "bin").mkdir()
    python = shlex.quote(sys.executable)
    for name, starts in {"python": python, "convnlp": f"{python} -m convnlp"}.items():
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec {starts} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    flags = ["--model_name=banking", f"--model_base_path={tmp_path / 'banking'}"]
    with server_process.running(tmp_path / "log", "banking", *flags) as client:
        for words in documentation.commands("server"):
            if words[0] == "curl":
                words[1:1] = ["--silent", "--show-error", "--fail"]
            else:  # a client
                words.append("--url=http://127.0.0.1:8501")
            line = shlex.join(words).replace(":8501", f":{client.port}")
            done = subprocess.run(
                ["bash", "-c", line], cwd=ROOT, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, (line, done.stderr)
            assert re.search("CHARGED TWICE|NEW CARD|GRIPPING FILM|AVAILABLE|signature_def", done.stdout)


FLAGS_OF = {
    "experiment": "convnlp/runs/experiment.py",
    "programs": "convnlp/programs.py",
    "import program, ": "convnlp/prediction/program.py",
    "calibration_flags": "export/lite/calibration_flags.py",
    "server_flags": "serving/server_flags.py",
    "benchmarks import program": "benchmarks/program.py",
}


def long_commands():
    """The commands of which flags are looked up; one behind the `--` of the launcher is another command."""
    for words in documentation.commands("flags"):
        end = words.index("--") if "--" in words else len(words)
        yield words[:end]
        if end < len(words):
            yield ["convnlp", *words[end + 1 :]]


def test_long_commands_name_modules_and_flags_that_exist():
    for words in long_commands():
        *start, module = words[:3] if words[0] == "python" else ("python", "-m", words[0])
        assert start == ["python", "-m"], words
        flags = words[words.index(module) + 1 :]
        if module == "convnlp":
            module, *flags = command.find(flags[0]), *flags[1:]
        flags = [flag for flag in flags if flag != "&"]
        flags = flags[: flags.index("<")] if "<" in flags else flags
        source = Path(importlib.util.find_spec(module).origin).read_text()
        for imported, name in FLAGS_OF.items():
            source += (ROOT / name).read_text() if imported in source else ""
        defined = set(re.findall(r'(?:DEFINE|define)_\w+\(\s*"(\w+)"', source))
        defined |= {name.removesuffix("s") for name in re.findall(r'define_text_fields\(\s*"(\w+)"', source)}
        defined |= {f"{name}s" for name in re.findall(r'define_text_field\(\s*"(\w+)"', source)}
        for flag in flags:
            name = re.fullmatch(r"--(?:no)?([\w.]+)(?:=.*)?", flag)
            assert name, flag
            assert name[1].split(".")[0] in defined, (module, flag)
