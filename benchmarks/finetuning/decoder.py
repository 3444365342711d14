r"""What a pre-trained decoder gains, on a task that needs no labels; prints a table.

    python -m benchmarks.finetuning.decoder --source='jsonl:TEXT/*.jsonl.gz' --workdir=DIR

Sentences of --source, preferably text that the preset was not pre-trained on, lose their capitals and their
punctuation, and a model learns to restore them with `configs/finetune_text_to_text.py`. It starts from the
preset, from the preset's encoder with a new decoder, or from random weights of the same shape, each with
the same number of steps. It is scored on sentences that no run has seen: the share that is exactly right,
and the F1 of words including capitals and punctuation. Runs that are done are not repeated.
"""

import json
import pathlib
import re

import numpy as np
from absl import flags

from benchmarks import pages
from benchmarks.run_once import run_once
from convnlp import programs
from convnlp.data import Source, sources
from convnlp.models import Seq2SeqBackbone, Tokenizer, preset_names
from convnlp.tasks.scores import word_f1
from convnlp.training import storage

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\"'A-Z])")
_LEAST_WORDS, _MOST_WORDS = 5, 25
STARTS = ("the preset", "its encoder, a new decoder", "random weights")


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("source", None, "Raw text, a source as for convnlp.pretrain.", required=True)
    flags.DEFINE_string("preset", "dynamic_conv_mini_en", "Preset with an encoder and a decoder.")
    flags.DEFINE_string("workdir", None, "Directory for the sentences and all runs.", required=True)
    flags.DEFINE_list("sizes", ["1000", "4000"], "Numbers of training sentences.")
    flags.DEFINE_integer("num_test", 1000, "Number of test sentences.", lower_bound=1)
    flags.DEFINE_integer("num_epochs", 8, "Epochs of each run.", lower_bound=1)
    flags.DEFINE_integer("seed", 0, "Seed of the sentences and the runs.", lower_bound=0)


def main(argv):
    """Flags -> runs -> table."""
    del argv
    args = flags.FLAGS
    sizes = [size_of(size) for size in args.sizes]
    workdir = pathlib.Path(args.workdir)
    preset_names.locate(args.preset)  # before anything is written
    sources.paths(Source(args.source))
    require_same(
        workdir,
        {
            "source": args.source,
            "preset": args.preset,
            "sentences": max(sizes) + args.num_test,
            "num_test": args.num_test,
            "seed": args.seed,
        },
    )
    presets = make_presets(args.preset, workdir)
    make_data(args.source, workdir, max(sizes), args.num_test, args.seed)
    rows = [["", "the input as it is", *untouched(workdir / "test.jsonl")]]
    for size in sizes:
        for start in STARTS:
            run = workdir / f"{STARTS.index(start)}_{size}_{args.num_epochs}_{args.seed}"
            fields = fields_of(workdir, presets[start], size, args.num_epochs, args.seed)
            run_once("convnlp.finetune", run, fields, run / "results.json")
            scores = json.loads((run / "results.json").read_text(encoding="utf-8"))["test"]
            rows.append(
                [f"{size:,}", start, f"{100 * scores['exact_match']:.1f}", f"{100 * scores['word_f1']:.1f}"]
            )
            print(rows[-1], flush=True)
    print(pages.table(["sentences", "start", "exactly right", "F1 of words"], rows))


def size_of(text):
    """Returns a value of --sizes as int; raises ValueError if it is not a number of sentences."""
    if not text.isdigit() or int(text) < 100:
        raise ValueError(f"--sizes must be whole numbers >= 100. Received: {text!r}")
    return int(text)


def require_same(workdir, settings):
    """Raises ValueError if the directory was made with other settings; otherwise writes these there."""
    path = workdir / "settings.json"
    before = storage.read_json(str(path)) if path.exists() else settings
    if before != settings:
        raise ValueError(f"--workdir must be new for other settings. Received: {settings}, before: {before}")
    workdir.mkdir(parents=True, exist_ok=True)
    storage.write_json(str(path), settings)


