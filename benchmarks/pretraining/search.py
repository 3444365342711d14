r"""Small pre-training runs that choose the recipe of the shipped presets; writes a table of their results.

    python -m benchmarks.pretraining.search --data_dir=DATA --mixture='jsonl:DIR/mixture*.{split}.jsonl.gz' \
        --tokenizer=spm.model --workdir=DIR

Each variant is `configs/pretrain_encoder.py` with 10M tokens and the change that its name describes.
Variants are compared by the held-out loss of the encoder, with the same rows and masks for all, and, unless
--seeds is empty, by the validation scores (never the test scores) of classifiers fine-tuned from it on
DATA/classification. Runs that are done are not repeated, and interrupted runs continue; the table is
written after each variant.
"""

import json
import pathlib

import numpy as np
import tensorflow as tf
from absl import flags

from benchmarks import pages
from benchmarks.labelled_set import LabelledSet, chosen_variants, validation_accuracy
from benchmarks.run_once import run_once
from benchmarks.shared_flags import read_seeds
from convnlp import programs
from convnlp.data import Source
from convnlp.models import Seq2SeqBackbone, Tokenizer
from convnlp.objectives import build_objectives, pretraining_batches, pretraining_loss
from convnlp.training import graphs

TOKENS = 10_000_000
# Name -> changed fields of the config.
VARIANTS = {
    "as the config": {},
    "learning rate 1e-3": {"optimizer.learning_rate": 1e-3},
    "learning rate 4e-3": {"optimizer.learning_rate": 4e-3},
    "mask 25%": {"objective.noise_density": 0.25},
    "mask 40%": {"objective.noise_density": 0.4},
    "rows of 64 tokens": {"data.input_length": 64, "train.batch_size": 64},
    "16,384 tokens per step": {"train.batch_size": 128, "optimizer.warmup_steps": 60},
    "16,384 tokens per step, learning rate 4e-3": {
        "train.batch_size": 128,
        "optimizer.warmup_steps": 60,
        "optimizer.learning_rate": 4e-3,
    },
    "kernels 7, dilated by 1, 2, 4, 8": {"model.kernel_size": (7,), "model.dilation_rate": (1, 2, 4, 8)},
    "kernels 31, 15, 7, 3": {"model.kernel_size": (31, 15, 7, 3)},
    "kernels 3, 5, 7, 9": {"model.kernel_size": (3, 5, 7, 9)},
    "self_attention": {"model.mixer": "self_attention"},
    "self_attention, learning rate 1e-3": {
        "model.mixer": "self_attention",
        "optimizer.learning_rate": 1e-3,
    },
}
LENGTHS = {"train.batch_size": 32, "data.input_length": 128}  # of the config
STEPS_PER_CALL = 20
JUDGED_BATCHES = 50  # 205,000 tokens
CLASSIFICATION = {
    "sst2": LabelledSet(("train", "valid"), 2, 48, 4.0),
    "trec6": LabelledSet(("train[10%:]", "train[:10%]"), 6, 32, 8.0),
}


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("data_dir", None, "Directory with classification/*.jsonl.gz.", required=True)
    flags.DEFINE_string("mixture", None, "Source of text to pre-train on, with {split}.", required=True)
    flags.DEFINE_string("tokenizer", None, "SentencePiece model.", required=True)
    flags.DEFINE_string("workdir", None, "Directory for all runs and the table.", required=True)
    flags.DEFINE_list("seeds", ["0", "1"], "Seeds of fine-tuning; empty for losses alone.")
    flags.DEFINE_list("variants", [], "Numbers of the variants to run, from 0. Default: all.")


