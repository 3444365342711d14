"""The page in Chromium: typed into, submitted by keyboard, read, and compared with what REST answers."""

import contextlib
import json
import math

import pytest
import tensorflow as tf

from convnlp.serving.client import Client
from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.limits import Limits
from convnlp.serving.core.model_config import ModelConfig
from tests.serving import axe, browser, server_thread
from tests.serving.browser import CONTROL, ENTER, TAB
from tests.serving.in_process import InProcess
from tests.serving.small_models import free_port, save_affine, save_classifier, save_generator

pytestmark = [
    pytest.mark.serving,
    pytest.mark.multiprocess,
    pytest.mark.skipif(
        not (browser.CHROMIUM and browser.DRIVER), reason="chromium and chromium-driver are not installed"
    ),
]
MINUS = "\u2212"
TEXT = "A gripping film with <b>fine</b> music, good but dull\n<script>document.title = 'taken'</script>"


def save_odd(path):
    """Writes a model that takes a text, and answers neither a label nor a text."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "line")])
    def odd(line):
        lengths = tf.cast(tf.strings.length(line), tf.float32)
        return {"root": tf.sqrt(-lengths), "half_and_twice": tf.stack([lengths / 2, lengths * 2], axis=1)}

    tf.saved_model.save(tf.Module(), str(path), {"of_lines": odd})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two classifiers, a generator, a model with other answers, and one that takes no text."""
    folder = tmp_path_factory.mktemp("page")
    save_classifier(folder / "reviews" / "1", 0.6)
    save_classifier(folder / "strict" / "7", 2.0)
    save_generator(folder / "backwards" / "1")
    save_classifier(folder / "hasty" / "1", 0.03, 4, explains_pairs=False)
    save_generator(folder / "hasty_backwards" / "1", 4)
    save_odd(folder / "odd" / "1")
    save_affine(folder / "affine" / "3", 1)
    return folder


@pytest.fixture(scope="module")
def served(folder):
    """The application on these models, and its port."""
    application = InProcess(folder, limits=Limits(text_bytes=1000, timeout_ms=180_000))
    with server_thread.serving(application.app) as port:
        yield application, port
    application.runner.close()


@pytest.fixture(scope="module")
def port(served):
    return served[1]


@pytest.fixture(scope="module")
def driver_port():
    port = free_port()
    with browser.driver(port):
        yield port


@pytest.fixture(scope="module")
def window(driver_port):
    with browser.opened(driver_port) as window:
        yield window


@pytest.fixture
def page(window, port):
    """A fresh page, that has looked at the models."""
    return load(window, port)


def load(window, port):
    window.open(f"http://127.0.0.1:{port}/")
    window.wait("document.activeElement.id === 'text'")
    return window


def choose(page, select, name):
    page.script(f"document.getElementById('{select}').focus()")
    page.type(name)
    page.wait(f"document.getElementById('{select}').selectedOptions[0].text.startsWith('{name}')")


def submit(page, text, box="text"):
    """Types a text, presses Ctrl + Enter and waits for all that is asked."""
    page.script(f"document.getElementById('{box}').focus()")
    page.type(text + CONTROL + ENTER)
    page.wait("document.querySelector('article .latency, article .error')")
    page.wait("!document.getElementById('answers').hasAttribute('aria-busy')")


def texts(page, selector):
    return page.script(f"return [...document.querySelectorAll('{selector}')].map((e) => e.textContent)")


def client(port):
    return Client(f"http://127.0.0.1:{port}")


def test_a_text_is_answered_as_over_rest(page, port, tmp_path):
    choose(page, "model", "reviews")
    submit(page, TEXT)
    (answer,) = client(port).predict("reviews", [TEXT], "explain")
    assert texts(page, "article h2") == ["reviews, version 1"]
    assert texts(page, ".label") == [answer["label"]] == ["good"]
    bad, good = (f"{100 * score:.1f}%" for score in answer["scores"])
    assert texts(page, ".bars .name") + texts(page, ".bars .value") == ["good", "bad", good, bad]
    widths = page.script("return [...document.querySelectorAll('.track span')].map((e) => e.offsetWidth)")
    track = page.script("return document.querySelector('.track').offsetWidth")
    # Widths are whole pixels.
    assert widths == pytest.approx([track * score for score in reversed(answer["scores"])], abs=1)
    assert float(texts(page, ".latency")[0].split()[0]) > 0
    assert texts(page, "#message")[0].startswith(f"reviews: good, {good}, in ")

    # Every piece with its value, for screen readers, and on a ground as deep as it matters.
    words = len(TEXT.split())
    assert answer["tokens"][words:] == ["", "", ""]  # pads
    importances = answer["importances"][:words]
    values = [f"{MINUS if value < 0 else '+'}{abs(value):.2f}" for value in importances]
    spoken = [f"{token.strip()} ({value})" for token, value in zip(TEXT.split(), values, strict=True)]
    assert texts(page, ".piece") == spoken
    depths = page.script(
        "return [...document.querySelectorAll('.piece')].map((e) => +e.style.getPropertyValue('--strength'))"
    )
    assert depths == pytest.approx([1 - math.exp(-abs(value)) for value in importances], abs=1e-6)
    assert texts(page, ".against") == [f"dull ({MINUS}0.60)"]
    assert texts(page, "details td") == values

    assert page.script("return document.querySelectorAll('article b, article script').length") == 0
    assert page.script("return document.title") == "Models"
    assert page.script("return document.activeElement.id") == "text"
    assert page.complaints() == []
    page.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