def make_presets(preset, workdir):
    """Writes the encoder alone, pre-trained and random; returns dict, start -> its flags."""
    backbone, tokenizer = Seq2SeqBackbone.from_preset(preset), Tokenizer.from_preset(preset)
    if not backbone.num_layers or not backbone.num_decoder_layers:
        raise ValueError(f"--preset must have an encoder and a decoder. Received: {preset!r}")
    kernels = tuple(mixer["kernel_size"] for mixer in backbone.decoder.mixers)
    decoder = {"config.model.num_decoder_layers": len(kernels), "config.model.decoder_kernel_size": kernels}
    encoder, random = (str(workdir / name) for name in ("encoder", "random"))
    if not pathlib.Path(random).exists():
        alone = backbone.encoder_only()
        for target in (encoder, random):
            tokenizer.save_to_preset(target)
        alone.save_to_preset(encoder)
        Seq2SeqBackbone.from_config(alone.get_config()).save_to_preset(random)
    starts = (
        {"config.init_from": preset},  # which has that decoder, trained
        {"config.init_from": encoder, **decoder},
        {"config.init_from": random, **decoder},
    )
    return dict(zip(STARTS, starts, strict=True))


def make_data(source, workdir, num_train, num_test, seed):
    """Writes train.jsonl and test.jsonl, with "input" and "target", unless they exist.

    Raises:
        ValueError: if the source has too few different sentences.
    """
    train, test = workdir / "train.jsonl", workdir / "test.jsonl"
    if train.exists() and test.exists():
        return
    found = {}
    for text in texts_of(source):
        found |= {stripped(sentence): sentence for sentence in sentences(text)}
        if len(found) >= 4 * (num_train + num_test):
            break
    if len(found) < num_train + num_test:
        raise ValueError(
            f"--source must have {num_train + num_test:,} sentences. Received: {source!r}, {len(found):,}"
        )
    pairs = [{"input": given, "target": wanted} for given, wanted in found.items()]
    order = np.random.default_rng(seed).permutation(len(pairs))
    for path, chosen in ((test, order[:num_test]), (train, order[num_test : num_test + num_train])):
        storage.write(str(path), "".join(json.dumps(pairs[i]) + "\n" for i in chosen).encode())


def untouched(path):
    """Returns the scores of the unchanged inputs, as strings in per cent."""
    pairs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    given = [(pair["input"], pair["target"]) for pair in pairs]
    exact = np.mean([found == wanted for found, wanted in given])
    return f"{100 * exact:.1f}", f"{100 * np.mean([word_f1(*each) for each in given]):.1f}"


def texts_of(source):
    """Yields the texts of a source, in its order."""
    for _, (text,) in sources.records(Source(source, "train")):
        yield text.decode()


def sentences(text):
    """Returns the sentences of 5 to 25 words that begin with a capital and end with . ! or ?.

    Example:
    >>> sentences("It was late, and nobody came. No! So we went home by the road.")
    ['It was late, and nobody came.', 'So we went home by the road.']
    """
    found = (" ".join(each.split()) for each in _SENTENCE.split(text))
    return [
        each
        for each in found
        if _LEAST_WORDS <= len(each.split()) <= _MOST_WORDS and each[0].isupper() and each[-1] in ".!?"
    ]


def stripped(sentence):
    """Returns a sentence in lower case and without punctuation.

    Example:
    >>> stripped("It's late, and Mr. Smith didn't come.")
    'its late and mr smith didnt come'
    """
    return " ".join(re.sub(r"[^\w\s]", "", sentence.lower()).split())


def fields_of(workdir, start, size, num_epochs, seed):
    """Returns the flags of a run."""
    return {
        "config": "configs/finetune_text_to_text.py",
        "config.seed": seed,
        **start,
        "config.data.source": f"jsonl:{workdir}/train.jsonl",
        "config.data.split": f"train[:{size}]",
        "config.data.test_source": f"jsonl:{workdir}/test.jsonl",
        "config.data.input_length": 64,
        "config.data.target_length": 64,
        "config.task.input_field": "input",
        "config.task.target_field": "target",
        "config.task.num_epochs": float(num_epochs),
    }


if __name__ == "__main__":
    define_flags()
    programs.run(main)
