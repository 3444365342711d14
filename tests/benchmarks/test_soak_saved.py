"""What is saved of a soak: whole at any moment, and as it was; signals."""

import itertools
import os
import pathlib
import shutil
import signal
import time

import pytest

from benchmarks.soaking import sittings
from benchmarks.soaking.outcome import Event

NAMES = ("killed", "terminated")
SEED = 1


class KilledError(BaseException):
    """Stands for the end of the soak's own process."""


class Files:
    """What is saved of a run."""

    def __init__(self, folder):
        self.workdir, self.clock, self.life = folder / "run", folder / "clock", 0

    def write(self, content, clock):
        (self.workdir / "checkpoints").mkdir(parents=True, exist_ok=True)
        (self.workdir / "checkpoints" / "content").write_text(content)
        self.clock.write_text(clock)

    def read(self):
        return (self.workdir / "checkpoints" / "content").read_text(), self.clock.read_text()


def save(folder, content, clock, lives):
    saved = sittings.Saved(folder, SEED, NAMES)
    saved.outcome.lives = lives
    run = Files(folder)
    run.write(content, clock)
    saved.save(run)


def restored(folder):
    """The content, clock and lives of a run on a new disk."""
    saved = sittings.Saved(folder, SEED, NAMES)
    run = Files(folder / "new")
    shutil.rmtree(folder / "new", ignore_errors=True)
    run.workdir.mkdir(parents=True)
    saved.restore(run)
    return *run.read(), run.life


@pytest.mark.parametrize(
    ("owner", "name", "call", "is_new"),
    [
        (sittings.shutil, "copytree", 1, False),
        (sittings.shutil, "copy", 1, False),
        (sittings.json, "dumps", 1, False),
        (sittings, "_sync", 1, False),
        (pathlib.Path, "rename", 1, False),
        (sittings, "_sync", 2, True),
        (sittings.shutil, "rmtree", 2, True),  # the first call removes what is left of an earlier attempt
    ],
)
def test_a_save_that_was_interrupted_leaves_one_that_is_whole(
    tmp_path, monkeypatch, owner, name, call, is_new
):
    save(tmp_path, "old", "0", lives=1)
    number, real = itertools.count(1), getattr(owner, name)

    def interrupted(*arguments, **options):
        if next(number) != call:
            return real(*arguments, **options)
        if name == "copytree":  # a part of it is there
            (arguments[1] / "checkpoints").mkdir(parents=True)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        with pytest.raises(KilledError):
            save(tmp_path, "new", "3600", lives=2)
    assert restored(tmp_path) == (("new", "3600", 2) if is_new else ("old", "0", 1))
    save(tmp_path, "next", "7200", lives=3)
    assert restored(tmp_path) == ("next", "7200", 3)
    assert len(list((tmp_path / "saved").iterdir())) == 1


def test_files_from_the_future_stay_so_and_a_clock_that_was_not_set_back_is_as_before(tmp_path):
    run = Files(tmp_path)
    run.write("a", "3600")
    content = run.workdir / "checkpoints" / "content"
    os.utime(content, (time.time() + 9000, time.time() + 9000))
    run.clock.unlink()
    saved = sittings.Saved(tmp_path, SEED, NAMES)
    saved.save(run)
    moment = content.stat().st_mtime
    shutil.rmtree(run.workdir)
    run.workdir.mkdir()
    run.clock.write_text("7200")  # of a fault that was not saved
    saved.restore(run)
    assert content.stat().st_mtime == moment
    assert not run.clock.exists()


def test_results_are_noted_between_two_copies(tmp_path, monkeypatch):
    save(tmp_path, "a", "0", lives=1)
    saved = sittings.Saved(tmp_path, SEED, NAMES)
    assert saved.outcome.sittings == 2
    saved.outcome.events.append(Event("killed", 1.0, 7, problems=["bad"]))
    saved.note(now=False)
    assert sittings.Saved(tmp_path, SEED, NAMES).outcome.events == []
    with monkeypatch.context() as patch:
        patch.setattr(sittings, "_NOTE_SECONDS", -1.0)
        saved.note(now=False)
    assert sittings.Saved(tmp_path, SEED, NAMES).outcome.events == saved.outcome.events
    assert restored(tmp_path)[0] == "a"


def test_what_was_removed_is_not_continued(tmp_path):
    sittings.remove(tmp_path)
    for _ in range(2):
        save(tmp_path, "a", "0", lives=1)
        (tmp_path / ".saved.removed" / "left").mkdir(parents=True)  # of a removal that was interrupted
        sittings.remove(tmp_path)
        assert sittings.Saved(tmp_path, 12, NAMES).is_empty
        assert {path.name for path in tmp_path.iterdir()} == {"run", "clock"}


@pytest.fixture(params=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda signum: signum.name)
def signum(request):
    """A signal, which would end this process."""
    before = signal.signal(request.param, signal.default_int_handler)
    yield request.param
    signal.signal(request.param, before)


def receive(saved, signum, cleaned):
    """What a soak does that gets a signal; its cleaning up fails."""
    with saved.stoppable():
        try:
            signal.raise_signal(signum)
        finally:
            cleaned.append(signal.getsignal(signum) is signal.SIG_DFL)  # the next one ends it at once
            raise OSError("a group of processes is busy")


def test_a_signal_ends_it_with_a_line(tmp_path, capsys, signum):
    saved, cleaned = sittings.Saved(tmp_path, SEED, NAMES), []
    for words in ("begins anew", "continues the soak after fault 3"):
        with pytest.raises(SystemExit) as stopped:
            receive(saved, signum, cleaned)
        assert stopped.value.code == 128 + signum
        assert capsys.readouterr().err == f"stopped by {signum.name}; the same command {words}\n"
        assert signal.getsignal(signum) is signal.default_int_handler
        run = Files(tmp_path)
        run.write("a", "0")
        saved.outcome.events = [Event("killed", 1.0, 7)] * 3
        saved.save(run)
    assert cleaned == [True, True]


def test_a_signal_that_is_ignored_stays_so_and_errors_pass(tmp_path, signum):
    signal.signal(signum, signal.SIG_IGN)
    with pytest.raises(OSError, match="busy"):
        receive(sittings.Saved(tmp_path, SEED, NAMES), signum, [])
