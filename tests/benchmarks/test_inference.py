"""`benchmarks.inference`: what is asked, who may be timed, whose turn it is, what the page says of it."""

import contextlib
import json
import pathlib
import re
import subprocess
import sys
import types

import numpy as np
import pytest

from benchmarks import inference, timing
from benchmarks.inferring import asks, builds, comparisons, model, page, parity
from benchmarks.inferring.measuring import Candidate, Measurement
from benchmarks.inferring.pieces import Pieces
from benchmarks.inferring.turns import Worker, WorkerError
from benchmarks.inferring.variants import VARIANTS, chosen
from convnlp.export import edge_model
from tests import corpus

TEXTS = ["the old river", "a", "the quiet teacher follows the narrow bridge", "music " * 40]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of width 16, and what the program keeps of it."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 24}
        monkeypatch.setitem(model.SIZES, "tiny", sizes)
        ours = model.classifier("lightweight_conv", "tiny", 24, corpus.tiny_proto())
        monkeypatch.setattr(model, "classifier", lambda *_: ours)
        directory = tmp_path_factory.mktemp("inference") / "lightweight_conv-tiny-24"
        model.written(directory, "lightweight_conv", "tiny", 24)
    return directory


def asked_of(folder):
    return asks.asks([8, 16], [8], TEXTS, Pieces(folder), 100)


# === What is asked ===


def test_peers_read_the_ids_that_we_read(folder):
    ours = builds.Builds(folder, TEXTS)
    path = ours.build("litert_dynamic")
    ids = Pieces(folder)(TEXTS)
    assert ids.dtype == np.int32
    assert ids.shape == (4, 24)  # the last text is cut
    np.testing.assert_array_equal(ids, edge_model.EdgeModel(path).token_ids(TEXTS))
    np.testing.assert_array_equal(ids, ours._model.preprocessor(TEXTS)["token_ids"])


def test_asks_are_the_same_for_all_processes(folder, tmp_path):
    found = asked_of(folder)
    assert [ask.name for ask in found] == [
        "n = 8",
        "n = 16",
        "32 x 8",
        "mixed ids x 32",
        "texts x 1",
        "texts x 32",
    ]
    assert [ask.num_texts for ask in found] == [1, 1, 32, 4, 4, 4]
    assert [ask.longest for ask in found] == [8, 16, 8, 24, 0, 0]
    assert all((batch != 0).all() for ask in found[:3] for batch in ask.batches)
    asks.write(tmp_path / "asks.json", found)
    for ask, again in zip(found, asks.read(tmp_path / "asks.json").values(), strict=True):
        assert (ask.name, ask.is_text) == (again.name, again.is_text)
        for one, other in zip(ask.batches, again.batches, strict=True):
            np.testing.assert_array_equal(one, other)


# === Who may be timed ===


def test_log_probabilities_count_as_logits():
    logits = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    reference = parity.centred(logits)
    assert parity.error(np.log(scores), reference) < 1e-12
    assert parity.error(logits + np.array([[0.25, 0, 0], [0, 0, 0]]), reference) == pytest.approx(
        0.25 * 2 / 3
    )
    assert parity.error(np.full([2, 3], np.nan), reference) == np.inf
    assert parity.error(logits[:1], reference) == np.inf


class _Clock:
    """Makes workers that are asked in turn, and remembers the order."""

    def __init__(self, outputs):
        self.outputs, self.log = outputs, []

    def start(self, key, path, threads, asks_path, log):
        if self.outputs[key] is None:
            raise WorkerError("no such tool")
        return types.SimpleNamespace(
            seconds=1.5,
            first_bytes=2_000_000,
            ask=lambda do, name="": self._ask(key, do, name),
            sampler=lambda name: types.SimpleNamespace(sample=lambda: self._sample(key, name)),
            close=lambda: self.log.append(("close", key, "")),
        )

    def _ask(self, key, do, name):
        if do == "peak":
            return {"bytes": 3_000_000}
        self.log.append((do, key, name))
        return {"outputs": self.outputs[key]}

    def _sample(self, key, name):
        self.log.append(("sample", key, name))
        seconds = 0.002 * sum(entry == self.log[-1] for entry in self.log)  # 2 ms, then 4 ms, ...
        return timing.Sample(seconds, 2 * seconds, 0.0, 7)


REFERENCE = parity.centred([[2.0, -2.0]])
ASKS = [asks.Ask("n = 8", False, [np.ones([1, 8], int)]), asks.Ask("texts x 1", True, [["a"], ["b"]])]


def candidate(key, mixer="lightweight_conv"):
    return Candidate(VARIANTS[key], mixer, "path", 5.0, dict.fromkeys(("n = 8", "texts x 1"), REFERENCE))


