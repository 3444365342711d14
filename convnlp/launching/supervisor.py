"""Runs the workers to completion: names a lost worker, ends the others, and restarts all of them."""

import signal
import time

from convnlp.launching import pulse
from convnlp.launching.worker import Worker

LOST_WORKER = 75  # exit code of a worker that has lost another, as in convnlp.programs
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STOPPED = tuple(128 + each for each in SIGNALS)  # exit codes of a worker that has saved
_POLL_SECONDS = 0.05
# Time after the first failure in which its cause may show; then the failure is reported without it.
# TensorFlow takes about 10 s to give up a worker that does not answer.
_SETTLE_SECONDS = 3.0


class Supervisor:
    """Starts the same workers until they succeed.

    Args:
        commands: function without arguments -> dict, index -> (command, environment) of each worker on this
            machine; called before each start.
        num_workers: int, workers on all machines.
        restarts: int, how often the workers may be restarted.
        hang_timeout: float, seconds without a sign of life or progress after which a worker counts as hung.
        grace: float, seconds that workers get to end by themselves.
        say: function of a string, which reports a sentence to the user.
    """

    def __init__(self, commands, num_workers, *, restarts, hang_timeout, grace, say):
        self._commands, self._num_workers, self._restarts = commands, num_workers, restarts
        self._hang_timeout, self._grace, self._say = hang_timeout, grace, say
        self._signals, self._saved = [], None
        self._workers = []

    def run(self):
        """Runs the workers; passes SIGTERM, SIGINT and SIGHUP on to them, and kills them at a second signal.

        Returns:
            int, the exit code: 0 after success; 128 + the signal's number; 1 if a worker has an error of its
            own or cannot be started; `LOST_WORKER` if a worker was lost and no restarts are left.
        """
        before = {
            each: signal.signal(each, lambda signum, frame: self._signals.append(signum))
            for each in SIGNALS
            if signal.getsignal(each) is not signal.SIG_IGN
        }
        try:
            for count in range(self._restarts + 1):
                cause, again = self._attempt()
                if self._signals:
                    self._say(f"stopped by {signal.Signals(self._signals[0]).name}{self._last_state()}")
                    return 128 + self._signals[0]
                if cause is None:
                    return 0
                if not again:
                    self._say("not restarted: the same error would occur again")
                    return 1
                if count < self._restarts:
                    self._say(f"restart {count + 1} of {self._restarts}{self._last_state()}")
            self._say(f"giving up{self._last_state()}; the same command continues the run")
            return LOST_WORKER
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _attempt(self):
        """Starts all workers and waits until they end.

        Returns:
            (string, what went wrong, or None; bool, whether a restart may help).
        """
        try:
            try:
                for index, (command, environment) in self._commands().items():
                    self._workers.append(Worker(index, command, environment))
            except OSError as error:  # no such program, too many processes or open files
                self._say(f"the workers cannot be started: {error}")
                return str(error), False
            cause, again = self._watch()
            if cause and not self._signals:
                self._say(cause)
            self._end()
            return cause, again
        finally:
            for worker in self._workers:
                worker.close()
                self._note(worker)
            self._workers = []

    def _running(self):
        return [worker for worker in self._workers if worker.code() is None]

    def _codes(self):
        return {worker.index: code for worker in self._workers if (code := worker.code()) is not None}

    def _step(self):
        """Waits a moment; returns the time."""
        time.sleep(_POLL_SECONDS)
        for worker in self._workers:
            worker.read()
            self._note(worker)
        return time.monotonic()

    def _note(self, worker):
        saved = worker.pulse.facts.get("saved")
        self._saved = saved if saved is not None else self._saved

    def _watch(self):
        """Waits until all workers have succeeded, one is lost, or a signal arrives; returns as `_attempt`."""
        first = None  # when the first worker failed
        while not self._signals:
            now = self._step()
            codes = self._codes()
            if any(codes.values()):
                first = first or now
                found = self._lost(codes, now)
                if found is None and now - first > _SETTLE_SECONDS:
                    index = min(i for i, code in codes.items() if code)
                    found = self._sentence(index, "has lost another worker"), True
                if found:
                    return found
                continue
            if len(codes) == len(self._workers):
                return None, False
            pulses = {worker.index: worker.pulse for worker in self._running()}
            are_all = len(self._workers) == self._num_workers
            if found := pulse.hung(pulses, now, self._hang_timeout, are_all):
                for worker in self._running():
                    if worker.index in found:
                        worker.signal(signal.SIGKILL)
                sentences = [self._sentence(index, reason) for index, reason in found.items()]
                return "; ".join(sentences), True
        return None, False

    def _lost(self, codes, now):
        """Returns (what to say, whether to restart) about the worker that the others have lost, or None.

        First comes a worker that a signal has ended, for certain; then one with an error of its own; then,
        while others end because they have lost a worker, the one that has not answered for the longest time.
        """
        for index, code in codes.items():
            if code < 0:
                return self._sentence(index, f"was ended by {signal.Signals(-code).name}"), True
        for index, code in codes.items():
            if code not in (0, LOST_WORKER, *_STOPPED):
                return self._sentence(index, f"has ended with exit code {code}"), False
        if silent := [worker for worker in self._running() if worker.pulse.is_silent(now)]:
            worker = min(silent, key=lambda worker: worker.pulse.beat)
            worker.signal(signal.SIGKILL)
            what = "hangs: it does not answer, and another has given it up"
            return self._sentence(worker.index, what), True
        for worker in self._workers:
            if codes.get(worker.index) in _STOPPED:
                name = signal.Signals(codes[worker.index] - 128).name
                index = worker.pulse.facts.get("stopped", worker.index)
                return self._sentence(worker.index, f"was stopped by {name}, and all have saved", index), True
        return None

    def _sentence(self, index, what, name=None):
        """Says what happened to a worker of this machine; `name` is another index to name in its place."""
        worker = next(each for each in self._workers if each.index == index)
        step = worker.pulse.facts.get("step")
        where = "before its first step" if step is None else f"at step {step}"
        return f"worker {index if name is None else name} of {self._num_workers} {what} ({where})"

    def _end(self):
        """Lets the running workers end by themselves, saving their state if they can; then kills them."""
        signum = self._signals[0] if self._signals else signal.SIGTERM
        for worker in self._running():
            worker.signal(signum)
        end = time.monotonic() + self._grace
        while self._running() and len(self._signals) < 2 and self._step() < end:
            pass
        for worker in self._running():
            self._say(f"worker {worker.index} did not end within {self._grace:g} s and is killed")
            worker.signal(signal.SIGKILL)

    def _last_state(self):
        return "" if self._saved is None else f"; the last saved state is that of step {self._saved}"
