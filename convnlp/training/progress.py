"""How far a run is: a bar in a terminal, and elsewhere a line of plain text now and then."""

import sys
import time

import tqdm

LINE_SECONDS = 30  # between two lines


def shown(num_steps, step):
    """What shows the progress of a run on stderr.

    Args:
        num_steps: int. Length of the run.
        step: int. Where it starts or resumes.

    Returns:
        An object with `n`, the step that it stands at, and the methods `update(steps)`,
        `set_postfix(values, refresh)`, `write(text, file)` and `close()` of `tqdm.tqdm`.
    """
    if sys.stderr.isatty():
        return tqdm.tqdm(total=num_steps, initial=step, unit="step", dynamic_ncols=True, mininterval=0)
    return Lines(num_steps, step)


class Lines:
    """Progress as lines, for a log file or a pipe: the first one, the last one, and others between.

    Args:
        num_steps: int.
        step: int.
        clock: function that gives seconds. Defaults to `time.monotonic`.
    """

    def __init__(self, num_steps, step, clock=time.monotonic):
        self.n, self._num_steps, self._first, self._clock = step, num_steps, step, clock
        self._started, self._last, self._values = clock(), None, {}

    def set_postfix(self, values, refresh=False):
        self._values = dict(values)

    def update(self, steps):
        self.n += steps
        now = self._clock()
        if steps and (self._last is None or now - self._last >= LINE_SECONDS or self.n == self._num_steps):
            self._last = now
            self._say(now)

    def write(self, text, file=None):
        print(text, file=file or sys.stderr, flush=True)

    def close(self):
        pass

    def _say(self, now):
        seconds = (now - self._started) / (self.n - self._first) * (self._num_steps - self.n)
        parts = [f"step {self.n:,} of {self._num_steps:,}"]
        parts += [f"{name} {value}" for name, value in self._values.items()]
        if self.n < self._num_steps:
            parts.append(f"{duration(seconds)} left")
        self.write(", ".join(parts))


def duration(seconds):
    """Seconds in words.

    Example:
    >>> [duration(value) for value in (9.6, 75, 7300)]
    ['10 s', '1 min 15 s', '2 h 2 min']
    """
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
