"""`convnlp.report.page`: all that is in a report stands on the page, and nothing in a text becomes markup."""

import html.parser

import pytest

from convnlp.report import charts, page
from tests.serving import axe, browser
from tests.serving.small_models import free_port

HOSTILE = "<script>document.title = 'taken'</script> & \"quoted\" 'text'"


def report(**changes):
    facts = {
        "num_examples": 300,
        "tokens": {"least": 2, "median": 9, "95 %": 20, "most": 32},
        "length": 32,
        "cut": 3,
        "empty": 0,
        "equal_texts": 1,
        "unknown": 0.0123,
        "classes": {"good": 200, HOSTILE: 100},
    }
    return {
        "title": f"Classification: {HOSTILE}",
        "scores": {
            "validation": {
                "num_examples": 300,
                "values": {
                    "accuracy": {"value": 0.875, "interval": [0.83, 0.91]},
                    "loss": {"value": 0.4, "interval": None},
                },
            }
        },
        "reviewed": "validation",
        "left_out": False,
        "learned": False,
        "warnings": [HOSTILE],
        "sections": [
            {
                "kind": "table",
                "title": "Per class",
                "columns": ["class", "F1"],
                "rows": [[HOSTILE, 0.5], ["good", None]],
                "note": "How to read it.",
            },
            {
                "kind": "confusion",
                "title": "What was taken for what",
                "labels": ["good", HOSTILE],
                "counts": [[190, 10], [27, 73]],
            },
            {
                "kind": "calibration",
                "title": "Trust",
                "bins": [(0.6, 0.5, 100), (0.9, 1.0, 200)],
                "error": 0.1,
            },
            {
                "kind": "mistakes",
                "title": "Mistakes",
                "note": "",
                "rows": [
                    {
                        "text": HOSTILE,
                        "wanted": "good",
                        "found": HOSTILE,
                        "probability": 0.97,
                        "words": [[HOSTILE, 2.0], ["dull", -1.0], ["the", 0.1]],
                    },
                    {"text": HOSTILE, "wanted": "a", "found": "b", "probability": 0.9, "words": None},
                ],
            },
        ],
        "curves": {
            "loss": [[10, 1.5], [20, 0.5]],
            "valid/loss": [[20, 0.6]],
            "valid/accuracy": [[10, 0.7], [20, 0.875]],
        },
        "data": {"train": facts, "validation": facts},
        "cost": {"parameters": 6_475_818, "seconds": 80.4, "best_step": 20, "hardware": HOSTILE},
        "command": f"python -m convnlp.finetune {HOSTILE}",
        **changes,
    }


class Reader(html.parser.HTMLParser):
    """The tags and the texts of a page; an end tag that fits no start tag is an error."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self._open = [], [], []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_all_stands_on_the_page_and_no_text_becomes_markup():
    found = Reader(page.render(report()))
    names = {tag for tag, _ in found.tags}
    assert "script" not in names
    assert found.texts.count(HOSTILE) >= 8
    text = " ".join(found.texts)
    for part in ("0.875", "0.830 to 0.910", "How to read it.", "190", "6,475,818", "1.23%", "97% sure"):
        assert part in text
    assert "data.test_source" in text  # since there are only validation scores
    marks = [attributes for tag, attributes in found.tags if tag == "mark"]
    assert [mark["class"] for mark in marks] == ["for", "against"]  # a word of little weight has none


def test_what_validation_scores_are_of():
    texts = [" ".join(Reader(page.render(report(left_out=left_out))).texts) for left_out in (False, True)]
    assert ["fitted without it" in text for text in texts] == [False, True]
    assert ["also chose the step" in text for text in texts] == [True, False]
    texts = [" ".join(Reader(page.render(report(learned=learned))).texts) for learned in (False, True)]
    assert ["before its n-grams learned" in text for text in texts] == [False, True]
    without_steps = report(cost={"parameters": 1, "seconds": 1.0, "hardware": "none"})  # of fit-head
    assert "also chose the step" not in page.render(without_steps)


def test_of_many_classes_the_most_frequent_are_shown():
    facts = report()["data"]["train"] | {"classes": {f"class {i}": i for i in range(60)}}
    text = " ".join(Reader(page.render(report(data={"train": facts}))).texts)
    assert "Examples of the 50 most frequent classes" in text
    assert ["class 59" in text, "class 10 " in text, "class 9 " in text] == [True, True, False]


def test_it_is_one_file():
    found = page.render(report())
    assert "http" not in found
    assert not any(name in attributes for _, attributes in Reader(found).tags for name in ("src", "href"))


def test_what_there_is_not_leaves_no_heading():
    whole, found = page.render(report()), page.render(report(warnings=[], sections=[], curves={}))
    for heading in ("Before you trust it", "Learning curves"):
        assert heading in whole
        assert heading not in found


def test_a_chart_of_one_point_or_of_equal_values():
    for points in ([(1, 0.5)], [(1, 0.5), (2, 0.5)]):
        assert "nan" not in charts.lines([("loss", points)], "step", "")


def test_labels_do_not_stand_on_each_other():
    chart = charts.lines([("a", [(0, 1.0), (1, 0.50)]), ("b", [(0, 1.0), (1, 0.51)])], "step", "")
    places = [float(a["y"]) for tag, a in Reader(chart).tags if a.get("class", "").startswith("name")]
    assert abs(places[0] - places[1]) >= 13


@pytest.mark.skipif(
    not (browser.CHROMIUM and browser.DRIVER), reason="chromium and chromium-driver are not installed"
)
@pytest.mark.parametrize("phone", [False, True])
def test_no_screen_is_too_small_for_it(tmp_path, phone):
    (tmp_path / "report.html").write_text(page.render(report()))
    port = free_port()
    with browser.driver(port), browser.opened(port, phone=phone) as window:
        window.open((tmp_path / "report.html").as_uri())
        assert window.script("return document.title").startswith("Classification: <script>")
        assert not window.script("return document.documentElement.scrollWidth > window.innerWidth")


@axe.needed
@pytest.mark.skipif(
    not (browser.CHROMIUM and browser.DRIVER), reason="chromium and chromium-driver are not installed"
)
@pytest.mark.parametrize("phone", [False, True])
def test_who_cannot_see_it_can_use_it(tmp_path, phone):
    port = free_port()
    (tmp_path / "report.html").write_text(page.render(report()))
    (tmp_path / "wrong.html").write_text("<!doctype html><title>A page</title><img src='x.png'>")
    with browser.driver(port), browser.opened(port, phone=phone) as window:
        window.open((tmp_path / "report.html").as_uri())
        assert axe.violations(window) == []
        window.open((tmp_path / "wrong.html").as_uri())
        assert any("image-alt" in line for line in axe.violations(window))