def test_two_models_side_by_side(page, port):
    choose(page, "model", "reviews")
    choose(page, "other", "strict")
    submit(page, "good good dull")
    assert texts(page, "article h2") == ["reviews, version 1", "strict, version 7"]
    first, second = (
        client(port).predict(name, ["good good dull"])[0]["scores"] for name in ("reviews", "strict")
    )
    expected = [f"{100 * score:.1f}%" for scores in (first, second) for score in reversed(scores)]
    assert texts(page, ".bars .value") == expected
    assert expected[0] != expected[2]
    tops = page.script("return [...document.querySelectorAll('article')].map((e) => e.offsetTop)")
    assert tops[0] == tops[1]


def test_pairs_where_the_model_takes_them(page, port):
    choose(page, "model", "reviews")
    page.type(TAB + TAB)
    page.type("good" + TAB)
    page.type(ENTER + TAB)
    page.type("bad bad")
    submit(page, "", "second")
    row = {"text": "good", "text_pair": "bad bad"}
    (answer,) = client(port).predict("reviews", [row], "pair")
    assert texts(page, ".bars .value")[0] == f"{100 * answer['scores'][0]:.1f}%"
    assert texts(page, ".label") == ["bad"]
    assert texts(page, "article h3") == [
        "What mattered in the first text",
        "What mattered in the second text",
    ]
    assert texts(page, ".piece") == [f"good ({MINUS}0.60)", "bad (+0.60)", "bad (+0.60)"]
    choose(page, "model", "backwards")
    assert page.script("return document.getElementById('second').offsetParent === null")


def test_generated_text(page):
    choose(page, "model", "backwards")
    submit(page, ">i< not markup")
    assert texts(page, "article h3") == ["Generated text"]
    assert texts(page, "article .text") == ["pukram ton <i>"]
    assert page.script("return document.querySelectorAll('article i').length") == 0


def test_models_without_text_are_shown_and_not_offered(page):
    listed = dict(zip(texts(page, "#models strong"), texts(page, "#models li"), strict=True))
    assert (
        listed["affine"]
        == "affine version 3, AVAILABLEtakes no text; its signatures: repeat, serving_default, slow"
    )
    assert listed["strict"] == "strict version 7, AVAILABLElabels texts, labels pairs, shows what mattered"
    assert listed["backwards"] == "backwards version 1, AVAILABLEgenerates text"
    offered = [option.split(",")[0] for option in texts(page, "#model option")]
    assert offered == ["backwards", "hasty", "hasty_backwards", "odd", "reviews", "strict"]


def test_a_model_with_other_answers(page):
    choose(page, "model", "odd")
    choose(page, "other", "reviews")
    page.script("document.getElementById('second-part').open = true")
    page.script("document.getElementById('second').value = 'bad'")
    submit(page, "good")
    article = page.script("return document.querySelector('article').innerText").splitlines()
    assert [line for line in article if line][1:5] == ["Half and twice", "[2,8]", "Root", "null"]  # NaN
    assert [latency.partition("; ")[2] for latency in texts(page, ".latency")] == [
        "this model reads only the first text",
        "",
    ]


def test_an_error_is_shown_and_the_page_goes_on(page):
    choose(page, "model", "strict")
    page.script("document.getElementById('text').value = 'good '.repeat(300)")
    submit(page, "")
    error = "Text of 1500 bytes is longer than 1000 (--max_text_bytes)"
    assert texts(page, "article .error")[0] == error
    assert texts(page, "#message") == [f"Error: {error}"]
    page.script("document.getElementById('text').value = ''")
    submit(page, "bad")
    assert texts(page, ".label") == ["bad"]