def measured(outputs, *candidates, asked=ASKS):
    clock = _Clock(outputs)
    found = Measurement(candidates or [candidate(key) for key in outputs], asked, threads=2, repeats=3)
    names = list(found.run("asks.json", None, clock.start))
    assert names == [ask.name for ask in asked]
    return found, clock.log


def test_processes_take_turns_and_the_bookkeeping_is_theirs():
    keys = ["litert-int8", "onnxruntime-int8"]
    found, log = measured({keys[0]: [[2.0, -2.0]], keys[1]: [[2.0, -1.8]]})
    samples = [key for do, key, name in log if (do, name) == ("sample", "n = 8")]
    assert samples == keys * 3
    assert log.index(("answer", keys[1], "n = 8")) < log.index(("sample", keys[0], "n = 8"))
    assert [entry for entry in log if entry[0] == "close"] == [("close", key, "") for key in keys[::-1]]
    cell = next(cell for cell in found.cells if (cell["variant"], cell["ask"]) == (keys[1], "texts x 1"))
    # 2, 4 and 6 ms for both texts: a text in 2 ms, on two threads 250 texts a second and core.
    assert cell["milliseconds"] == pytest.approx(2.0)
    assert cell["lower_quartile"] == pytest.approx(1.5)
    assert cell["texts_per_second_per_core"] == pytest.approx(250)
    assert cell["cores_in_use"] == pytest.approx(2.0)
    assert cell["peak_megabytes"] == 3.0
    assert [row["error"] for row in found.variants] == [0.0, pytest.approx(0.1)]
    assert [row["first_megabytes"] for row in found.variants] == [2.0, 2.0]


def test_what_differs_is_listed_and_not_timed():
    wrong, right = [[0.0, -2.0]], [[2.0, -2.0]]
    found, log = measured({"openvino-int8": wrong, "litert-int8": right, "openvino-float32": None})
    assert {cell["variant"] for cell in found.cells} == {"litert-int8"}
    assert not [entry for entry in log if entry[:2] == ("sample", "openvino-int8")]
    assert [(row["variant"], row["ask"]) for row in found.failed] == [
        ("openvino-float32", ""),
        ("openvino-int8", "n = 8"),
        ("openvino-int8", "texts x 1"),
    ]
    assert found.failed[1]["why"] == "a logit differs by 1, more than 0.3"


def test_a_type_may_differ_by_what_it_explains():
    off = [[2.0, -1.88]]  # by 0.06 of 2
    found, _ = measured(dict.fromkeys(["openvino-float32", "openvino-bfloat16", "openvino-int8"], off))
    assert {cell["variant"] for cell in found.cells} == {"openvino-bfloat16", "openvino-int8"}


def test_a_model_of_its_own_is_held_against_nothing_and_asked_no_longer_rows():
    minilm = Candidate(VARIANTS["minilm-int8"], "", "path", 23.0, None)
    long = asks.Ask("n = 2048", False, [np.ones([1, 2048], int)])
    found, log = measured({"minilm-int8": [[0.0, 9.0]]}, minilm, asked=[*ASKS, long])
    assert [cell["ask"] for cell in found.cells] == ["n = 8", "texts x 1"]
    assert not [entry for entry in log if entry[0] == "answer"]
    assert found.variants[0]["error"] is None


# === Processes ===


@pytest.mark.multiprocess
def test_a_process_answers_as_the_model_does(folder, tmp_path):
    made = builds.Builds(folder, TEXTS)
    found = asked_of(folder)
    asks.write(tmp_path / "asks.json", found)
    reference = made.reference(found)
    path = made.build("litert_fp32")
    with open(tmp_path / "log.txt", "w") as log:
        with contextlib.closing(Worker("litert-float32", path, 1, tmp_path / "asks.json", log)) as worker:
            assert 0 < worker.seconds < 60
            for ask in found:
                outputs = np.array(worker.ask("answer", ask.name)["outputs"])
                assert parity.error(outputs, reference[ask.name]) < 1e-4
            sample = worker.sampler("n = 8").sample()
            assert sample.seconds > 0
            assert sample.calls > 1
            assert worker.ask("peak")["bytes"] >= worker.first_bytes > 1e6
            with pytest.raises(WorkerError, match="KeyError: 'n = 9'"):
                worker.ask("answer", "n = 9")
        with pytest.raises(WorkerError, match="the process ended with 1"):
            Worker("litert-float32", tmp_path / "none.tflite", 1, tmp_path / "asks.json", log)


@pytest.mark.multiprocess
def test_a_process_has_no_other_tool_in_its_memory():
    """Or memory and start would be those of TensorFlow, for every peer."""
    code = "import sys, benchmarks.inferring.worker, convnlp.export.edge_model; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"numpy", "sentencepiece", "benchmarks"} <= loaded
    assert not loaded & {"tensorflow", "keras", "torch", "onnxruntime", "openvino", "absl"}


