"""The training programs on what a new user gets wrong: one clear line, an exit code, nothing half-written."""

import gzip

import pytest

from tests import corpus
from tests.run_program import run_program

SMALL = ("--config.model.size=tiny", "--config.model.kernel_size=(3,)")
TINY = (
    "--config.data.input_length=32",
    "--config.data.split=train",
    "--config.data.validation_split=train",
    "--config.train.batch_size=2",
)
PRETRAIN = ("convnlp.pretrain", "--config=configs/pretrain_mini.py")
FINETUNE = ("convnlp.finetune", "--config=configs/finetune_classification.py:dynamic_conv")
FIT_HEAD = ("convnlp.fit_head",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A directory with a tokenizer and one file of each kind of damage."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "spm.model").write_bytes(corpus.tiny_proto())
    rows = corpus.reviews(20)
    corpus.write_jsonl(folder / "good.jsonl", rows)
    corpus.write_jsonl(folder / "label.jsonl", [*rows, {"text": "A lost day.", "label": 7}])
    corpus.write_jsonl(folder / "field.jsonl", [{"text": "fine", "label": 0}, {"label": 1}])
    (folder / "empty.jsonl").write_text("")
    packed = gzip.compress((folder / "good.jsonl").read_bytes())
    (folder / "corrupt.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    (folder / "latin.jsonl").write_bytes('{"text": "caf\u00e9"}\n'.encode("latin-1"))
    return folder


@pytest.mark.multiprocess
@pytest.mark.parametrize(
    ("program", "arguments", "expected"),
    [
        (PRETRAIN, ["--config.data.sourc=x"], ["sourc"]),
        (PRETRAIN, ["--config.data.source=jsonl:{folder}/none.jsonl"], ["none.jsonl"]),
        (PRETRAIN, ["--config.data.source=jsonl:{folder}/empty.jsonl"], ["empty.jsonl"]),
        (PRETRAIN, ["--config.data.source=jsonl:{folder}/corrupt.jsonl.gz"], ["corrupt.jsonl.gz", "gz"]),
        (PRETRAIN, ["--config.data.source=jsonl:{folder}/latin.jsonl"], ["latin.jsonl", "1", "UTF-8"]),
        (PRETRAIN, ["--config.data.source=tfds:c4/en", "--config.data.data_dir={folder}"], ["c4/en"]),
        (PRETRAIN, ["--config.model.mixer=attention"], ["mixer", "attention"]),
        (
            FINETUNE,
            ["--config.data.source=jsonl:{folder}/label.jsonl", "--config.task.label_names=('a','b')"],
            ["label.jsonl", "21", "7"],
        ),
        (FINETUNE, ["--config.data.source=jsonl:{folder}/field.jsonl"], ["field.jsonl", "2", "text"]),
        (FINETUNE, ["--config.init_from={folder}/nowhere"], ["nowhere"]),
        (FIT_HEAD, ["--config.task.kind=text_to_text"], ["task.kind", "text_to_text"]),
    ],
    ids=lambda value: value[0].removeprefix("--config.") if len(value) == 1 else None,
)
def test_one_clear_line(program, arguments, expected, folder, tmp_path):
    workdir = tmp_path / "run"
    good = [f"--config.data.source=jsonl:{folder}/good.jsonl", f"--config.tokenizer={folder}/spm.model"]
    wrong = [argument.format(folder=folder) for argument in arguments]
    has_preset = program == FIT_HEAD or any("init_from" in argument for argument in wrong)
    flags = (*TINY, *(() if has_preset else SMALL))
    finished = run_program(*program, f"--workdir={workdir}", *flags, *good, *wrong)
    lines = finished.stderr.splitlines()
    assert finished.returncode == 1, finished.stderr[-2000:]
    assert sum(line.startswith("error: ") for line in lines) == 1, finished.stderr[-2000:]
    assert lines[-1].startswith("error: "), finished.stderr[-2000:]
    assert all(word in lines[-1] for word in expected), lines[-1]
    assert "Traceback" not in finished.stderr
    assert "InitializeLog" not in finished.stderr  # TensorFlow's notes while it starts
    assert not workdir.exists()
