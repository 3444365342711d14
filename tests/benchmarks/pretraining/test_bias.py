"""The bias check finds what is there, and nothing where there is nothing."""

import doctest
import json

import numpy as np
import pytest

from benchmarks.pretraining import bias, templates
from convnlp.models import model_card
from tests.run_program import run_program
from tests.small_classifier import small_classifier


@pytest.fixture(scope="module")
def classifier():
    return small_classifier(["dynamic_conv"], 16, ["bad", "good"])


@pytest.fixture(scope="module")
def preset(classifier, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bias") / "preset"
    classifier.save_to_preset(str(folder))
    return folder


def of(rows, **wanted):
    (row,) = [row for row in rows if wanted.items() <= row.items()]
    return row


def test_groups_have_as_many_persons_and_sentences_a_place_for_them():
    for groups in templates.GROUPS.values():
        assert len(groups) >= 2
        assert len({len(persons) for persons in groups.values()}) == 1
        persons = [person for group in groups.values() for person in group]
        assert len(set(persons)) == len(persons)
    sentences = [sentence for feeling in templates.TEMPLATES.values() for sentence in feeling]
    assert len({len(feeling) for feeling in templates.TEMPLATES.values()}) == 1
    assert len(set(sentences)) == len(sentences) == 24
    assert all(sentence.count("{person}") == 1 for sentence in sentences)
    assert doctest.testmod(templates).attempted


def test_a_model_that_minds_nobody_has_no_difference():
    """The probability depends on the sentence alone."""

    def positive(texts):
        return [0.1 + 0.8 * (any(word in text for word in ("good", "kind", "wonderful"))) for text in texts]

    report = bias.measure(positive)
    assert {row["difference"] for row in report["axes"]} == {0.0}
    assert {row[bound] for row in report["axes"] + report["groups"] for bound in ("low", "high")} == {0.0}
    assert {row["other label"] for row in report["axes"]} == {0.0}
    assert of(report["groups"], group="Muslim")["mean probability"] == round(0.1 + 0.8 * 3 / 24, 4)


def test_a_known_difference_is_found_with_its_interval():
    """Women lose 0.2, but in sentences of the word "was", where they lose nothing."""
    women = set(templates.GROUPS["gender"]["women"])

    def positive(texts):
        return [0.6 - 0.2 * (any(w in text.lower() for w in women) and "was" not in text) for text in texts]

    report = bias.measure(positive)
    patterns = [pattern for feeling in templates.TEMPLATES.values() for pattern in feeling]
    losses = np.array([0.0 if "was" in pattern else 0.2 for pattern in patterns])
    row = of(report["axes"], compared="gender")
    assert (row["highest"], row["lowest"]) == ("men", "women")
    assert row["difference"] == pytest.approx(losses.mean(), abs=1e-4)
    half_width = 1.96 * losses.std() / np.sqrt(24)  # of the normal distribution, nearly the bootstrap's
    assert (row["high"] - row["low"]) / 2 == pytest.approx(half_width, rel=0.1)
    assert row["low"] < losses.mean() < row["high"]
    assert row["other label"] == pytest.approx((losses > 0).mean(), abs=1e-4)
    group = of(report["groups"], group="women")
    assert group["mean probability"] == pytest.approx(0.6 - losses.mean(), abs=1e-4)
    assert group["from all groups"] == pytest.approx(-losses.mean() / 2, abs=1e-4)
    assert (group["high"] - group["low"]) / 2 == pytest.approx(half_width / 2, rel=0.1)
    assert of(report["axes"], compared="religion")["difference"] == 0


def test_a_probability_of_one_half_is_positive():
    women = templates.GROUPS["gender"]["women"]
    report = bias.measure(lambda texts: [0.5 - 0.1 * any(w in t.lower() for w in women) for t in texts])
    assert of(report["axes"], compared="gender")["other label"] == 1


def test_the_intervals_hold_what_they_say():
    """Of pure noise, some five in a hundred of the intervals exclude 0."""
    generator = np.random.default_rng(0)
    groups = {str(i): {"a": ("x", "y"), "b": ("z", "w")} for i in range(400)}
    report = bias.measure(lambda texts: generator.uniform(size=len(texts)), groups)
    excluded = [not row["low"] <= 0 <= row["high"] for row in report["groups"]]
    assert 0.02 < np.mean(excluded) < 0.1


def test_probabilities_of_a_classifier(classifier):
    found = bias.probabilities(classifier, ["the river", "a dull film"])
    assert found.shape == (2, 2)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    logits = classifier.predict(["the river", "a dull film"], verbose=0)
    np.testing.assert_allclose(np.log(found[:, 1] / found[:, 0]), logits[:, 1] - logits[:, 0], atol=1e-5)


@pytest.mark.parametrize(("named", "number"), [(None, 1), ("bad", 0), ("good", 1), ("0", 0)])
def test_the_positive_class(classifier, named, number):
    assert bias.positive_class(classifier, named) == number


@pytest.mark.parametrize("named", ["fine", "2", "-1", ""])
def test_a_class_that_there_is_not(classifier, named):
    with pytest.raises(ValueError, match=f"`--positive` must be one of bad, good, .* Received: '{named}'"):
        bias.positive_class(classifier, named)


@pytest.mark.slow
@pytest.mark.multiprocess
def test_program(preset, tmp_path):
    flags = [f"--preset={preset}", "--positive=bad", f"--json={tmp_path}/bias.json"]
    done = run_program("benchmarks.pretraining.bias", *flags)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "bias.json").read_text())
    assert report["positive"] == "bad"
    assert [row["compared"] for row in report["axes"]] == list(templates.GROUPS)
    assert len(report["groups"]) == sum(map(len, templates.GROUPS.values()))
    assert done.stdout.startswith("| compared | ")
    with open(model_card.write(str(preset), {"bias": report["axes"]}), encoding="utf-8") as file:
        assert "\n| compared | highest | lowest | difference | low | high | other label |\n" in file.read()
