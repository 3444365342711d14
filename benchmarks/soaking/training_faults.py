"""The faults of a training run: one class each, in the table `FAULTS` by name."""

import contextlib
import dataclasses
import os
import re
import resource
import shutil
import signal
import subprocess

from benchmarks.soaking import mounts

_CLOCK_SECONDS = 3600
_FIRST_LIMIT_BYTES = 16 << 20
_NEXT_TO_NOTHING_BYTES = 1 << 16
_LAST_WORDS_BYTES = 1 << 13
_PATIENT_CHECKPOINTS = 5  # that a process writes with the memory it has before the limit is lifted
_NAMED = "error: .*(/.*{0}|{0}.*/).*"  # the cause and a path


@dataclasses.dataclass
class Place:
    """Where the run is.

    Args:
        folder: pathlib.Path, the directory that is made read-only: the run's own.
        disk: `benchmarks.soaking.mounts.Disk` that holds it, or None if none could be mounted.
    """

    folder: object
    disk: object = None


class Fault:
    """Something that happens to a run.

    Attributes:
        codes: the exit codes that are allowed, including None if the process may continue. None instead of
            a tuple: it must continue.
        last_words: regular expression that the last line of the process must match; None: it cannot say
            anything.
        first_words: regular expression that the next process must print before it trains; None: nothing.
        can_clean_up: whether the process can still remove what it has half-written.
        loses: what the run lacks at the end, as documented: "metrics.jsonl" or "".
        why: str, the reason for `loses`.
    """

    codes = (1,)
    last_words = None
    first_words = None
    can_clean_up = True
    loses = ""
    why = ""

    def refusal(self, place):
        """Returns why it cannot be made here; "" if it can."""
        return ""

    def happen(self, run, place, draw):
        """Makes it happen to the running process, and waits for its effect.

        Args:
            run: `Run`.
            place: `Place`.
            draw: random.Random.
        """
        raise NotImplementedError

    def undo(self, run, place):
        """Does what an operator would do before the next start."""

    def spoil(self, run, draw):
        """Changes files between two processes; returns a dict with the values for `first_words`."""
        return {}


class Killed(Fault):
    """kill -9."""

    codes = (-signal.SIGKILL,)

    def happen(self, run, place, draw):
        run.signal(signal.SIGKILL)
        run.wait_for_end()


class Terminated(Fault):
    """SIGTERM, the notice of a machine that is about to be taken away."""

    codes = (128 + signal.SIGTERM,)
    last_words = r"stopped by SIGTERM at step \d+, checkpoint saved; the same command continues the run"

    def happen(self, run, place, draw):
        run.signal(signal.SIGTERM)
        run.wait_for_end()


class FullDisk(Fault):
    """The disk has no space left, or not enough for a checkpoint."""

    last_words = _NAMED.format("No space left on device")

    def refusal(self, place):
        return "" if place.disk else "no mount namespace: needs root or user namespaces"

    def happen(self, run, place, draw):
        place.disk.fill(left=draw.choice([0, draw.randrange(1 << 20), draw.randrange(8 << 20)]))
        run.wait_for_end()

    def undo(self, run, place):
        place.disk.free()


class FileTooLarge(Fault):
    """Files may not exceed a size (ulimit -f) that is smaller than a checkpoint's."""

    last_words = _NAMED.format("File too large")

    def happen(self, run, place, draw):
        # Its log is a file too, and needs space for what the process says about this.
        most = max(draw.choice([4096, 1 << 16]), run.log.stat().st_size + _LAST_WORDS_BYTES)
        resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        run.wait_for_end()


