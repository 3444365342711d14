"""The wheel and the source distribution, built as pip builds them: their metadata, and what is in them."""

import ast
import datetime
import email
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


# A preset in the package, with the files that any of them has.
_FILES = ("config.json", "model.weights.h5", "README.md", "SHA256SUMS", "assets/tokenizer/vocabulary.spm")
PRESET = {f"convnlp/presets/tiny_en/{name}" for name in _FILES}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The directory of both files."""
    source = tmp_path_factory.mktemp("source")
    hidden = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info")

    def ignored(folder, names):  # runs/ at the top is what users write
        return hidden(folder, names) | ({"runs"} if Path(folder) == ROOT else set())

    shutil.copytree(ROOT, source, dirs_exist_ok=True, ignore=ignored)
    for name in PRESET:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("x")
    code = "from setuptools import build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return source / "dist"


@pytest.fixture
def wheel(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.mark.multiprocess
def test_the_wheel_carries_its_licence(wheel):
    folder = f"convnlp-{PROJECT['version']}.dist-info"
    metadata = email.message_from_bytes(wheel.read(f"{folder}/METADATA"))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    text = wheel.read(f"{folder}/licenses/LICENSE").decode()
    assert text == (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License\n                           Version 2.0, January 2004" in text


@pytest.mark.multiprocess
def test_the_presets_are_in_both(built, wheel):
    names = set(wheel.namelist())
    assert names >= PRESET | {"convnlp/presets/__init__.py", "convnlp/serving/page/index.html"}
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert packed >= PRESET | {"convnlp/presets/__init__.py", "serving/page/index.html"}


@pytest.mark.multiprocess
def test_the_wheel_holds_one_package_with_all_files_of_the_folders(wheel):
    expected = {
        path.relative_to(ROOT).as_posix()
        for folder in ("convnlp", "configs", "export", "serving")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.name != "BUILD" and "__pycache__" not in path.parts
    }
    inside = {name if name.startswith("convnlp/") else f"convnlp/{name}" for name in expected}
    assert {"convnlp/configs/common.py", "convnlp/serving/models.config"} <= inside
    assert {"convnlp/export/verify.py", "convnlp/serving/deploy/Dockerfile"} <= inside
    dist_info = f"convnlp-{PROJECT['version']}.dist-info/"
    assert {name for name in wheel.namelist() if not name.startswith(dist_info)} == inside | PRESET


@pytest.mark.multiprocess
def test_an_installed_wheel_finds_its_folders_in_itself(wheel, tmp_path):
    wheel.extractall(tmp_path / "site")
    code = """
import sys
sys.path.insert(0, "site")
import convnlp.configs.common, convnlp.export.edge_model, convnlp.serving.client
print(convnlp.serving.client.__file__, "tensorflow" in sys.modules, "keras" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.endswith("site/convnlp/serving/client/__init__.py False False\n"), done.stderr


def test_the_changelog_has_an_entry_for_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    assert versions[0] == PROJECT["version"]


def test_one_version_everywhere():
    tree = ast.parse((ROOT / "convnlp" / "__init__.py").read_text(encoding="utf-8"))
    named = {node.targets[0].id: node.value for node in tree.body if isinstance(node, ast.Assign)}
    assert ast.literal_eval(named["__version__"]) == PROJECT["version"]


def test_the_citation_is_complete_and_of_the_newest_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)  # what its schema 1.2.0 requires
    assert (cited["cff-version"], cited["type"]) == ("1.2.0", "software")
    assert cited["license"] == PROJECT["license"]
    assert all(author.get("name") or author.get("family-names") for author in cited["authors"])
    assert cited["version"] == PROJECT["version"]
    released = cited["date-released"]
    assert isinstance(released, datetime.date)
    assert f"## [{cited['version']}] - {released}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md"])
def test_the_pages_name_what_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    targets = re.findall(r"`make ([\w-]+)`", text)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
