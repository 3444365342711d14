"""Which errors end a program in one line, and which keep their traceback."""

import errno
import json
import os
import sys
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl import flags, logging
from absl.testing import flagsaver
from ml_collections import config_flags

from convnlp import programs, startup
from convnlp.data import SourceError
from convnlp.runs import config_files
from convnlp.training import finite, run_lock, schedules
from tests.run_program import ROOT, run_code, run_program


def raised(function):
    """The exception that a function raises."""
    with pytest.raises(Exception) as caught:
        function()
    return caught.value


def library_error():
    return np.zeros(2) + np.zeros(3)


def wrong_rate():
    schedules.Schedule("constant", -1.0, 10)


def rate_in_a_graph():
    tf.function(wrong_rate)()


class Refusing(keras.layers.Layer):
    """A layer whose call meets an error of ours."""

    def call(self, x):
        wrong_rate()
        return x


def raising(error):
    def function():
        raise error

    return function


def tensorflow_message(text):
    """A message as TensorFlow gives it, about what an operation has met."""
    return (
        f"{{{{function_node __wrapped__SaveV2_device_/job:localhost/replica:0}}}} {text} [Op:SaveV2] name: "
    )


def without_memory_in_a_pipeline():
    def fails(x):
        raise MemoryError

    next(iter(tf.data.Dataset.range(1).map(lambda x: tf.numpy_function(fails, [x], tf.int64))))


RATE = "`learning_rate` must be positive and finite. Received: learning_rate=-1.0"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (wrong_rate, RATE),
        (rate_in_a_graph, RATE),
        (lambda: Refusing()(np.zeros([1, 2])), RATE),
        (lambda: tf.function(Refusing())(tf.zeros([1, 2])), RATE),
        (lambda: tf.function(keras.Sequential([Refusing()]))(tf.zeros([1, 2])), RATE),
        (raising(SourceError("a.jsonl, line 7: no")), "a.jsonl, line 7: no"),
        (lambda: os.stat("/none/x"), "[Errno 2] No such file or directory: '/none/x'"),
        (lambda: tf.io.gfile.GFile("/none/x").read(), "/none/x; No such file or directory"),
        (raising(OSError(errno.ENOSPC, "No space left on device")), "[Errno 28] No space left on device"),
        (
            raising(tf.errors.ResourceExhaustedError(None, None, tensorflow_message("/a; No space left"))),
            "/a; No space left",
        ),
        (raising(RuntimeError("can't start new thread")), startup.OUT_OF_MEMORY),
        (raising(MemoryError()), startup.OUT_OF_MEMORY),
        (without_memory_in_a_pipeline, startup.OUT_OF_MEMORY),
        (
            raising(tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[9]")),
            startup.OUT_OF_MEMORY,
        ),
        (raising(finite.NonFiniteError("the loss is not finite")), "the loss is not finite"),
        (raising(run_lock.LockedError("in use")), "in use"),
        (
            raising(tf.errors.UnavailableError(None, None, "from /job:worker/task:3: crashed\nmore")),
            "worker 3 was lost; start all workers again to continue from the last checkpoint",
        ),
    ],
)
def test_what_is_meant_for_users_is_one_line(function, message):
    error = raised(function)
    assert programs.user_message(error) == message


@pytest.mark.parametrize(
    "function",
    [
        library_error,
        lambda: int("many"),
        lambda: json.loads("{"),
        lambda: 1 / 0,
        lambda: {}["x"],
        lambda: tf.reshape(tf.zeros([2]), [3]),
        lambda: os.close(999),
        lambda: keras.layers.Dense(2).build("x"),
        raising(AssertionError("never")),
    ],
)
def test_a_defect_keeps_its_traceback(function):
    assert programs.user_message(raised(function)) is None


def test_nothing_is_logged_behind_the_line(capsys, monkeypatch):
    handler = logging.get_absl_handler().python_handler
    monkeypatch.setattr(handler, "emit", handler.emit)
    # A thread may have passed all questions of levels when the line is printed.
    level = logging.converter.absl_to_standard(logging.WARNING)
    late = logging.get_absl_logger().makeRecord("absl", level, "", 1, "late", (), None)
    with pytest.raises(SystemExit) as stop:
        programs._fail(SourceError("no file"), "no file")
    handler.handle(late)
    assert stop.value.code == 1
    assert capsys.readouterr().err == "error: no file\n"


