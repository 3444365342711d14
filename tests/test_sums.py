"""SHA256SUMS, and the sums of SavedModels: written, held, and refused before anything else is read."""

import os
import shutil
import subprocess

import pytest
import tensorflow as tf

from convnlp import saved_model_sums, sums
from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.loader import Loader
from convnlp.serving.core.metrics import Metrics
from tests.serving.small_models import save_affine

FILES = [
    "assets.extra/tf_serving_warmup_requests",
    "assets/labels.txt",
    "fingerprint.pb",
    "model.tflite",
    "saved_model.pb",
    "variables/variables.data-00000-of-00001",
    "variables/variables.index",
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "1"
    save_affine(folder, 1)
    (folder / "assets" / "labels.txt").write_text("good\n")
    (folder / "assets.extra").mkdir()
    (folder / "assets.extra" / "tf_serving_warmup_requests").touch()
    (folder / "model.tflite").write_bytes(b"none")
    saved_model_sums.write(folder)
    return folder


@pytest.fixture
def model(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "1")


@pytest.fixture
def nothing_is_read(monkeypatch):
    """Fails where a file of the model is parsed."""

    def refuse(*args, **kwargs):
        raise AssertionError("the model was read")

    monkeypatch.setattr("convnlp.serving.core.lean_session._Loader", refuse)
    monkeypatch.setattr("convnlp.serving.core.loader.damaged_file", refuse)


def load(folder):
    return Loader(Metrics())("m", 1, str(folder))


def test_every_file_that_a_server_reads_has_its_sum(saved):
    assert saved_model_sums.files(saved) == FILES
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", sums.FILE], cwd=saved, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{name}: OK" for name in FILES]
    assert saved_model_sums.check(saved) is True


def test_it_loads_with_sums_without_them_and_with_files_of_the_user(model):
    (model / "notes.txt").write_text("mine")
    load(model).close()
    (model / sums.FILE).unlink()
    assert saved_model_sums.check(model) is False
    load(model).close()


def test_tensorflow_loads_it_with_sums(model):
    assert "serving_default" in tf.saved_model.load(str(model)).signatures


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_changed_is_refused_before_any_is_read(model, name, nothing_is_read):
    with open(model / name, "ab") as file:
        file.write(b"\0")
    with pytest.raises(ServingError) as error:
        load(model)
    assert error.value.code == "DATA_LOSS"
    assert error.value.message.startswith(f"{model / name}: it is not the file that was exported")
    assert "\n" not in error.value.message


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_is_refused(model, name, nothing_is_read):
    (model / name).unlink()
    with pytest.raises(ServingError, match=f"{name}: it is missing, and SHA256SUMS has its sum"):
        load(model)


@pytest.mark.parametrize("name", ["saved_model.pbtxt", "assets/more.txt", "variables/a/b", "assets.extra/x"])
def test_a_file_that_was_added_is_refused(model, name, nothing_is_read):
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).touch()
    with pytest.raises(ServingError, match=f"{name}: it has no sum in SHA256SUMS"):
        load(model)


def test_a_link_to_another_file_is_one_that_was_changed_unless_it_is_the_same(
    model, tmp_path, nothing_is_read
):
    os.rename(model / "saved_model.pb", tmp_path / "moved.pb")
    os.symlink(tmp_path / "moved.pb", model / "saved_model.pb")
    assert saved_model_sums.check(model)  # as volumes of Kubernetes have them
    (tmp_path / "moved.pb").write_bytes(b"other")
    with pytest.raises(ServingError, match="it is not the file that was exported"):
        load(model)


NO_SUMS = [
    b"nothing of the kind",
    b"0" * 63 + b"  saved_model.pb",
    b"\xff",
    *[b"0" * 64 + b"  " + name for name in (b"../other", b"/dev/zero", b"assets/../../x", b"./")],
]


@pytest.mark.parametrize("line", NO_SUMS)
def test_sums_that_are_none(model, line, nothing_is_read):
    with open(model / sums.FILE, "ab") as file:
        file.write(line + b"\n")
    with pytest.raises(ServingError) as error:
        load(model)
    place = "cannot be read" if line == b"\xff" else f"line {len(FILES) + 1} must be a SHA-256 sum"
    assert error.value.message.startswith(f"{model}: SHA256SUMS {place}")
    assert "\n" not in error.value.message


def test_a_server_takes_a_version_once_it_is_complete(model):
    """As after a copy that was still under way."""
    whole = (model / "saved_model.pb").read_bytes()
    (model / "saved_model.pb").write_bytes(whole[:100])
    with pytest.raises(ServingError):
        load(model)
    (model / "saved_model.pb").write_bytes(whole)
    load(model).close()
