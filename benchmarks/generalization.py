r"""Which kinds of new sentences do models of COGS get right? Scores those that `benchmarks.paper` fine-tuned.

    python -m benchmarks.generalization --data_dir=DATA --workdir=runs/paper --docs_dir=docs

The generalisation split has 21 kinds of sentences that do not occur in training, some of them longer than all
that do, so the models read and write longer texts here. With --docs_dir, the results are kept in cogs.json
there, known models are not scored again, and the table is written into paper.md.
"""

import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

from absl import flags

from benchmarks import machine, pages
from benchmarks.comparison.tasks import named_task
from benchmarks.judging import kinds_page as page
from benchmarks.judging.store import Store
from benchmarks.shared_flags import define_output
from benchmarks.weights import sum_of_weights
from convnlp import programs

_DATA = named_task("cogs_variable_free")
_SPLIT, _KIND = "gen", "category"
_LIMIT = "num_sentences"
LENGTHS = {"encoder_sequence_length": 80, "decoder_sequence_length": 208}  # room for all its sentences


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("data_dir", None, "Holds seq2seq/cogs_variable_free.gen.jsonl.gz.", required=True)
    flags.DEFINE_string("workdir", None, "That of benchmarks.paper.", required=True)
    flags.DEFINE_integer(_LIMIT, 100, "Largest number of sentences per kind, the first.", lower_bound=1)
    flags.DEFINE_integer("threads", 2, "Threads of TensorFlow.", lower_bound=1)
    define_output("docs_dir", "Directory of cogs.json and paper.md.")


def main(_):
    """Flags -> sentences and models -> missing results -> table."""
    args = flags.FLAGS
    docs = pathlib.Path(args.docs_dir) if args.docs_dir else None
    if docs:
        pages.require_marks("docs_dir", docs / "paper.md", page.BEGIN)
    presets = fine_tuned(args.workdir)
    machine.use_threads(args.threads)
    examples = by_kind(_DATA.source.replace("{data_dir}", args.data_dir), args.num_sentences)
    store = Store(docs and docs / "cogs.json", _LIMIT)
    description = machine.describe(args.threads)
    del description["command"]  # its directories are those of this machine
    for label, directory in presets.items():
        weights = sum_of_weights(directory)
        if not store.has(label, weights, args.num_sentences):
            store.models[label] = {
                "weights": weights,
                _LIMIT: args.num_sentences,
                "counts": judged(directory, examples),
            }
            store.write(description)
    counts = store.counts(examples)
    print(page.table(counts))
    if docs:
        page.write(docs / "paper.md", counts)


def fine_tuned(workdir):
    """Returns the models of COGS that `benchmarks.paper` has finished: dict, label -> directory of a preset.

    Raises:
        ValueError: if there is none.
    """
    found = {}
    for preset in sorted(pathlib.Path(workdir).glob("cells/finetune-*/preset")):
        settings = json.loads((preset.parent / "settings.json").read_text(encoding="utf-8"))
        if settings["source"] == _DATA.source and (preset.parent / "result.json").exists():
            found[f"{settings['mixer']}, {settings['start']}, seed {settings['seed']}"] = str(preset)
    if not found:
        raise ValueError(
            "`--workdir` must hold models that benchmarks.paper --tasks=cogs_variable_free has fine-tuned. "
            f"Received: {workdir}"
        )
    return found


def by_kind(source, most):
    """Reads the sentences of each kind.

    Args:
        source: str, see `convnlp.data.sources`.
        most: int, largest number of sentences per kind.

    Returns:
        dict, kind -> list of (sentence, its logical form).
    """
    from convnlp.data import Source, sources

    fields = _DATA.text_field, _DATA.label_field, _KIND
    found = {}
    for record in sources.read(Source(source, _SPLIT), fields).as_numpy_iterator():
        sentence, form, kind = (record[field].decode() for field in fields)
        examples = found.setdefault(kind, [])
        if len(examples) < most:
            examples.append((sentence, form))
    return found


def judged(directory, examples):
    """Counts how many sentences of each kind a model turns into the right logical form, by greedy decoding.

    Args:
        directory: str, preset of a `Seq2SeqLM`.
        examples: dict, see `by_kind`.

    Returns:
        dict, kind -> [right, all].
    """
    from convnlp.models import Seq2SeqLM, Seq2SeqLMPreprocessor
    from convnlp.tasks import scores
    from convnlp.tasks.text_to_text import greedy_predictions

    preprocessor = Seq2SeqLMPreprocessor.from_preset(directory, **LENGTHS)
    model = Seq2SeqLM.from_preset(directory, preprocessor=preprocessor)
    counts = {}
    for kind, pairs in examples.items():
        written = greedy_predictions(model, [sentence for sentence, _ in pairs])
        right = [
            scores.normalized(text) == scores.normalized(form)
            for text, (_, form) in zip(written, pairs, strict=True)
        ]
        counts[kind] = [sum(right), len(right)]
    return counts


if __name__ == "__main__":
    define_flags()
    programs.run(main)