def test_ctrl_c_in_a_program_is_one_line():
    code = """
import os, signal
from convnlp import programs, startup
def main(_):
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background inherits ignored
startup.begin()
programs.run(main)
"""
    done = run_code(code, timeout=120)
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (130, ["stopped by SIGINT"])
    assert "Traceback" not in done.stderr


def test_modules_are_imported_by_the_old_flag_too(tmp_path, monkeypatch):
    names = ["first_of_mine", "second_of_mine"]
    for name in names:
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with flagsaver.as_parsed(modules=names[0], mixer_modules=names[1]):
        programs.import_modules(programs.modules())
    assert all(sys.modules.pop(name, None) for name in names)


@pytest.mark.parametrize(
    ("argument", "error"),
    [
        ("--config.task.text_fields=a", "unknown config field task.text_fields; did you mean"),
        ("--config.train.batch_size.x=1", "unknown config field train.batch_size.x; did you mean"),
        ("--config.model.kernel_size[1]=3", "1 is not a valid index"),
    ],
)
def test_a_misspelt_field_ends_a_program(monkeypatch, capsys, argument, error):
    values = flags.FlagValues()
    config_flags.DEFINE_config_file("config", None, flag_values=values)
    values["config"].parser = config_files.ConfigParser("config")
    argv = ["program", "--config=pretrain_mini", argument]
    monkeypatch.setattr(sys, "argv", argv)  # where ml_collections looks
    with mock.patch.object(flags, "FLAGS", values), pytest.raises(SystemExit):
        programs._parse(argv)
    assert capsys.readouterr().err.startswith(f"error: {error}")


@pytest.fixture
def program_of_one_flag(monkeypatch):
    """A function from arguments to what a program with the flag --rate makes of them."""
    values = flags.FlagValues()
    for name in ("modules", "mixer_modules", "verbosity"):
        values[name] = flags.FLAGS[name]
    flags.DEFINE_float("rate", None, "", lower_bound=0.0, required=True, flag_values=values)
    monkeypatch.setattr(flags, "FLAGS", values)
    return lambda *arguments: programs._parse(["program", *arguments])


def test_a_flag_that_is_not_a_number_ends_a_program(program_of_one_flag, capsys):
    assert program_of_one_flag("--rate=2") == ["program"]
    with pytest.raises(SystemExit):
        program_of_one_flag("--rate=nan")
    assert capsys.readouterr().err == "error: flag --rate must be a number. Received: rate=nan\n"


def test_a_flag_that_is_missing_ends_a_program(program_of_one_flag, capsys):
    with pytest.raises(SystemExit):
        program_of_one_flag()
    assert capsys.readouterr().err == "error: flag --rate must be given\n"


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--output=~/a b/c.csv", "--output=/their/folder/a b/c.csv"),
        ("--config.data.source=csv:~/a.csv", "--config.data.source=csv:/their/folder/a.csv"),
        ("-workdir=~", "-workdir=/their/folder"),
        ("--text=~/bin is a folder", "--text=~/bin is a folder"),
        ("--output=~a", "--output=~a"),
        ("--output=a/~/b", "--output=a/~/b"),
    ],
)
def test_the_home_directory_in_a_flag(argument, expected, monkeypatch):
    monkeypatch.setenv("HOME", "/their/folder")
    assert programs.with_home(argument) == expected


@pytest.mark.multiprocess
def test_an_argument_of_no_flag_is_refused(tmp_path):
    flags = ["--preset=dynamic_conv_mini_en", "--output=~/vectors.npy"]
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "PYTHONPATH": ROOT}
    done = run_program(
        "convnlp.embed", *flags, "--text=A", "fine", "day", directory=tmp_path, environment=environment
    )
    assert (done.returncode, done.stdout, done.stderr.count("error: ")) == (1, "", 1)
    assert done.stderr.endswith("Received: 'fine', which belongs to no flag\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.multiprocess
def test_an_output_in_the_home_directory(tmp_path):
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "PYTHONPATH": ROOT}
    done = run_program("convnlp.example_data", "--output=~/data", directory=tmp_path, environment=environment)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert (tmp_path / "home" / "data" / "train.csv").is_file()
