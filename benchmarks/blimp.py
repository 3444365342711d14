r"""Which of two sentences is acceptable? Scores models pre-trained by masked LM on BLiMP's 67,000 pairs.

    python -m benchmarks.blimp --data_dir=BLIMP/data --presets=dynamic_conv_mini_en,mine=DIR --docs_dir=docs

BLIMP is a copy of https://github.com/alexwarstadt/blimp. A model is right if the acceptable sentence has
the higher pseudo-log-likelihood; nothing is trained. --presets are names or directories; LABEL= before one
sets its name in the table. --published is that repository's raw_results/summary/models_summary.jsonl, with
the scores of its authors' left-to-right models. With --docs_dir, the results are kept in blimp.json there,
known models are not scored again, and the table is written into paper.md.
"""

import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

from absl import flags

from benchmarks import machine, pages
from benchmarks.judging import minimal_pairs
from benchmarks.judging import pairs_page as page
from benchmarks.judging.store import PUBLISHED, Store
from benchmarks.shared_flags import define_output
from benchmarks.weights import sum_of_weights
from convnlp import programs

_PUBLISHED = ("ngram", "lstm", "txl", "gpt2")


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("data_dir", None, "Directory of BLiMP's *.jsonl.", required=True)
    flags.DEFINE_list("presets", ["dynamic_conv_mini_en"], "[LABEL=]NAME or [LABEL=]DIRECTORY, ...")
    flags.DEFINE_string("published", "", "BLiMP's models_summary.jsonl, for the columns of its models.")
    flags.DEFINE_integer("num_pairs", 1000, "Largest number of pairs per paradigm.", lower_bound=1)
    flags.DEFINE_integer("threads", 2, "Threads of TensorFlow.", lower_bound=1)
    define_output("docs_dir", "Directory of blimp.json and paper.md.")


def main(_):
    """Flags -> pairs -> missing results -> table."""
    args = flags.FLAGS
    paradigms = minimal_pairs.read(args.data_dir, args.num_pairs)
    machine.use_threads(args.threads)
    models = located(args.presets)
    docs = pathlib.Path(args.docs_dir) if args.docs_dir else None
    if docs:
        pages.require_marks("docs_dir", docs / "paper.md", page.BEGIN)
    loaded = {label: _loaded(directory) for label, directory in models.items()}  # before any is scored
    store = Store(docs and docs / "blimp.json", "num_pairs")
    if args.published:
        store.models |= published(args.published, paradigms)
    description = machine.describe(args.threads)
    del description["command"]  # its directories are those of this machine
    for label, directory in models.items():
        weights = sum_of_weights(directory)
        if not store.has(label, weights, args.num_pairs):
            store.models[label] = {
                "weights": weights,
                "num_pairs": args.num_pairs,
                "counts": judged(*loaded[label], paradigms),
            }
            store.write(description)
        mean, error = minimal_pairs.mean_accuracy(store.models[label]["counts"])
        print(f"{label}: {100 * mean:.1f} +- {196 * error:.1f}%", flush=True)
    phenomena = {paradigm.name: paradigm.phenomenon for paradigm in paradigms}
    counts = store.counts(phenomena)
    print(page.table(counts, phenomena))
    if docs:
        store.write(description)
        page.write(docs / "paper.md", counts, phenomena)


def located(presets):
    """Returns the directories of the presets in --presets: dict, label -> directory.

    Raises:
        ValueError: if two have the same label, or one does not exist.
    """
    from convnlp.models import preset_names

    found = {}
    for text in presets:
        label, _, preset = text.rpartition("=")
        label = label or os.path.basename(os.path.normpath(preset))
        if label in found:
            raise ValueError(f"`--presets` must have different labels. Received: {','.join(presets)}")
        found[label] = preset_names.locate(preset)
    return found


def judged(backbone, tokenizer, paradigms):
    """Counts for how many pairs of each paradigm a model is right; with equal scores, it is wrong.

    Args:
        backbone: `Seq2SeqBackbone`.
        tokenizer: `Tokenizer`.
        paradigms: list of `Paradigm`.

    Returns:
        dict, name -> [right, all].
    """
    from benchmarks.judging.pseudo_likelihood import pseudo_log_likelihoods

    sentences = [sentence for paradigm in paradigms for pair in paradigm.pairs for sentence in pair]
    good, bad = pseudo_log_likelihoods(backbone, tokenizer, sentences).reshape(-1, 2).T
    counts, start = {}, 0
    for paradigm in paradigms:
        end = start + len(paradigm.pairs)
        counts[paradigm.name] = [int((good[start:end] > bad[start:end]).sum()), end - start]
        start = end
    return counts


def published(path, paradigms):
    """Returns the results of BLiMP's authors, for 1,000 pairs per paradigm, as entries of `Store.models`.

    Raises:
        ValueError: if the file lacks a paradigm.
    """
    with open(path, encoding="utf-8") as file:
        rows = {row["UID"]: row for row in map(json.loads, file)}
    missing = [paradigm.name for paradigm in paradigms if paradigm.name not in rows]
    if missing:
        raise ValueError(f"`--published` must have all paradigms. {path} lacks {', '.join(missing)}")
    return {
        f"{name} (published)": {
            "weights": PUBLISHED,
            "num_pairs": 1000,
            "counts": {
                paradigm.name: [round(1000 * rows[paradigm.name][name]), 1000] for paradigm in paradigms
            },
        }
        for name in _PUBLISHED
    }


def _loaded(directory):
    """Returns (backbone, tokenizer) of a preset; raises ValueError if masked LM cannot have trained it."""
    from convnlp.models import Seq2SeqBackbone, Tokenizer
    from convnlp.objectives import MaskedLanguageModeling

    backbone, tokenizer = Seq2SeqBackbone.from_preset(directory), Tokenizer.from_preset(directory)
    MaskedLanguageModeling(input_length=8).check(backbone)
    return backbone, tokenizer


if __name__ == "__main__":
    define_flags()
    programs.run(main)