def main(argv):
    """Flags -> runs -> table."""
    del argv
    args = flags.FLAGS
    workdir = pathlib.Path(args.workdir)
    chosen = chosen_variants(args.variants, VARIANTS, CLASSIFICATION, pathlib.Path(args.data_dir))
    seeds = read_seeds(args.seeds) if args.seeds else ()
    for number in chosen:
        name = list(VARIANTS)[number]
        folder = workdir / f"{number:02d}"
        changes = VARIANTS[name]
        fields = pretraining_fields(changes, args.mixture, args.tokenizer)
        run_once("convnlp.pretrain", folder / "pretrained", fields, folder / "pretrained" / "preset")
        scores = {
            "name": name,
            "changes": changes,
            "loss": held_out_loss(folder / "pretrained" / "preset", args.mixture),
        }
        for task in CLASSIFICATION:
            scores[task] = [
                validation_accuracy(
                    folder / f"{task}_{seed}", _finetuning_fields(task, seed, folder, args.data_dir)
                )
                for seed in seeds
            ]
        (folder / "scores.json").write_text(json.dumps(scores, indent=2), encoding="utf-8")
        (workdir / "table.md").write_text(table(workdir), encoding="utf-8")


def pretraining_fields(changes, mixture, tokenizer):
    """Returns the flags of a pre-training run: a variant's changes, and the steps for `TOKENS` tokens."""
    fields = {**LENGTHS, **changes}
    per_step = fields["train.batch_size"] * fields["data.input_length"]
    steps = TOKENS // per_step // STEPS_PER_CALL * STEPS_PER_CALL
    half = steps // 2 // STEPS_PER_CALL * STEPS_PER_CALL
    counts = {"train.num_steps": steps, "train.eval_every": half, "train.checkpoint_every": half}
    return {
        "config": f"configs/pretrain_encoder.py:{changes.get('model.mixer', 'dynamic_conv')}",
        "config.data.source": mixture,
        "config.data.split": "train",
        "config.data.validation_split": "valid",
        "config.tokenizer": tokenizer,
        **{f"config.{name}": value for name, value in (changes | counts).items()},
    }


def _finetuning_fields(task, seed, folder, data_dir):
    return {
        **CLASSIFICATION[task].fields(task, folder / "pretrained" / "preset", data_dir, seed),
        "config.task.options.ngram_buckets": 0,  # only the encoder is to be judged
    }


def held_out_loss(preset, mixture):
    """Returns the masked-LM loss of an encoder on held-out text, in nats per predicted token.

    The rows and masks are those of `configs/pretrain_encoder.py`, whatever the encoder was trained with.

    Args:
        preset: pathlib.Path of the encoder.
        mixture: str, the source, with {split}.
    """
    objectives = build_objectives(("masked_lm",), LENGTHS["data.input_length"])
    source, tokenizer = Source(mixture, "valid"), Tokenizer.from_preset(str(preset))
    batches = pretraining_batches(
        source, tokenizer, objectives, shuffle_buffer=0, num_epochs=1, batch_size=32, seed=0
    )
    loss_fn = pretraining_loss(Seq2SeqBackbone.from_preset(str(preset)), objectives)
    evaluation = graphs.evaluation(
        tf.distribute.get_strategy(), lambda batch: loss_fn(batch, None, training=False)
    )
    return evaluation(batches.take(JUDGED_BATCHES))["masked_lm"]


def table(workdir):
    """Returns the Markdown table of all finished variants; scores are empty without fine-tuning."""
    lines = []
    for path in sorted(workdir.glob("*/scores.json")):
        scores = json.loads(path.read_text(encoding="utf-8"))
        means = [_mean_and_each(scores[task]) for task in CLASSIFICATION]
        lines.append([scores["name"], f"{scores['loss']:.3f}", *means])
    return pages.table(["variant", "held-out loss", "SST-2", "TREC-6"], lines) + "\n"


def _mean_and_each(scores):
    each = ", ".join(f"{100 * score:.1f}" for score in scores)
    return f"{100 * np.mean(scores):.1f} ({each})" if scores else ""


if __name__ == "__main__":
    define_flags()
    programs.run(main)
