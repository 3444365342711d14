"""The presets in the package: the table and the folders agree, and what is there is fit to be shipped."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest

from convnlp.models import Seq2SeqLM, checksums, model_card, packed_preset, preset_weights
from convnlp.presets import PRESETS
from tests.documentation import ROOT
from tests.small_classifier import small_classifier

MOST_BYTES = 20e6  # a preset, in the repository and in the wheel
SECTIONS = ("Training", "Sources", "Scores", "Speed", "Cost", "Vocabulary", "Known weaknesses", "Bias", "Use")


def problems(presets, folder):
    """What keeps a table of presets and their folder from being shipped: a list of str."""
    there = {path.name for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"}
    found = [f"{name} is listed, without files" for name in presets.keys() - there]
    found += [f"{name} is there, and not listed" for name in there - presets.keys()]
    for name in sorted(there & presets.keys()):
        found += [f"{name}: {problem}" for problem in _problems(presets[name], folder / name)]
    return found


def _problems(entry, folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    if entry["kaggle_handle"] != str(folder):
        yield f"is listed at {entry['kaggle_handle']}"
    if not entry["metadata"]["description"].endswith("."):
        yield "has no description in whole sentences"
    if entry["metadata"]["params"] != json.loads((folder / "metadata.json").read_text())["parameter_count"]:
        yield "is listed with another number of parameters"
    if sum(path.stat().st_size for path in files) > MOST_BYTES:
        yield "is too large"
    if preset_weights.stored_in(folder) != "float16":
        yield "is not packed"
    own = {path.relative_to(folder).as_posix() for path in files}
    if own != {*checksums.files(folder), checksums.FILE}:
        yield "holds other files, or no sums"
    else:
        checksums.check(str(folder))
    card = (folder / "README.md").read_text(encoding="utf-8") if "README.md" in own else ""
    if missing := [title for title in SECTIONS if f"\n## {title}\n" not in card]:
        yield f"has a card without {', '.join(missing)}"
    if f'from_preset("{folder.name}"' not in card:
        yield "has a card with another name"
    for path in folder.glob("*.json"):
        value = json.loads(path.read_text(encoding="utf-8"))
        if packed_preset.without_folders(value) != value:
            yield f"has an absolute path in {path.name}"


def filled(language_model, before, after):
    """The first piece that the decoder writes for a gap between two texts."""
    tokenizer, backbone = language_model.preprocessor.tokenizer, language_model.backbone
    gap = tokenizer.sentinel_token_ids[0]
    pieces = [*tokenizer.tokenize(before), gap, *tokenizer.tokenize(after), tokenizer.end_token_id]
    written = np.array([[tokenizer.start_token_id, gap]])
    hidden = backbone.decode(written, backbone.encode(np.array([pieces], "int32")))
    return tokenizer.detokenize([int(np.argmax(backbone.logits(hidden)[0, -1]))])


def test_the_decoder_fills_gaps():
    language_model = Seq2SeqLM.from_preset("dynamic_conv_mini_en")
    assert filled(language_model, "She opened the", "and walked into the room.") == "door"
    assert filled(language_model, "The President of the United", "spoke on Monday.") == "States"
    assert filled(language_model, "Thank you very", "for your letter.") == "much"


def test_what_is_in_the_package():
    assert problems(PRESETS, ROOT / "convnlp" / "presets") == []


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shipped")
    classifier = small_classifier(["dynamic_conv"], 16, ["bad", "good"])
    classifier.save_to_preset(str(folder / "saved"))
    packed_preset.pack(str(folder / "saved"), str(folder / "presets" / "tiny_en"))
    entries = {
        "tokens": 1,
        "sources": [{"name": "none", "licence": "none"}],
        "scores": {"accuracy": 0.5},
        "speed": {"texts per second": 1},
        "cost": classifier.backbone.cost(16),
        "vocabulary": [{"set": "none"}],
        "weaknesses": ["It is not trained."],
        "bias": [{"compared": "nobody"}],
    }
    model_card.write(str(folder / "presets" / "tiny_en"), entries)
    return folder, classifier.backbone.count_params()


@pytest.fixture
def copy(shipped, tmp_path):
    """(table, folder) without a problem."""
    folder = pathlib.Path(shutil.copytree(shipped[0] / "presets", tmp_path / "presets"))
    metadata = {"description": "A tiny one.", "params": shipped[1]}
    return {"tiny_en": {"metadata": metadata, "kaggle_handle": str(folder / "tiny_en")}}, folder


def test_a_packed_preset_with_its_card_is_fit_to_be_shipped(copy):
    assert problems(*copy) == []


def rewrite(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
    checksums.write(str(path.parent))


DEFECTS = {
    "is listed, without files": lambda table, folder: table.update(other_en={}),
    "is there, and not listed": lambda table, folder: (folder / "other_en").mkdir(),
    "is listed at": lambda table, folder: table["tiny_en"].update(kaggle_handle="elsewhere"),
    "no description": lambda table, folder: table["tiny_en"]["metadata"].update(description="tiny"),
    "number of parameters": lambda table, folder: table["tiny_en"]["metadata"].update(params=7),
    "too large": lambda table, folder: os.truncate(folder / "tiny_en" / "README.md", 21_000_000),
    "other files": lambda table, folder: (folder / "tiny_en" / "notes.txt").touch(),
    "no sums": lambda table, folder: (folder / "tiny_en" / checksums.FILE).unlink(),
    "a card without Speed": lambda table, folder: model_card.write(
        str(folder / "tiny_en"), {"tokens": 1, "sources": [{"name": "a", "licence": "b"}], "scores": {"a": 1}}
    ),
    "another name": lambda table, folder: (
        shutil.copytree(folder / "tiny_en", folder / "other_en")
        and table.update(
            other_en=table["tiny_en"] | {"kaggle_handle": str(folder / "other_en")},
        )
    ),
    "an absolute path": lambda table, folder: rewrite(
        folder / "tiny_en" / "experiment.json", {"tokenizer": "/data/spm.model"}
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(copy, defect):
    DEFECTS[defect](*copy)
    assert [problem for problem in problems(*copy) if defect in problem]


def test_weights_that_were_not_packed_are_found(shipped, copy):
    table, folder = copy
    shutil.rmtree(folder / "tiny_en")
    shutil.copytree(shipped[0] / "saved", folder / "tiny_en")
    assert "tiny_en: is not packed" in problems(table, folder)


def test_a_damaged_file_is_found(copy):
    table, folder = copy
    (folder / "tiny_en" / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json is not the file that was saved"):
        problems(table, folder)