# === What the page says ===


def cell(variant, mixer, ask, milliseconds, threads=1):
    rate = 1000 / milliseconds / threads * (32 if "x 32" in ask else 1)
    return {
        "variant": variant,
        "mixer": mixer,
        "threads": threads,
        "ask": ask,
        "milliseconds": milliseconds,
        "lower_quartile": milliseconds / 2,
        "texts_per_second_per_core": rate,
        "peak_megabytes": 100 * milliseconds,
        "timing": {"samples": [milliseconds]},
    }


CONVOLUTION, ATTENTION = model.MIXINGS
CELLS = [
    cell(variant, mixer, ask, milliseconds * scale)
    for ask, scale in (("n = 128", 1), ("texts x 32", 10))
    for variant, mixer, milliseconds in (
        ("saved_model-float32", CONVOLUTION, 8.0),
        ("litert-int8", CONVOLUTION, 2.0),
        ("pytorch-bfloat16", CONVOLUTION, 6.0),
        ("onnxruntime-int8", CONVOLUTION, 3.0),
        ("litert-int8", ATTENTION, 1.0),
        ("openvino-bfloat16", ATTENTION, 4.0),
        ("minilm-int8", "", 30.0),
    )
]


def test_the_fastest_of_ours_stands_beside_the_fastest_of_theirs():
    found = {(row.name, row.setting["ask"]): row for row in comparisons.rows(CELLS, "mini")}
    same = found[comparisons.SAME, "n = 128"]
    assert (same.ours, same.peer, same.ratio, same.goal, same.met) == (2.0, 3.0, 1.5, 1.2, True)
    assert same.detail == {"ours": "LiteRT int8", "peer": "ONNX Runtime int8 lightweight_conv"}
    transformer = found[comparisons.TRANSFORMER, "n = 128"]
    assert (transformer.ratio, transformer.goal, transformer.met) == (2.0, 2.2, False)
    pytorch = found[comparisons.VS_PYTORCH, "n = 128"]
    assert (pytorch.ratio, pytorch.goal) == (0.75, None)
    batches = found[comparisons.BATCHES, "texts x 32"]
    assert (batches.ours, batches.unit, batches.ratio) == (1600.0, "texts/s per core", 1.5)
    assert batches.detail["peer"] == "ONNX Runtime int8 lightweight_conv"
    assert found[comparisons.IN_USE, "texts x 32"].ratio == pytest.approx(15)
    assert not [name for name, _ in found if name == comparisons.BFLOAT16]  # of which there is one


def result():
    names = dict.fromkeys((each["variant"], each["mixer"]) for each in CELLS)
    return {
        "machine": {"cpu": "a processor", "flags": ["avx2", "amx_bf16"], "threads": [1]},
        "settings": {},
        "models": {},
        "variants": [
            {
                "variant": variant,
                "mixer": mixer,
                "threads": 1,
                "seconds_to_first_answer": 0.25,
                "first_megabytes": 61.0,
                "disk_megabytes": 6.5 + place,
                "error": None if variant == "minilm-int8" else 0.0625,
            }
            for place, (variant, mixer) in enumerate(names)
        ],
        "cells": CELLS,
        "failed": [
            {
                "variant": "openvino-int8",
                "mixer": CONVOLUTION,
                "threads": 1,
                "ask": "n = 128",
                "why": "a | b",
            }
        ],
        "rows": [row.as_dict() for row in comparisons.rows(CELLS, "mini")],
    }


