"""The results of a training soak, as far as it has come."""

import dataclasses


@dataclasses.dataclass
class Event:
    """A fault and its effects.

    Attributes:
        fault: str, a key of `benchmarks.soaking.training_faults.FAULTS`.
        seconds: float, when it happened, from the beginning of the soak.
        step: int, the last step of the run before it.
        code: int, the exit code; None if the process continued.
        last_words: str, the last line of the process.
        first_words: str, what the next process said about the fault.
        resumed_at: int, the step from which that one continued.
        problems: list of str, everything unexpected.
    """

    fault: str
    seconds: float
    step: int
    code: int | None = None
    last_words: str = ""
    first_words: str = ""
    resumed_at: int | None = None
    problems: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Outcome:
    """The result of a soak.

    Attributes:
        events: list of `Event`.
        rows: list of dict, samples of the processes with faults.
        alone_rows: list of dict, samples of the undisturbed run.
        steps: int, at the end; None while there are faults.
        seconds: float, with faults.
        lives: int, processes.
        refused: dict, name of a fault that could not be made here -> the reason.
        problems: list of str, what is wrong at the end.
        losses: dict, what a fault may take according to the documentation -> the step until which it is
            missing.
        sittings: int, in which it was made.
    """

    events: list = dataclasses.field(default_factory=list)
    rows: list = dataclasses.field(default_factory=list)
    alone_rows: list = dataclasses.field(default_factory=list)
    steps: int | None = None
    seconds: float = 0.0
    lives: int = 0
    refused: dict = dataclasses.field(default_factory=dict)
    problems: list = dataclasses.field(default_factory=list)
    losses: dict = dataclasses.field(default_factory=dict)
    sittings: int = 1

    def all_problems(self):
        """Returns everything unexpected."""
        return [
            f"{event.fault} at step {event.step}: {problem}"
            for event in self.events
            for problem in event.problems
        ] + self.problems

    @classmethod
    def from_dict(cls, values):
        """Returns the outcome of which `dataclasses.asdict` has made the values."""
        return cls(**{**values, "events": [Event(**event) for event in values["events"]]})
