"""What the launcher knows about a worker from its heartbeat, and which worker the others wait for.

See `convnlp.training.heartbeat` for what a worker writes. Nothing here reads a clock.
"""

import dataclasses
import json

SILENT_SECONDS = 5.0  # a worker normally writes every second


@dataclasses.dataclass
class Pulse:
    """How far a worker has come. Times are in seconds.

    Attributes:
        began: float, when it was started.
        beat: float or None, when it last wrote.
        marks: int, how many marks of progress it has made.
        mark: float or None, when it made the last one.
        facts: dict, the last value of each kind of mark, such as "step".
    """

    began: float
    beat: float | None = None
    marks: int = 0
    mark: float | None = None
    facts: dict = dataclasses.field(default_factory=dict)

    def take(self, line, now):
        """Records a line (bytes) from the worker."""
        values = json.loads(line)
        self.beat = now
        if values:
            self.marks, self.mark = self.marks + 1, now
            self.facts |= values
        if "ready" in values:  # a run may consist of two trainings, pre-training and fine-tuning
            self.facts.pop("done", None)

    @property
    def is_training(self):
        """Whether the worker has made a step and has more to make."""
        return "step" in self.facts and not {"done", "ended"} & set(self.facts)

    @property
    def is_connecting(self):
        """Whether the worker waits for the others to start; TensorFlow blocks all of its threads then."""
        return self.facts.get("connecting", False)

    def is_silent(self, now):
        """Returns whether the worker has stopped writing, though it is neither connecting nor ending."""
        return self.has_been_silent(now, SILENT_SECONDS) and not (self.is_connecting or "ended" in self.facts)

    def has_been_silent(self, now, seconds):
        """Returns whether the worker has written before, but not for some seconds."""
        return self.beat is not None and now - self.beat > seconds


def hung(pulses, now, timeout, are_all=True):
    """Returns the workers that no longer answer or keep the others waiting.

    Args:
        pulses: dict, index -> `Pulse`, of the running workers.
        now: float, the time in seconds.
        timeout: float, seconds.
        are_all: bool, whether these are all workers: those on other machines may take any time to start.

    Returns:
        dict, index -> what is wrong, as the end of a sentence. If all workers stand still together, it
        contains all of them.
    """
    found = {}
    for index, pulse in pulses.items():
        if pulse.is_connecting and not are_all:
            continue
        if pulse.has_been_silent(now, timeout):
            found[index] = f"hangs: it has not answered for {timeout:g} s"
        elif pulse.beat is None and now - pulse.began > timeout:
            found[index] = f"hangs: it has not started to train within {timeout:g} s"
    if found or not pulses or not all(pulse.is_training for pulse in pulses.values()):
        return found
    if now - max(pulse.mark for pulse in pulses.values()) > timeout:
        fewest = min(pulse.marks for pulse in pulses.values())
        behind = [index for index, pulse in pulses.items() if pulse.marks == fewest]
        together = len(behind) == len(pulses) > 1
        reason = f"hangs: it answers, but has made no progress for {timeout:g} s"
        found = dict.fromkeys(behind, reason + (", like all others" if together else ""))
    return found