@pytest.mark.parametrize("typed", ["", "  \n\t "])
def test_an_empty_text_is_asked_for(page, typed):
    choose(page, "model", "reviews")
    submit(page, "good")
    page.script(f"document.getElementById('text').value = {json.dumps(typed)}")
    page.script("document.querySelector('button').focus()")
    page.type(ENTER)
    assert page.wait("document.getElementById('message').textContent") == "Type or paste a text first."
    assert page.script("return document.activeElement.id") == "text"
    assert page.script("return document.activeElement.ariaInvalid") == "true"
    assert texts(page, "article") == []  # the earlier answer is none to this
    submit(page, "bad")
    assert page.script("return document.getElementById('text').ariaInvalid") == "false"
    assert texts(page, ".label") == ["bad"]


def test_colours_have_the_same_depth_in_every_answer(page):
    choose(page, "model", "reviews")
    choose(page, "other", "strict")
    submit(page, "good and dull and good")
    depths = page.script(
        "return [...document.querySelectorAll('.piece')].map((e) => +e.style.getPropertyValue('--strength'))"
    )
    weak, strong = 1 - math.exp(-0.6), 1 - math.exp(-2.0)
    assert depths == pytest.approx([weak, 0, weak, 0, weak, strong, 0, strong, 0, strong], abs=1e-6)
    falls = ("45.1%", "86.5%")
    for line, fall in zip(texts(page, ".legend"), falls, strict=True):
        assert line.endswith(f"Strongest: \u201cgood\u201d; without it, that falls by {fall}.")


def test_where_nothing_mattered_much_that_is_said(page):
    choose(page, "model", "hasty")
    submit(page, "good and fine")
    assert texts(page, ".piece") == ["good (+0.03)", "and (+0.00)", "fine (+0.03)"]
    (legend,) = texts(page, ".legend")
    assert legend.startswith("Nothing mattered much: without any one piece, the probability of")
    assert "Blue" not in legend
    assert texts(page, ".clearly") == []


def test_a_text_that_was_cut_is_said_to_be(page):
    choose(page, "model", "hasty")
    choose(page, "other", "reviews")
    submit(page, "one two  three Four")
    assert texts(page, ".cut") == []
    submit(page, " good\n")
    words = "\u201cone two three Four\u201d"
    sentence = f"The text was cut: the model reads it up to {words}, and nothing after that."
    assert texts(page, ".cut") == [sentence]
    assert page.script("return document.querySelector('article').querySelectorAll('.cut').length") == 1
    assert texts(page, "#message")[0].endswith(f" hasty: {sentence}")


def test_what_generates_says_it_too(page):
    choose(page, "model", "hasty_backwards")
    choose(page, "other", "backwards")
    submit(page, "one two three")
    assert texts(page, ".cut") == []
    submit(page, " four")
    assert texts(page, ".cut") == ["The model reads no more than this: the last word may have been cut."]
    submit(page, " five")
    assert texts(page, ".cut") == ["The text was cut: it is longer than what the model reads."]


def test_a_pair_that_was_cut_is_said_to_be(page):
    choose(page, "model", "hasty")
    choose(page, "other", "reviews")
    page.script("document.getElementById('second-part').open = true")
    page.script("document.getElementById('second').value = 'one two'")
    submit(page, "good")
    assert texts(page, ".cut") == []
    submit(page, " and fine")
    assert texts(page, ".cut") == ["The text was cut: it is longer than what the model reads."]
    assert page.script("return document.querySelector('article').querySelectorAll('.cut').length") == 1


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("ab cd", [" a", "b", " cd"], ""),
        ("  Ab\u00a0\tcd\n", [" ab", " c", "d", "", ""], ""),
        ("ab cd ef", [" ab", " c", "d", ""], "ab cd"),
        ("\ufb01ne \uff21", [" fine", " A"], ""),  # ligatures and wide letters, by NFKC
        ("x\u200by \u00ad", [" x", "y"], ""),  # invisible ones
        ("a \u2603\u2603 b c", [" a", " \u2047 ", " b"], "a \u2047  b"),
        ("a \u2603\u2603 b", [" a", " ", " \u2047 ", " b"], ""),
        ("a \u2603\u2603", [" a", " \u2047 "], None),  # nobody knows how many it stands for
        ("word " * 50, [" word"] * 50, ""),
        ("word " * 50, [" word"] * 49, "\u2026 word word word word word word"),
        ("ab cd", [" xy"], None),
        ("ab cd", ["", ""], None),
    ],
)
def test_how_far_pieces_cover_a_text(page, text, tokens, expected):
    arguments = f"{json.dumps(text)}, {json.dumps(tokens)}"
    found = page.script(f"return import('/page/cut.js').then((cut) => cut.cutAfter({arguments}) ?? null)")
    assert found == expected


@pytest.fixture
def stopped(window, served):
    """A page that has asked once; its server, which can be stopped and started."""
    servers = contextlib.ExitStack()
    port = servers.enter_context(server_thread.serving(served[0].app))
    load(window, port)
    choose(window, "model", "reviews")
    submit(window, "good")
    servers.close()
    yield window, lambda: servers.enter_context(server_thread.serving(served[0].app, port))
    window.open("about:blank")  # which keeps no connection
    servers.close()


