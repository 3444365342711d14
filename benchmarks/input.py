"""The host pipeline of pre-training, stage by stage, the share of a core that it needs, and import time.

    python -m benchmarks.input --json=FILE [--source=SOURCE] [--tokenizer=spm.model] [--training_rate=N]

Prefixes of the pipeline are timed: reading documents, then also tokenizing, cutting into rows (packing),
shuffling and batching, and finally span corruption. Each runs over the same documents. A row gives the
tokens that all threads of a prefix process per second of CPU time, and `detail` the CPU time that the last
stage adds. The share of a core is the training rate divided by the rate of the whole pipeline, both in
tokens of raw text. If no training rate is given, it is measured with a mini model in bfloat16.
"""

import dataclasses
import os
import statistics
import subprocess
import sys

import tensorflow as tf
from absl import flags

from benchmarks import program
from benchmarks.goals import goal
from benchmarks.rows import Row
from benchmarks.timing import interleaved
from convnlp.data import Source, pretraining, sources
from convnlp.objectives import build_objectives, pretraining_batches, pretraining_loss

SEED = 0


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to read, and what to train.

    Args:
        source: str, see `convnlp.data.sources`.
        num_documents: int.
        tokenizer: str, path of a SentencePiece model; None trains one on the source.
        vocabulary_size: int, of the tokenizer trained here.
        input_length: int, length of the rows after corruption.
        batch_size: int.
        repeats: int, see `interleaved`.
        training_rate: float, raw tokens per second of one training process; None measures it.
        training_size: str, name in `convnlp.models.SIZES`, of the model to measure the training rate with.
        import_repeats: int, number of fresh processes that import convnlp.
    """

    source: str = "pydocs"
    num_documents: int = 20000
    tokenizer: str | None = None
    vocabulary_size: int = 8000
    input_length: int = 128
    batch_size: int = 32
    repeats: int = 5
    training_rate: float | None = None
    training_size: str = "mini"
    import_repeats: int = 5


FULL = Settings()
SHORT = Settings(num_documents=4000, vocabulary_size=4000, repeats=3, import_repeats=2)


def rows(settings):
    """Yields one row per stage, then those of the share of a core and of the import."""
    tokenizer = _tokenizer(settings)
    setting = {
        "source": settings.source,
        "documents": settings.num_documents,
        "vocabulary_size": tokenizer.vocabulary_size(),
        "input_length": settings.input_length,
        "batch_size": settings.batch_size,
        "seed": SEED,
    }
    prefixes = _prefixes(settings, tokenizer)
    num_tokens = sum(int(tf.size(tokens)) for tokens in prefixes["tokenize"])
    timings = interleaved(
        {name: lambda dataset=dataset: _exhaust(dataset) for name, dataset in prefixes.items()},
        settings.repeats,
        warmup=1,
        min_seconds=0,
    )
    before = 0.0
    for name, timing in timings.items():
        rate = num_tokens / timing.cpu_seconds
        yield Row(
            f"pipeline up to {name}",
            setting,
            rate,
            None,
            "tokens/CPU s",
            "higher",
            detail={
                "added_microseconds_a_token": 1e6 * (timing.cpu_seconds - before) / num_tokens,
                "tokens": num_tokens,
                "wall": timing.summary(),
            },
        )
        before = timing.cpu_seconds
    name = "host pipeline, share of a core"
    training_rate = settings.training_rate or training_rate_of(settings, tokenizer)
    detail = {"model": None if settings.training_rate else f"lightweight_conv, {settings.training_size}"}
    yield Row(name, setting, training_rate, rate, "tokens/s", "limit", goal(name, setting), detail)
    if settings.import_repeats:
        yield import_row(settings.import_repeats)


def _prefixes(settings, tokenizer):
    """Returns the pipeline up to each stage: {name: finite tf.data.Dataset}."""
    source = Source(settings.source, f"train[:{settings.num_documents}]")
    objectives = build_objectives(["span_corruption"], settings.input_length)
    documents = sources.read_blocks(source)
    rows_of_text = pretraining.cut_rows(documents, tokenizer, "text", objectives[0].row_length)
    shuffle_buffer = 16384  # the default of `pretraining.batches`
    shuffled = rows_of_text.shuffle(shuffle_buffer, seed=SEED)
    return {
        "read": documents,
        "tokenize": documents.map(lambda block: tokenizer.tokenize(block["text"]).flat_values),
        "pack": rows_of_text,
        "batch": shuffled.batch(settings.batch_size, drop_remainder=True),
        "corrupt": pretraining_batches(
            source,
            tokenizer,
            objectives,
            batch_size=settings.batch_size,
            shuffle_buffer=shuffle_buffer,
            seed=SEED,
            num_epochs=1,
        ),
    }


def _exhaust(dataset):
    # Counted inside tf.data: a loop in Python would cost more than the small elements themselves.
    return int(dataset.reduce(tf.constant(0, tf.int64), lambda count, _: count + 1))


def _tokenizer(settings):
    """Returns the tokenizer of the settings; without one, trains it on the first documents."""
    from convnlp import train_tokenizer
    from convnlp.models import Tokenizer

    if settings.tokenizer:
        return Tokenizer.from_file(settings.tokenizer)
    source = Source(settings.source)
    lines = train_tokenizer.sample(source, num_documents=settings.num_documents, num_bytes=2_000_000)
    return Tokenizer(train_tokenizer.train(lines, settings.vocabulary_size))


def training_rate_of(settings, tokenizer):
    """Returns the tokens of raw text that training consumes per second, measured on bfloat16 steps."""
    import keras

    from convnlp.models import SIZES, Seq2SeqBackbone

    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(),
        **SIZES[settings.training_size],
        mixer="lightweight_conv",
        dtype="mixed_bfloat16",
    )
    objectives = build_objectives(["span_corruption"], settings.input_length)
    loss_fn = pretraining_loss(backbone, objectives)
    optimizer = keras.optimizers.AdamW(1e-3)
    optimizer.build(backbone.trainable_variables)
    (batch,) = _prefixes(settings, tokenizer)["corrupt"].take(1)

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            losses = loss_fn(batch, tf.constant([0, SEED]))
            loss = losses["loss_sum"] / losses["weight"]
        optimizer.apply(tape.gradient(loss, backbone.trainable_variables), backbone.trainable_variables)
        return loss

    timing = interleaved({"step": lambda: step().numpy()}, settings.repeats)["step"]
    return settings.batch_size * objectives[0].row_length / timing.median


def import_row(repeats, first=("tensorflow", "keras_nlp"), then="convnlp"):
    """Returns a row with the seconds of `import convnlp` after TensorFlow and keras_nlp have been imported.

    Args:
        repeats: int, number of fresh processes.
        first: tuple of str, modules that are imported before the clock starts.
        then: str, the module to time.
    """
    code = (
        f"import time; a = time.perf_counter(); import {', '.join(first)}; b = time.perf_counter(); "
        f"import {then}; print(b - a, time.perf_counter() - b)"
    )
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    samples = []
    for _ in range(repeats + 1):  # the first may read from a cold disk and write .pyc files
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
        )
        samples.append([float(seconds) for seconds in done.stdout.split()])
    before, ours = zip(*samples[1:], strict=True)
    name = f"import {then}"
    return Row(
        name,
        {"after": ", ".join(first)},
        statistics.median(ours),
        None,
        "s",
        "lower",
        goal(name, {}),
        {"samples": ours, "samples_of_the_imports_before": before},
    )


if __name__ == "__main__":
    source = flags.DEFINE_string("source", Settings.source, "Text: tfds:NAME, jsonl:GLOB, text:GLOB, pydocs.")
    tokenizer = flags.DEFINE_string("tokenizer", None, "SentencePiece model. Default: trained.")
    training_rate = flags.DEFINE_float(
        "training_rate", None, "Raw tokens/s of training. Default: measured.", 1.0
    )

    def with_flags(settings):
        """Returns the settings with the values of the flags."""
        return dataclasses.replace(
            settings, source=source.value, tokenizer=tokenizer.value, training_rate=training_rate.value
        )

    program.run(lambda settings: rows(with_flags(settings)), FULL, SHORT)
