"""The demo's commands, every one as it is, on a corpus and a model so small that each takes seconds."""

import os
import shlex
from pathlib import Path

import pytest

from convnlp import demo
from convnlp.tour import Tour
from tests import corpus
from tests.run_program import run_program

# What is appended to the commands of each program: absl takes the last value of a flag.
QUICK = {
    "baseline": "--source={source} --test_source={source} --split=train[:300] --test_split=train[300:]",
    "finetune": (
        "--config.data.source={source} --config.data.input_length=32 --config.task.num_epochs=0"
        " --config.train.batch_size=4 --config.train.num_steps=4 --config.train.steps_per_call=2"
        " --config.data.test_source={source} --config.train.eval_every=2"
        " --config.train.checkpoint_every=2 --config.optimizer.warmup_steps=1"
    ),
}


class QuickTour(Tour):
    """Runs each command with the flags of `QUICK` appended."""

    def __init__(self, source):
        super().__init__()
        self._source = shlex.quote(source)

    def run(self, title, command, result=None, path=""):
        program = shlex.split(command)[3]  # behind python -m convnlp
        quick = QUICK.get(program, "").format(source=self._source)
        super().run(title, f"{command} {quick}", result, path)


@pytest.mark.slow
@pytest.mark.serving
@pytest.mark.multiprocess
def test_the_tour_works_from_texts_to_answers(tmp_path, monkeypatch):
    monkeypatch.chdir(Path(demo.__file__).parents[1])
    rows = [{**row, "label": f"class {row['label']}"} for row in corpus.reviews(400)]
    source = f"jsonl:{corpus.write_jsonl(tmp_path / 'texts.jsonl', rows)}"
    workdir = tmp_path / "a directory"
    workdir.mkdir()
    tour = QuickTour(source)
    demo.whole_way(tour, workdir)

    assert len(tour.rows) == 9
    assert (workdir / "models" / "banking" / "1" / "saved_model.pb").exists()
    assert (workdir / "banking.tflite").stat().st_size > 0
    answers = [result for title, _, result, _ in tour.rows if title == "ask over REST"]
    assert len(answers) == 2
    assert all(answer.startswith(("class 0 <- ", "class 1 <- ")) for answer in answers)
    table = tour.table()
    assert table.count("\n") == len(tour.rows) + 2
    assert "accuracy" in table


def test_a_step_that_fails_ends_the_demo_with_its_name(capfd):
    with pytest.raises(ChildProcessError, match="count to three: ended with exit code 3"):
        Tour().run("count to three", "python -c 'raise SystemExit(3)'")
    assert "$ python -c 'raise SystemExit(3)'" in capfd.readouterr().out


@pytest.mark.multiprocess
def test_an_argument_without_a_flag_is_one_line_and_runs_nothing(tmp_path):
    done = run_program("convnlp.demo", f"--workdir={tmp_path}/demo", "mine")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].endswith("Received: 'mine', which belongs to no flag")
    assert not list(tmp_path.iterdir())


@pytest.mark.multiprocess
def test_a_folder_that_cannot_be_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = run_program(
        "convnlp.demo", "--workdir=~/file/demo", environment={**os.environ, "HOME": str(tmp_path)}
    )
    assert done.returncode == 1
    message = f"error: `workdir` must be writable, but {tmp_path}/file is not. Received: workdir="
    assert done.stderr.splitlines()[-1].startswith(message)
