r"""What each optional field of fine-tuning gains if there are few labels; prints a table.

    python -m benchmarks.finetuning.levers --data_dir=DATA --workdir=DIR

Only the first --labels training texts of a set keep their labels. `convnlp finetune` and `convnlp fit-head`
learn from them, first with their defaults and then with one addition: masked LM on the training texts,
without their labels; fine-tuning on a related set first; three models as teachers of a fourth; an average
of the weights; a head's answers to the training texts, without their labels, for itself and for a model. All
are scored on the last 3,000 training texts, which none has seen. No test set is read. Runs that are done are
not repeated.
"""

import json
import pathlib

import numpy as np
from absl import flags

from benchmarks import pages
from benchmarks.finetuning.folds import UNSEEN
from benchmarks.run_once import run_once
from benchmarks.scoring import paired, sets
from benchmarks.scoring.ours import classes
from benchmarks.scoring.sets import SETS
from convnlp import adaptation, programs
from convnlp.training import storage

NAMES = ("ag_news", "sst5", "sst2")
# Set -> a set whose labels may help: the same kind of label and the same language, but other texts.
RELATED = {"sst5": "imdb", "sst2": "imdb", "imdb": "sst2"}
RELATED_TEXTS = 4_000
TEACHERS = (1, 2, 3)  # seeds
FINETUNE, FIT_HEAD = "convnlp.finetune", "convnlp.fit_head"
OWN_ANSWERS = "its own answers to the other texts"
ITS_ANSWERS = "answers of such a head to the other texts"
# The program, and the lever added to its defaults.
TRIALS = (
    (FINETUNE, ""),
    (FINETUNE, "masked LM on the other texts"),
    (FINETUNE, "labels of a related set first"),
    (FINETUNE, "three teachers"),
    (FINETUNE, "averages of the weights"),
    (FIT_HEAD, ""),
    (FIT_HEAD, "masked LM on the other texts"),
    (FIT_HEAD, "labels of a related set first"),
    (FIT_HEAD, OWN_ANSWERS),
    (FINETUNE, ITS_ANSWERS),
)


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("data_dir", None, "Directory with classification/*.jsonl.gz.", required=True)
    flags.DEFINE_string("workdir", None, "Directory for all runs.", required=True)
    flags.DEFINE_list("sets", list(NAMES), "Data sets, in the order in which they are run.")
    flags.DEFINE_integer("labels", 1_000, "Number of training texts that keep their labels.", lower_bound=50)
    flags.DEFINE_list("trials", [], "Numbers of the trials to run, from 0. Default: all.")
    flags.DEFINE_integer("seed", 0, "Seed of the runs.", lower_bound=0)


def main(argv):
    """Flags -> runs -> table."""
    del argv
    args = flags.FLAGS
    related = [RELATED[name] for name in args.sets if name in RELATED]
    sets.check([*args.sets, *related], args.data_dir)
    numbers = chosen(args.trials)
    levers = Levers(pathlib.Path(args.data_dir), pathlib.Path(args.workdir), args.labels, args.seed)
    right = {}
    for number in numbers:
        for name in args.sets:
            if (run := levers.run(name, *TRIALS[number])) is not None:
                right[number, name] = levers.right(name, run)
        print(table(right, args.sets), flush=True)


def chosen(numbers):
    """Returns the numbers of the trials to run and of those that they are compared with, sorted.

    Raises:
        ValueError: if there is no trial with one of these numbers.
    """
    for number in numbers:
        if not number.isdigit() or int(number) >= len(TRIALS):
            raise ValueError(f"`--trials` must be numbers below {len(TRIALS)}. Received: {number!r}")
    wanted = {int(number) for number in numbers} or set(range(len(TRIALS)))
    return sorted(wanted | {TRIALS.index((TRIALS[number][0], "")) for number in wanted})