def test_the_page_states_what_the_json_has(tmp_path):
    path = tmp_path / "inference.md"
    path.write_text(f"head\n{page.BEGIN}\n{inference.pages.END}\ntail\n")
    inference.write_page(result(), "mini", path)
    text, written = path.read_text(), json.loads((tmp_path / "inference.json").read_text())
    assert written["mini"]["cells"][0]["milliseconds"] == 8.0
    assert "timing" not in written["mini"]["cells"][0]
    assert text.startswith("head\n")
    assert text.endswith("tail\n")
    assert "**2 of 3 goals met**" in text
    assert "| compared | size | threads | n = 128 | texts x 32 |" in text
    assert "| one text vs the same model elsewhere | mini | 1 | **1.5** (1.2) |  |" in text
    assert "| one text vs the Transformer | mini | 1 | 2 (2.2) |  |" in text
    assert "| texts vs all-MiniLM-L6 | mini | 1 |  | 15 |" in text
    assert "| LiteRT int8 | convolution | **2 (1)** | **1,600** |" in text
    assert "| LiteRT int8 | Transformer | **1 (0.5)** | **3,200** |" in text
    assert "| ONNX Runtime int8 | convolution | 3 (1.5) | 1,067 |" in text
    assert "| LiteRT int8 | convolution | 7.5 | 0.25 | 61 | 2,000 | 0.0625 |" in text
    assert "| all-MiniLM-L6 int8 | other | 12.5 | 0.25 | 61 | 30,000 |  |" in text
    assert "| OpenVINO int8 | convolution | 1 | n = 128 | a / b |" in text
    assert "| flags | avx2, amx_bf16 |" in text
    for table in re.split(r"\n\n", text):
        lines = [line for line in table.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1


def test_costs_are_those_of_the_first_number_of_threads(tmp_path):
    path = tmp_path / "inference.md"
    path.write_text(f"{page.BEGIN}\n{inference.pages.END}\n")
    found = result()
    for key in ("variants", "cells"):
        found[key] = found[key] + [{**each, "threads": 2} for each in found[key]]
    inference.write_page(found, "mini", path)
    text = path.read_text()
    assert re.findall("^## (.*)", text, re.M) == ["Size mini, 1 thread", "Size mini, 2 threads"]
    assert text.count("MB on disk") == 1


def test_a_second_size_joins_the_first(tmp_path):
    path = tmp_path / "inference.md"
    path.write_text(f"{page.BEGIN}\n{inference.pages.END}\n")
    for size in ("small", "mini", "small"):
        inference.write_page(result(), size, path)
    assert re.findall("^## (.*)", path.read_text(), re.M) == ["Size mini, 1 thread", "Size small, 1 thread"]


def test_the_page_of_the_docs_has_its_marks():
    text = pathlib.Path(inference.__file__).parents[1].joinpath("docs", "inference.md").read_text()
    assert page.BEGIN + "\n" in text
    assert inference.pages.END in text


# === Flags ===


def args(**given):
    defaults = {
        "lengths": ["8"],
        "batch_lengths": ["8"],
        "threads": ["1"],
        "variants": [],
        "minilm": None,
        "json": None,
    }
    return types.SimpleNamespace(
        **{**defaults, "mixers": [CONVOLUTION], "docs_dir": "", "page": "inference.md", **given}
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lengths": ["8", "x"]}, "`--lengths` must be numbers of 2 or more. Received: '8,x'"),
        ({"threads": ["0"]}, "`--threads` must be numbers of 1 or more. Received: '0'"),
        ({"threads": ["1", "999"]}, "`threads` must be at most .* Received: 999"),
        (
            {"mixers": ["fourier"]},
            "`--mixers` must be among lightweight_conv, self_attention. Received: 'fourier'",
        ),
        ({"variants": ["tvm"]}, "`variants` must be among saved_model-float32, .* Received: 'tvm'"),
        ({"minilm": "nowhere"}, "`minilm` must be a directory that holds model.onnx. Received: nowhere"),
        (
            {"json": "/proc/nowhere"},
            "`json` must be writable, but /proc is not. Received: json=/proc/nowhere",
        ),
        ({"docs_dir": "nowhere"}, "`--docs_dir` must lead to a page .* Received: nowhere/inference.md"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(given, message):
    with pytest.raises(ValueError, match=message):
        inference.checked(args(**given))


def test_variants_can_be_built_and_run():
    for variant in VARIANTS.values():
        assert not variant.has_twin or callable(getattr(builds.Builds, variant.builder))
        assert variant.precision in parity.BOUNDS
    assert [variant.key for variant in chosen([])] == [key for key in VARIANTS if key != "minilm-int8"]
    assert [variant.key for variant in chosen(["openvino-int8", "litert-int8"])] == [
        "litert-int8",
        "openvino-int8",
    ]


@pytest.mark.slow
@pytest.mark.multiprocess
def test_the_program_writes_its_results(tmp_path):
    (tmp_path / "inference.md").write_text(f"{page.BEGIN}\n{inference.pages.END}\n")
    command = [sys.executable, "-m", "benchmarks.inference", f"--workdir={tmp_path / 'work'}", "--size=tiny"]
    command += ["--lengths=8", "--batch_lengths=8", "--num_texts=40", "--repeats=1", "--threads=1"]
    command += ["--variants=saved_model-float32,litert-int8", "--mixers=lightweight_conv"]
    command += [f"--json={tmp_path / 'all.json'}", f"--docs_dir={tmp_path}"]
    subprocess.run(command, check=True)
    found = json.loads((tmp_path / "all.json").read_text())
    assert found["failed"] == []
    assert len(found["cells"]) == 2 * 5
    errors = {row["variant"]: row["error"] for row in found["variants"]}
    assert 0 < errors["saved_model-float32"] < 1e-4 < errors["litert-int8"]
    assert "## Size tiny, 1 thread" in (tmp_path / "inference.md").read_text()