class ReadOnly(Fault):
    """The directory can no longer be written to: a read-only mount, or no permission."""

    last_words = _NAMED.format("(Read-only file system|Permission denied|Operation not permitted)")
    can_clean_up = False  # nothing can be removed either

    def refusal(self, place):
        if place.disk or os.geteuid() != 0:
            return ""
        if _chattr("+i", place.folder) and _chattr("-i", place.folder):
            return ""
        return "no mount namespace, root ignores permissions, and the file system does not support chattr +i"

    def happen(self, run, place, draw):
        if place.disk:
            mounts.make_read_only(place.folder)
        elif os.geteuid() == 0:
            for folder in _folders(place.folder):
                _chattr("+i", folder)
        else:
            for folder in _folders(place.folder):
                folder.chmod(0o555)
        run.wait_for_end()

    def undo(self, run, place):
        if place.disk:
            mounts.make_writable(place.folder)
            return
        for folder in _folders(place.folder):
            if os.geteuid() == 0:
                _chattr("-i", folder)
            else:
                folder.chmod(0o755)


class ClockStepsBack(Fault):
    """The clock is set back by an hour, so that all files are from the future."""

    codes = None

    def happen(self, run, place, draw):
        before = int(run.clock.read_text()) if run.clock.exists() else 0
        run.clock.write_text(str(before + _CLOCK_SECONDS))
        for path in (run.workdir, *run.workdir.rglob("*")):
            try:
                times = path.stat()
                os.utime(path, (times.st_atime + _CLOCK_SECONDS, times.st_mtime + _CLOCK_SECONDS))
            except FileNotFoundError:  # the run has removed it in the meantime
                continue
        run.wait_for_checkpoint()


class AddressSpace(Fault):
    """The process gets no more address space (ulimit -v).

    TensorFlow's C++ aborts if it cannot start a thread, and then Python cannot clean up; this end is
    allowed too. A process may also continue with the memory it already has; then the limit is lifted.
    """

    codes = (1, -signal.SIGABRT, None)
    can_clean_up = False
    last_words = r"error: (out of memory or threads: .*|.*Cannot allocate memory.*)"

    def happen(self, run, place, draw):
        with open(f"/proc/{run.process.pid}/statm", encoding="ascii") as file:
            size = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        most = size + draw.choice([0, 1 << 20])
        resource.prlimit(run.process.pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        if all(run.wait_for_checkpoint() for _ in range(_PATIENT_CHECKPOINTS)):
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(run.process.pid, resource.RLIMIT_AS, unlimited)
        else:
            run.wait_for_end()


class MemoryLimit(Killed):
    """The process takes more memory than its control group allows, and the kernel kills it."""

    def refusal(self, place):
        try:
            with _ControlGroup():
                return ""
        except OSError as error:
            return f"no control group can be made: {error}"

    def happen(self, run, place, draw):
        with _ControlGroup() as group:
            group.hold(run.process.pid)
            while run.wait_for_checkpoint():  # it still manages, so it gets no more than it has
                group.tighten()
            run.wait_for_end()


class _Spoiled(Killed):
    """Files of the newest checkpoint are damaged while nothing runs."""

    first_words = r"Checkpoint \S+{step:08d} is damaged \(.*{name}.*\)"

    def happen(self, run, place, draw):
        while len(run.checkpoints()) < 2 and run.wait_for_checkpoint():
            pass
        super().happen(run, place, draw)

    def spoil(self, run, draw):
        step = run.checkpoints()[-1]
        path = draw.choice(sorted(run.checkpoint(step).glob("model.data*" if draw.random() < 0.5 else "*")))
        self.damage(path, draw)
        return {"step": step, "name": re.escape(path.name)}

    def damage(self, path, draw):
        """Damages a file."""
        raise NotImplementedError


class CheckpointCut(_Spoiled):
    """A file of the newest checkpoint is truncated."""

    # For a truncated manifest, the message says where it stops being JSON.
    first_words = r"Checkpoint \S+{step:08d} is damaged \(.*\)"

    def damage(self, path, draw):
        os.truncate(path, draw.randrange(path.stat().st_size))


class CheckpointFlipped(_Spoiled):
    """A bit in a file of the newest checkpoint is flipped."""

    first_words = CheckpointCut.first_words

    def damage(self, path, draw):
        content = bytearray(path.read_bytes())
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)


class CheckpointFileGone(_Spoiled):
    """A file of the newest checkpoint is missing."""

    def damage(self, path, draw):
        path.unlink()


