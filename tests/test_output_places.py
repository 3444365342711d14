"""Where nothing can be written: every program that writes says so before it does anything that takes long."""

import pytest

from convnlp.tour import free_port
from tests.run_program import run_program

# Even root, who has all permissions there, cannot make a file in /proc.
NOWHERE = "/proc/nothing"
PRESET, TABLE = "--preset={}/preset", "csv:{}/table.csv"
CONFIG = ["--config.data.source=" + TABLE, "--config.init_from={}/preset"]
PROGRAMS = {
    "predict": [PRESET, "--text=a", f"--output={NOWHERE}/found.jsonl"],
    "explain": [PRESET, "--text=a", f"--output={NOWHERE}/found.jsonl"],
    "embed": [PRESET, "--text=a", f"--output={NOWHERE}/found.npy"],
    "evaluate": [PRESET, f"--source={TABLE}", f"--output={NOWHERE}/scores.json"],
    "baseline": [f"--source={TABLE}", f"--output={NOWHERE}/scores.json"],
    "train_tokenizer": [f"--source={TABLE}", f"--output={NOWHERE}/spm.model"],
    "example_data": [f"--output={NOWHERE}"],
    "pack_preset": [PRESET, f"--output={NOWHERE}/packed"],
    "prepare_tokens": [f"--source={TABLE}", PRESET, f"--output={NOWHERE}/tokens"],
    "prepare_corpus": [f"--input={TABLE}", f"--output={NOWHERE}/corpus"],
    "prepare_tfds": [f"--source={TABLE}", "--name=mine:1.0.0", f"--data_dir={NOWHERE}/tfds"],
    "batch_predict": ["--model={}/preset", f"--input={TABLE}", f"--output={NOWHERE}/predictions"],
    "serve_preset": [PRESET, f"--rest_api_port={free_port()}", f"--output={NOWHERE}/model"],
    "pretrain": ["--config=pretrain_mini", f"--config.data.source={TABLE}", f"--workdir={NOWHERE}/run"],
    "finetune": [*CONFIG, f"--workdir={NOWHERE}/run"],
    "fit_head": [*CONFIG, f"--workdir={NOWHERE}/run"],
    "export.saved_model": [PRESET, f"--output={NOWHERE}/model"],
    "export.tflite": [PRESET, f"--output={NOWHERE}/model.tflite"],
    "export.tflite_report": [PRESET, f"--source={TABLE}", f"--output={NOWHERE}/report.json"],
    "export.operations": ["--model={}/preset", f"--output={NOWHERE}/counts.json"],
    "benchmarks.matmul": ["--short", f"--json={NOWHERE}/rows.json"],  # and all that print rows
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A preset and a table that nothing can be read from: who reads them reports that instead."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "preset").mkdir()
    (folder / "preset" / "config.json").write_text("not JSON")
    (folder / "table.csv").write_bytes(b"\xff")
    return folder


@pytest.mark.multiprocess
@pytest.mark.parametrize("program", PROGRAMS)
def test_it_is_refused_first(program, folder):
    module = program if program.startswith("benchmarks.") else f"convnlp.{program}"
    done = run_program(module, *[flag.format(folder) for flag in PROGRAMS[program]])
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 1, done.stderr[-2000:]
    assert line.startswith("error: `"), line
    assert " must be writable, but /proc is not. Received: " in line
    assert NOWHERE in line