class Levers:
    """The runs, each in a directory of its own below `workdir`.

    Args:
        data_dir: pathlib.Path that holds classification/*.jsonl.gz.
        workdir: pathlib.Path.
        num_labels: int, training texts that keep their labels.
        seed: int, of all runs except the teachers and those on related sets.
    """

    def __init__(self, data_dir, workdir, num_labels, seed):
        self._data_dir, self._workdir = data_dir, workdir / str(num_labels)
        self._num_labels, self._seed = num_labels, seed

    def run(self, name, program, lever):
        """Does a run if it is not done; returns its directory, or None if the set has no such lever."""
        fields = {"config.seed": self._seed, **self._learning(name, f"train[:{self._num_labels}]")}
        if lever == "masked LM on the other texts":
            if program == FINETUNE:
                fields["config.task.unlabelled_source"] = f"jsonl:{self._unlabelled(name)}"
            else:
                adapted = self.run(name, FINETUNE, lever) / adaptation.FOLDER / "preset"
                fields["config.init_from"] = str(adapted)
        elif lever == "labels of a related set first":
            if name not in RELATED:
                return None
            first = RELATED[name]
            folder = self._workdir / f"{first}_first"
            learning = {"config.seed": 0, **self._learning(first, f"train[:{RELATED_TEXTS}]")}
            fields["config.init_from"] = str(self._finished(FINETUNE, folder, learning) / "preset")
        elif lever == "three teachers":
            teachers = tuple(str(self._taught(name, seed) / "preset") for seed in TEACHERS)
            fields["config.task.options.teachers"] = teachers
        elif lever in (OWN_ANSWERS, ITS_ANSWERS):
            fields["config.task.unlabelled_source"] = f"jsonl:{self._unlabelled(name)}"
            if lever == ITS_ANSWERS:
                teacher = self.run(name, FIT_HEAD, OWN_ANSWERS)
                fields["config.task.options.teachers"] = (str(teacher / "preset"),)
        elif lever == "averages of the weights":
            fields["config.optimizer.ema_momentum"] = 0.99
        words = "_".join(lever.split()) or "recipe"
        return self._finished(
            program, self._workdir / f"{name}_{program.partition('.')[2]}_{words}_{self._seed}", fields
        )

    def right(self, name, run):
        """Returns whether a run classifies each unseen text correctly, bool [UNSEEN]."""
        kept = run / "unseen.json"
        if not kept.exists():
            source = SETS[name].source(self._data_dir, "train")
            storage.write_json(str(kept), classes(run / "preset", source, f"train[-{UNSEEN}:]"))
        _, labels = SETS[name].read(self._data_dir, "train")
        return np.array(json.loads(kept.read_text())) == labels[-UNSEEN:]

    def _learning(self, name, split):
        return {
            "config.data.source": SETS[name].source(self._data_dir, "train"),
            "config.data.split": split,
            "config.task.label_names": tuple(str(label) for label in range(SETS[name].classes)),
        }

    def _taught(self, name, seed):
        fields = {"config.seed": seed, **self._learning(name, f"train[:{self._num_labels}]")}
        return self._finished(FINETUNE, self._workdir / f"{name}_teacher_{seed}", fields)

    def _unlabelled(self, name):
        """Returns the path of a set's training texts without labels and without the unseen ones.

        The file is written if it does not exist.
        """
        path = self._workdir / f"{name}.unlabelled.jsonl"
        if not path.exists():
            texts, _ = SETS[name].read(self._data_dir, "train")
            lines = "".join(json.dumps({"text": text}) + "\n" for text in texts[:-UNSEEN])
            self._workdir.mkdir(parents=True, exist_ok=True)
            storage.write(str(path), lines.encode())
        return path

    def _finished(self, program, folder, fields):
        run_once(program, folder, fields, folder / "results.json")
        return folder


def table(right, names):
    """Returns the accuracies in per cent and the gain of each lever, with the paired standard error.

    Args:
        right: dict, (number of a trial, name of a set) -> bool [n], whether it classifies each unseen text
            correctly.
        names: list of str, the sets.

    Returns:
        str, Markdown.
    """
    lines = []
    for number in sorted({number for number, _ in right}):
        program, lever = TRIALS[number]
        line = [program.partition(".")[2].replace("_", "-"), lever or "as it is"]
        for name in names:
            hits = right.get((number, name))
            before = right.get((TRIALS.index((program, "")), name))
            cell = "" if hits is None else f"{100 * hits.mean():.1f}"
            if hits is not None and lever:
                cell += "; {:+.1f} ± {:.1f}".format(*paired.gain(before, hits))
            line.append(cell)
        lines.append(line)
    return pages.table(["program", "besides", *(SETS[name].title for name in names)], lines)


if __name__ == "__main__":
    define_flags()
    programs.run(main)
