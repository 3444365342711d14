"""Shows the progress of a run: a bar in a terminal, elsewhere a line of plain text now and then."""

import sys
import time

import tqdm

LINE_SECONDS = 30  # between two lines


def shown(num_steps, step):
    """Returns an object that shows the progress of a run on stderr.

    Args:
        num_steps: int. Length of the run.
        step: int. The step at which it starts or resumes.

    Returns:
        An object with `n`, the current step, and the methods `update(steps)`, `set_postfix(values, refresh)`,
        `write(text, file)` and `close()` of `tqdm.tqdm`.
    """
    if sys.stderr.isatty():
        return tqdm.tqdm(total=num_steps, initial=step, unit="step", dynamic_ncols=True, mininterval=0)
    return Lines(num_steps, step)


class Lines:
    """Progress as lines, for a log file or a pipe: at the first and last update, and at intervals between.

    Args:
        num_steps: int. Length of the run.
        step: int. The step at which it starts or resumes.
        clock: function that returns seconds. Defaults to `time.monotonic`.
    """

    def __init__(self, num_steps, step, clock=time.monotonic):
        self.n, self._num_steps, self._clock = step, num_steps, clock
        self._last, self._values = None, {}  # (step, time) of the last line

    def set_postfix(self, values, refresh=False):
        self._values = dict(values)

    def update(self, steps):
        self.n += steps
        now = self._clock()
        is_due = self._last is None or now - self._last[1] >= LINE_SECONDS or self.n == self._num_steps
        if steps and is_due:
            self._say(now)
            self._last = self.n, now

    def write(self, text, file=None):
        print(text, file=file or sys.stderr, flush=True)

    def close(self):
        pass

    def _say(self, now):
        parts = [f"step {self.n:,} of {self._num_steps:,}"]
        parts += [f"{name} {value}" for name, value in self._values.items()]
        if self._last and self.n < self._num_steps:
            step, then = self._last  # the pace since that line: the first steps take longer, to compile
            seconds = (now - then) / (self.n - step) * (self._num_steps - self.n)
            parts.append(f"{duration(seconds)} left")
        self.write(", ".join(parts))


def duration(seconds):
    """Formats seconds for people, rounded to the smaller of the two units.

    Example:
    >>> [duration(value) for value in (9.6, 75, 7300)]
    ['10 s', '1 min 15 s', '2 h 2 min']
    """
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"
