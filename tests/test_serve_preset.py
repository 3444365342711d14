"""`convnlp serve-preset`: from a preset to an answer over REST."""

import errno
import os
import runpy
import shutil
import signal
import socket

import keras
import pytest
from absl import flags

from convnlp.export.saved_models import versions
from convnlp.serving.client import Client
from tests.run_program import ROOT, Program, run_program
from tests.serving.small_models import free_port
from tests.small_classifier import small_classifier

pytestmark = [pytest.mark.serving, pytest.mark.multiprocess]
SECONDS = 180
TEXT = "the river"


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    keras.utils.set_random_seed(0)
    model = small_classifier(["lightweight_conv"], 16, ["bad", "good"])
    directory = tmp_path_factory.mktemp("run") / "preset"
    model.save_to_preset(str(directory))
    return directory, model


def answer(preset, log, *flags):
    """The answer of a server of the preset, and what the program has written."""
    port = free_port()
    arguments = [f"--preset={preset}", f"--rest_api_port={port}", "--model_name=my/own", *flags]
    with open(log, "w") as file:
        process = Program("convnlp.serve_preset", *arguments, stdout=file, stderr=file)
        try:
            client = Client(f"http://127.0.0.1:{port}")
            client.wait("my/own", SECONDS, lambda: process.poll() is None)
            return client.predict("my/own", [TEXT]), log.read_text()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(SECONDS)


def test_a_preset_is_exported_and_served_and_the_next_time_served_alone(preset, tmp_path):
    directory, model = preset
    (found, *_), log = answer(directory, tmp_path / "log")
    assert found["label"] == model.labels[model.predict([TEXT], verbose=0).argmax()]
    assert "exported to" in log
    assert "/v1/models/my%2Fown:predict; " in log
    assert "serving my/own version 1: http://127.0.0.1:" in log
    assert f"] model my/own version 1: loading {directory.parent}/models/preset/1\n" in log
    assert "/v1/models/my%2Fown\n" in log
    models = directory.parent / "models" / "preset"
    assert (models / "1" / "saved_model.pb").exists()

    # Behind a URL, it is copied, and the copy is as new as can be.
    _, log = answer(f"file://{directory}", tmp_path / "again", f"--output={models}")
    assert "exported to" not in log
    assert [path.name for path in models.iterdir()] == ["1"]


@pytest.mark.slow
def test_a_preset_that_took_the_place_of_another_is_exported(preset, tmp_path):
    """However old it is: what counts is what is in it."""
    directory, model = preset
    place = tmp_path / "preset"
    shutil.copytree(directory, place)
    answer(place, tmp_path / "log")
    model.head.kernel.assign(-model.head.kernel)
    model.save_to_preset(str(tmp_path / "other"))
    os.utime(tmp_path / "other" / "config.json", (0, 0))
    shutil.rmtree(place)
    os.rename(tmp_path / "other", place)
    _, log = answer(place, tmp_path / "again")
    assert "exported to" in log
    assert sorted(path.name for path in (tmp_path / "models" / "preset").iterdir()) == ["1", "2"]


def test_nothing_is_written_into_the_package(tmp_path, monkeypatch):
    assert versions.default_output("dynamic_conv_mini_en") == "models/dynamic_conv_mini_en"
    assert versions.default_output("gs://bucket/run/preset/") == "models/preset"
    assert versions.default_output(f"{tmp_path}/preset") == f"{tmp_path}/models/preset"
    monkeypatch.chdir(tmp_path)
    assert versions.default_output("preset/..") == f"{tmp_path.parent}/models/{tmp_path.name}"


def test_an_empty_output_is_refused(preset):
    port = f"--rest_api_port={free_port()}"
    done = run_program("convnlp.serve_preset", f"--preset={preset[0]}", "--output=", port)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: `output` must not be empty")


def test_a_version_of_another_preset_does_not_count(tmp_path):
    preset, output = tmp_path / "preset", tmp_path / "models"
    preset.mkdir()
    (preset / "config.json").write_text("{}")
    assert versions.made_from(str(output), str(preset)) is None
    made(output / "9", preset)
    made(output / "temporary", preset)
    assert versions.made_from(str(output), str(preset)) == output / "9"
    other = shutil.copytree(preset, tmp_path / "other")
    assert versions.made_from(str(output), str(other)) == output / "9"
    (other / "config.json").write_text("[]")
    assert versions.made_from(str(output), str(other)) is None
    made(output / "10", other)  # which a server would serve
    assert versions.made_from(str(output), str(preset)) is None
    (output / "11").mkdir()  # of another exporter
    assert versions.made_from(str(output), str(other)) is None


def made(version, preset):
    """Writes what an export writes of the preset that it was made from."""
    (version / "assets.extra").mkdir(parents=True)
    (version / "assets.extra" / "preset.json").write_text(versions._sums(preset))


def test_a_port_that_is_taken_is_said_before_the_export(preset, tmp_path):
    taken_models = tmp_path / "models"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_program(
            *("convnlp.serve_preset", f"--preset={preset[0]}", f"--rest_api_port={port}"),
            f"--output={taken_models}",
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: `rest_api_port` must be free on 127.0.0.1.")
    assert not taken_models.exists()


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_an_address_of_version_6_is_looked_at_too(preset, tmp_path):
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        done = run_program(
            *("convnlp.serve_preset", f"--preset={preset[0]}", f"--rest_api_port={port}", "--host=::1"),
            f"--output={tmp_path / 'models'}",
        )
    assert done.stderr.splitlines()[-1].startswith("error: `rest_api_port` must be free on ::1. Received: ")
    assert "in use" in done.stderr.splitlines()[-1]


def test_a_host_that_is_not_this_machine(preset, tmp_path):
    done = run_program(
        "convnlp.serve_preset", f"--preset={preset[0]}", "--host=192.0.2.1", f"--output={tmp_path / 'models'}"
    )
    line = "error: `host` must be an address of this machine. Received: 192.0.2.1 ("
    assert done.stderr.splitlines()[-1].startswith(line)


def test_an_address_of_version_6_where_there_is_none(monkeypatch):
    for kind in ("string", "integer"):  # other programs in this process may have flags of the same names
        monkeypatch.setattr(flags, f"DEFINE_{kind}", lambda *_, **__: None)
    require_free_port = runpy.run_path(f"{ROOT}/convnlp/serve_preset.py")["require_free_port"]

    def create_server(*_, **__):
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    monkeypatch.setattr(socket, "create_server", create_server)
    with pytest.raises(ValueError, match=r"`host` must be an address of this machine\. Received: ::1 "):
        require_free_port("::1", 8501)


def test_what_is_no_preset(tmp_path):
    done = run_program("convnlp.serve_preset", f"--preset={tmp_path}/none")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: preset ")
