"""The files of the page, and who is shown them; what it does is in test_page_in_a_browser.py."""

import asyncio
import html
import json
import re
from pathlib import Path

import pytest

import convnlp.serving.page.site
from convnlp.serving.page.site import page_routes
from convnlp.serving.rest.site import build_site
from tests.serving.in_process import request

FOLDER = Path(convnlp.serving.page.site.__file__).parent
BROWSER = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")]


def ask(method, path, headers=(), names=("one", "two")):
    return asyncio.run(request(build_site(routes=page_routes(lambda: names)), method, path, b"", headers))


def test_browsers_get_the_page_and_other_clients_what_the_real_server_answers():
    status, headers, body = ask("GET", "/", BROWSER)
    assert (status, headers["content-type"], headers["vary"]) == (200, "text/html; charset=utf-8", "Accept")
    assert body.startswith(b"<!doctype html>")
    for method, accept in [("GET", ()), ("GET", [("Accept", "*/*")]), ("POST", BROWSER), ("PUT", BROWSER)]:
        status, _, body = ask(method, "/", accept)
        assert (status, body[:6]) == (404, b"<HTML>")


def test_every_file_is_served_and_nothing_else():
    page = ask("GET", "/", BROWSER)[2].decode()
    used = set(re.findall(r'(?:href|src)="(page/[^"]+)"', page))
    for path in FOLDER.glob("*.js"):
        used |= {f"page/{name}" for name in re.findall(r'from "\./(.*)"', path.read_text())}
    assert used == {f"page/{path.name}" for path in FOLDER.iterdir() if path.suffix in (".css", ".js")}
    types = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
    for name in used:
        status, headers, body = ask("GET", f"/{name}")
        assert (status, headers["content-type"]) == (200, types[Path(name).suffix])
        assert body == (FOLDER / Path(name).name).read_bytes()
    others = ("index.html", "none.js", "site.py", "../site.py")
    for path in ("/page", "/page/", "/page.css", *(f"/page/{name}" for name in others)):
        assert ask("GET", path, BROWSER)[0] == 404, path


@pytest.mark.parametrize("path", ["/", "/page/page.js"])
def test_head_is_the_answer_without_its_body(path):
    status, headers, body = ask("GET", path, BROWSER)
    assert int(headers["content-length"]) == len(body)
    assert ask("HEAD", path, BROWSER) == (status, headers, b"")


def test_the_policy_lets_nothing_in_from_elsewhere_and_the_files_keep_it():
    for path in ("/", "/page/page.css", "/page/page.js"):
        headers = ask("GET", path, BROWSER)[1]
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff"
    for path in FOLDER.glob("*.*"):  # without __pycache__
        text = path.read_text()
        assert not re.search(r"https?:|//\w+\.\w|@import|url\(", text), path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text), path
    page = (FOLDER / "index.html").read_text()
    assert not re.search(r"<style|<script(?! src)|\sstyle=|\son\w+=", page)


def test_names_of_models_stand_in_the_page_as_text():
    names = ["z", "<script>alert(1)</script>", "a \"b\" & 'c'", "größer"]
    page = ask("GET", "/", BROWSER, names)[2].decode()
    assert "<script>alert" not in page
    (content,) = re.findall('<meta name="models" content="([^"]*)">', page)
    assert json.loads(html.unescape(content)) == sorted(names)


def test_percentages_are_written_as_by_the_programs():
    for path in FOLDER.glob("*.js"):
        assert not re.findall(r"[\d}]\s%[`\"' .,]", path.read_text(encoding="utf-8"))


def test_files_are_read_alike_on_every_machine(monkeypatch):
    """Where the locale's encoding is ASCII, too."""
    read = Path.read_text

    def as_ascii(path, encoding="ascii"):
        return read(path, encoding=encoding)

    monkeypatch.setattr(Path, "read_text", as_ascii)
    for name in ("answer.js", "cut.js", "page.css"):
        assert ask("GET", f"/page/{name}")[2] == (FOLDER / name).read_bytes()
