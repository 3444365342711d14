"""Speeds that are measured in turn, of tiny models; no time is asserted."""

import json

import pytest

from benchmarks.comparison import runner
from benchmarks.comparison.plan import Plan
from benchmarks.comparison.tasks import Data
from benchmarks.questions import speeds, table
from benchmarks.questions.store import Store
from tests import corpus
from tests.benchmarks.questions.test_table import FOLDERS


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "spm.model").write_bytes(corpus.tiny_proto())
    corpus.write_jsonl(tmp_path / "rows.jsonl", corpus.reviews(4))
    source = "jsonl:{folder}/rows.jsonl"
    return Plan(
        mixers=("lightweight_conv", "fourier"),
        seeds=(),
        data=Data(source, "train[2:]", "train[:2]", source, "train", ("a", "b"), length=16),
        tokenizer="{folder}/spm.model",
        size="tiny",
        batch_size=2,
        folders={"folder": str(tmp_path)},
    )


def finish(plan, workdir, busy=()):
    for mixer, cell in speeds.cells_of(plan).items():
        cell.directory(workdir).mkdir(parents=True, exist_ok=True)
        (cell.directory(workdir) / "result.json").write_text(json.dumps({"busy": mixer in busy}))


def test_what_is_measured_in_turn_is_no_measurement_of_a_mixer_by_itself(plan):
    found = speeds.cells_of(plan)
    assert list(found) == list(plan.mixers)
    alone = {cell.name for mixer in plan.mixers for cell in plan.cells(mixer)}
    assert not alone & {cell.name for cell in found.values()}
    assert all(cell.settings["in_turn_with"] == list(plan.mixers) for cell in found.values())


def test_all_lengths_are_planned_for_all_mixers():
    names = []
    for mixers in (table.MIXERS, table.OPERATORS):
        plans = dict(table.speed_plans(FOLDERS, mixers))
        assert list(plans) == [64, 128, 256, 512, 1024, 2048, 4096]
        names += [cell.name for plan in plans.values() for cell in speeds.cells_of(plan).values()]
        assert {length * plan.batch_size for length, plan in plans.items()} == {table.SPEED_TOKENS}
    # Attention is measured in turn with each group.
    assert len(set(names)) == 7 * (len(table.MIXERS) + len(table.OPERATORS))
    assert table.BASELINE in set(table.MIXERS) & set(table.OPERATORS)


def test_a_length_is_done_when_all_were_measured_on_a_quiet_machine(plan, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(runner, "run", lambda *arguments: started.append(arguments) or True)
    assert speeds.compute(plan, tmp_path, "speeds-16")
    finish(plan, tmp_path, busy=("fourier",))
    assert speeds.compute(plan, tmp_path, "speeds-16")
    assert len(started) == 2
    module, (path, workdir), name, _ = started[0]
    assert (module, workdir, name) == ("benchmarks.questions.speeds", tmp_path, "speeds-16")
    assert Plan.read(path) == plan
    finish(plan, tmp_path)
    assert speeds.compute(plan, tmp_path, "speeds-16")
    assert len(started) == 2


@pytest.mark.slow
def test_speeds_are_measured_and_kept(plan, tmp_path):
    """By the process that `benchmarks.paper` starts."""
    assert speeds.compute(plan, tmp_path, "speeds-16")
    for cell in speeds.cells_of(plan).values():
        result = cell.result(tmp_path)
        for name in ("train", "predict"):
            samples = result[f"{name}_samples"]
            assert min(samples) > 0
            rate = result[f"{name}_tokens_per_second"]
            assert 32 / max(samples) <= rate <= 32 / min(samples)
        assert result["cpu_seconds"] > 0
        assert result["multiply_adds"] > 0
        assert json.loads((cell.directory(tmp_path) / "settings.json").read_text()) == cell.settings
    kept = Store(tmp_path, tmp_path / "paper.json")
    kept.take(speeds.cells_of(plan).values())
    assert len(kept.known) == 2