class ManifestGone(CheckpointFileGone):
    """The manifest of the newest checkpoint is missing."""

    def spoil(self, run, draw):
        step = run.checkpoints()[-1]
        (run.checkpoint(step) / "manifest.json").unlink()
        return {"step": step, "name": "manifest.json"}


class CheckpointGone(_Spoiled):
    """The whole newest checkpoint is missing."""

    first_words = r"Resuming at step {before}"

    def spoil(self, run, draw):
        before, step = run.checkpoints()[-2:]
        shutil.rmtree(run.checkpoint(step))
        return {"before": before}


class _Deleted(Terminated):
    """A file that the process has open, or has read, is deleted."""

    name = ""

    def happen(self, run, place, draw):
        path = run.workdir / self.name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        if run.wait_for_checkpoint():
            super().happen(run, place, draw)


class MetricsDeleted(_Deleted):
    """metrics.jsonl is deleted."""

    name = "metrics.jsonl"
    first_words = r"\S*metrics.jsonl has \d+ bytes and had \d+ at step \d+: the lines that are missing stay"
    loses = "metrics.jsonl"
    why = "the lines that were deleted stay missing, and the run says so"


class TensorBoardDeleted(_Deleted):
    """The directory for TensorBoard is deleted."""

    name = "tensorboard"


class ConfigDeleted(_Deleted):
    """config.json is deleted."""

    name = "config.json"
    first_words = r"\S*config.json is missing; the run is taken to be of the config given now"


class LockDeleted(_Deleted):
    """run.lock is deleted."""

    name = "run.lock"


FAULTS = {
    "killed": Killed(),
    "terminated": Terminated(),
    "full_disk": FullDisk(),
    "file_too_large": FileTooLarge(),
    "read_only": ReadOnly(),
    "clock_steps_back": ClockStepsBack(),
    "address_space": AddressSpace(),
    "memory_limit": MemoryLimit(),
    "checkpoint_cut": CheckpointCut(),
    "checkpoint_flipped": CheckpointFlipped(),
    "checkpoint_file_gone": CheckpointFileGone(),
    "manifest_gone": ManifestGone(),
    "checkpoint_gone": CheckpointGone(),
    "metrics_deleted": MetricsDeleted(),
    "tensorboard_deleted": TensorBoardDeleted(),
    "config_deleted": ConfigDeleted(),
    "lock_deleted": LockDeleted(),
}


class _ControlGroup:
    """A control group for memory, version 1 or 2, that exists until the block ends.

    Raises:
        OSError: if none can be made here.
    """

    def __enter__(self):
        version_1 = "/sys/fs/cgroup/memory"
        parent = version_1 if os.path.isdir(version_1) else "/sys/fs/cgroup"
        limit, usage = ("limit_in_bytes", "usage_in_bytes") if parent == version_1 else ("max", "current")
        self._folder = os.path.join(parent, f"convnlp-soak-{os.getpid()}")
        os.mkdir(self._folder)
        self._limit, self._usage = (os.path.join(self._folder, f"memory.{name}") for name in (limit, usage))
        if not os.path.exists(self._limit):  # groups of this level do not control memory
            os.rmdir(self._folder)
            raise OSError(f"{self._limit} is missing")
        return self

    def hold(self, pid):
        """Moves a process into the group, which counts the memory that it takes from then on."""
        _write(self._limit, _FIRST_LIMIT_BYTES)
        _write(os.path.join(self._folder, "cgroup.procs"), pid)

    def tighten(self):
        """Limits the group to what it has now plus next to nothing."""
        with contextlib.suppress(OSError):  # it has taken more in the meantime
            with open(self._usage, encoding="ascii") as file:
                usage = int(file.read())
            _write(self._limit, usage + _NEXT_TO_NOTHING_BYTES)

    def __exit__(self, *_):
        os.rmdir(self._folder)


def _write(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))


def _folders(folder):
    return [folder, *(path for path in folder.rglob("*") if path.is_dir())]


def _chattr(flag, path):
    try:
        return subprocess.run(["chattr", flag, str(path)], capture_output=True).returncode == 0
    except OSError:
        return False
