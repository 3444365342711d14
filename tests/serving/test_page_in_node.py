"""The page's scripts in Node.js, asking a real server: what they show of pairs of texts."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import convnlp.serving.page.site
from convnlp.serving.client import Client
from tests.serving import server_thread
from tests.serving.in_process import InProcess
from tests.serving.small_models import save_classifier

NODE = shutil.which("node")
pytestmark = [
    pytest.mark.serving,
    pytest.mark.multiprocess,
    pytest.mark.skipif(not NODE, reason="nodejs is not installed"),
]
MINUS = "\u2212"
FIRST, SECOND = "good but <b>dull</b> bad", "bad bad and fine"


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """Of a server with a classifier, one that reads four words, and one without `explain_pair`."""
    folder = tmp_path_factory.mktemp("models")
    save_classifier(folder / "reviews" / "1", 0.6)
    save_classifier(folder / "hasty" / "1", 0.03, 4)
    save_classifier(folder / "older" / "1", 2.0, 4, explains_pairs=False)
    application = InProcess(folder)
    with server_thread.serving(application.app) as port:
        yield port
    application.runner.close()


@pytest.fixture
def ask(port, tmp_path):
    """Asks the page, and returns what it shows: (message, list of articles) for each question."""
    for path in Path(convnlp.serving.page.site.__file__).parent.glob("*.js"):
        shutil.copy(path, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')  # without which Node reads .js differently

    def ask(*questions):
        script = Path(__file__).with_name("page_in_node.mjs")
        command = [NODE, script, f"http://127.0.0.1:{port}/", json.dumps(questions)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [(each["message"], each["articles"]) for each in json.loads(done.stdout)]

    return ask


def texts(article, name):
    """The texts of the elements of an article that have a tag, or a class if the name begins with a dot."""
    has = (lambda e: name[1:] in e["class"].split()) if name[0] == "." else (lambda e: e["tag"] == name)
    return [each["text"] for each in article if has(each)]


def signed(value):
    return f"{MINUS if value < 0 else '+'}{abs(value):.2f}"


def test_the_texts_of_a_pair_are_explained_apart(ask, port):
    ((_, (article,)),) = ask({"model": "reviews", "text": FIRST, "second": SECOND})
    pair = {"text": FIRST, "text_pair": SECOND}
    (answer,) = Client(f"http://127.0.0.1:{port}").predict("reviews", [pair], "explain_pair")
    count = len(FIRST.split())
    assert answer["tokens"][count] == ""
    assert texts(article, "h3") == ["What mattered in the first text", "What mattered in the second text"]
    lines = texts(article, ".tokens")
    assert len(lines) == 2
    places = [*range(count), *range(count + 1, count + 1 + len(SECOND.split()))]
    values = [signed(answer["importances"][place]) for place in places]
    words = [*FIRST.split(), *SECOND.split()]
    spoken = [f"{word} ({value})" for word, value in zip(words, values, strict=True)]
    assert texts(article, ".piece") == spoken
    assert lines == [" " + " ".join(spoken[:count]), " " + " ".join(spoken[count:])]
    assert texts(article, "td") == values
    assert texts(article, "th")[2:] == [
        "The first text",
        *FIRST.split(),
        "The second text",
        *SECOND.split(),
    ]
    (legend,) = texts(article, ".legend")
    assert texts(article, ".label") == ["bad"]
    assert "Strongest: \u201cgood\u201d in the first text; without it, that rises by 82.2%." in legend
    assert texts(article, "b") == texts(article, ".cut") == []


def test_a_single_text_is_explained_as_before(ask):
    ((_, (article,)),) = ask({"model": "reviews", "text": FIRST})
    assert texts(article, "h3") == ["What mattered"]
    assert texts(article, "th") == ["Piece", "Importance", *FIRST.split()]
    assert "Strongest: \u201cgood\u201d; without it" in texts(article, ".legend")[0]


def test_which_text_of_a_pair_was_cut(ask):
    whole, second, both, older = ask(
        {"model": "hasty", "text": "one two three", "second": "four"},
        {"model": "hasty", "text": "one two three", "second": "four five"},
        {"model": "hasty", "text": "one two three four five", "second": "six"},
        {"model": "older", "text": "one two three", "second": "four five"},
    )
    assert texts(whole[1][0], ".cut") == []
    sentence = "was cut: the model reads it up to \u201c{}\u201d, and nothing after that."
    assert texts(second[1][0], ".cut") == ["The second text " + sentence.format("four")]
    assert texts(both[1][0], ".cut") == ["The first text " + sentence.format("one two three four")]
    assert texts(both[1][0], ".quiet")[1] == "The model has not read any piece of the second text."
    assert texts(older[1][0], ".cut") == ["The text was cut: it is longer than what the model reads."]
    assert second[0].endswith(" hasty: The second text " + sentence.format("four"))


def test_a_model_without_the_signature_only_labels_pairs(ask):
    ((_, (older, newer)),) = ask({"model": "older", "other": "reviews", "text": FIRST, "second": "fine"})
    assert len(texts(older, ".label")) == len(texts(newer, ".label")) == 1
    assert texts(older, ".piece") == []
    assert len(texts(newer, ".piece")) == len(FIRST.split()) + 1