def test_a_server_that_stops(stopped):
    page, start = stopped
    listed = texts(page, "#models li")
    submit(page, " and fine")
    assert texts(page, "article .error") == ["The server does not answer."]
    assert texts(page, "#message") == ["Error: The server does not answer."]
    assert texts(page, "#notice") == ["The server does not answer. Below is what it served last."]
    shown = page.script("return document.body.innerText")
    assert "undefined" not in shown
    assert "takes a text" not in shown
    assert texts(page, "#models li") == listed
    assert page.script("return document.getElementById('text').offsetParent !== null")
    assert page.script("return document.getElementById('text').value") == "good and fine"
    assert texts(page, "#model option")[0].startswith("backwards")

    start()
    page.wait("!document.getElementById('notice').textContent")  # it looks again by itself
    assert page.script("return document.getElementById('text').value") == "good and fine"
    submit(page, "")
    assert texts(page, ".label") == ["good"]


def test_a_server_that_stops_unasked(stopped):
    page, _ = stopped
    page.script("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait("document.getElementById('notice').textContent.startsWith('The server does not answer.')")
    assert "undefined" not in page.script("return document.body.innerText")
    assert texts(page, ".label") == ["good"]  # the answer that there is stays
    assert page.script("return document.getElementById('form').offsetParent !== null")


def test_all_by_keyboard_and_with_names(page):
    assert page.script(
        "return [...document.querySelectorAll('select, textarea')].every((e) => e.labels.length)"
    )
    choose(page, "model", "reviews")
    order = ["model"]
    for _ in range(4):
        page.type(TAB)
        order.append(page.script("return document.activeElement.id || document.activeElement.tagName"))
    assert order == ["model", "other", "text", "SUMMARY", "BUTTON"]
    assert page.script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert page.script("return document.getElementById('message').getAttribute('aria-live')") == "polite"


def test_dark(page):
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = page.script(ground)
    page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert page.script(ground) != light
    page.command("Emulation.setEmulatedMedia", features=[])


@axe.needed
def test_who_cannot_see_it_can_use_it(page):
    assert axe.violations(page) == []
    choose(page, "model", "reviews")
    choose(page, "other", "strict")
    submit(page, "good but dull")
    page.script("for (const part of document.querySelectorAll('details')) part.open = true")
    assert axe.violations(page) == []


def test_on_a_phone_nothing_is_wider_than_the_screen(driver_port, port, tmp_path):
    with browser.opened(driver_port, phone=True) as phone:
        load(phone, port)
        choose(phone, "model", "reviews")
        choose(phone, "other", "strict")
        submit(phone, "good " + "longword" * 30 + " bad")
        phone.script("for (const part of document.querySelectorAll('details')) part.open = true")
        assert phone.script("return [innerWidth, document.documentElement.scrollWidth]") == [360, 360]
        first, second = phone.script(
            "return [...document.querySelectorAll('article')].map((e) => e.offsetTop)"
        )
        assert first < second
        # Below 16 pixels, phones zoom into the box that is typed in.
        assert (
            phone.script("return parseFloat(getComputedStyle(document.getElementById('text')).fontSize)")
            >= 16
        )
        phone.screenshot(tmp_path / "phone.png")
        if axe.IS_GIVEN:
            assert axe.violations(phone) == []


def test_versions_that_come_are_seen_and_so_is_a_broken_one(page, folder, served):
    save_classifier(folder / "reviews" / "2", 3.0)
    (folder / "strict" / "8").mkdir()
    (folder / "strict" / "8" / "saved_model.pb").write_bytes(b"truncated")
    configs = [ModelConfig(name, str(folder / name), None) for name in ("reviews", "strict")]
    with contextlib.suppress(ServingError):
        served[0].manager.reload(configs)
    choose(page, "model", "reviews")
    submit(page, "good")  # after which the page looks again
    listed = [line for line in texts(page, "#models li") if line.startswith(("reviews", "strict"))]
    assert [line.partition(", ")[0] for line in listed] == [
        "reviews version 2",
        "reviews version 1",
        "strict version 8",
        "strict version 7",
    ]
    assert all(", AVAILABLElabels texts" in line for line in (*listed[:2], listed[3]))
    assert "LOADING" in listed[2]
    assert "saved_model.pb" in listed[2]  # in the error
    choose(page, "model", "reviews, version 1")
    choose(page, "other", "reviews, version 2")
    submit(page, "")
    assert texts(page, ".bars .value")[::2] == ["76.9%", "99.8%"]  # 1 / (1 + exp(-2 * 0.6)) and of 3.0
