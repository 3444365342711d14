"""Compares `convnlp.batch_predict` with a plain loop over the same file with the same SavedModel.

    python -m benchmarks.bulk --json=FILE

needs requirements-beam.txt. Both read JSON Lines, call the model with batches of `batch_size` texts, and
write JSON Lines; both load the model in each run. The loop takes the texts in the order of the file. The
Beam pipeline sorts the texts of a shard by length, writes each file completely or not at all, and counts.
Only tokens that the model reads are counted: texts are truncated to `length`.
"""

import dataclasses
import itertools
import json
import os
import tempfile
import uuid

import tensorflow as tf
import tensorflow_text

from benchmarks import program
from benchmarks.exported import export_classifier
from benchmarks.timing import interleaved
from convnlp.bulk import engine, inputs, job, pipeline
from convnlp.data import Source, sources


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to predict.

    Args:
        num_texts: int, number of documents of `pydocs`.
        length: int, largest number of tokens of an example.
        batch_size: int.
        shard_size: int.
        repeats: int, see `interleaved`.
        mixer: str.
        size: str, name in `convnlp.models.SIZES`.
    """

    num_texts: int = 5_000
    length: int = 128
    batch_size: int = 64
    shard_size: int = 2_500
    repeats: int = 3
    mixer: str = "lightweight_conv"
    size: str = "mini"


FULL = Settings()
SHORT = Settings(num_texts=500, length=32, shard_size=250, repeats=1, size="tiny")


def rows(settings):
    """Yields one row."""
    with tempfile.TemporaryDirectory() as folder:
        model = export_classifier(settings.mixer, settings.size, settings.length, folder)
        source = os.path.join(folder, "texts.jsonl")
        num_tokens = _write_texts(source, model, settings)
        timings = interleaved(
            {
                "beam": lambda: beam(source, str(model), os.path.join(folder, uuid.uuid4().hex), settings),
                "loop": lambda: plain_loop(source, str(model), os.path.join(folder, "out.jsonl"), settings),
            },
            settings.repeats,
            warmup=1,
        )
    setting = {"model": f"{settings.mixer}, {settings.size}", "length": settings.length}
    setting |= {"num_texts": settings.num_texts, "batch_size": settings.batch_size}
    yield program.compare(
        "bulk prediction vs a plain loop",
        setting,
        timings["beam"],
        timings["loop"],
        "tokens/s",
        work=num_tokens,
        num_tokens=num_tokens,
    )


def beam(source, model, folder, settings):
    """Predicts with the pipeline of `convnlp.batch_predict`; returns the summary."""
    found = inputs.open_input(f"jsonl:{source}", shard_size=settings.shard_size)
    job.open_folder(folder, {"files": found.description()})
    work = pipeline.Work(found, ("text",), folder, "jsonl")
    handler = pipeline.Handler(model, "serving_default", settings.batch_size)
    pipeline.run(work, handler, engine.options("DirectRunner", []))
    return job.read_summary(folder)


def plain_loop(source, model, path, settings):
    """Predicts as one would without a library."""
    loaded = tf.saved_model.load(model)
    predict = loaded.signatures["serving_default"]
    with open(source, encoding="utf-8") as file, open(path, "w", encoding="utf-8") as out:
        examples = map(json.loads, file)
        while batch := list(itertools.islice(examples, settings.batch_size)):
            answers = predict(text=tf.constant([example["text"] for example in batch]))
            columns = answers["label"].numpy(), answers["scores"].numpy().tolist()
            for example, label, scores in zip(batch, *columns, strict=True):
                example["prediction"] = {"label": label.decode(), "scores": scores}
                out.write(json.dumps(example, ensure_ascii=False) + "\n")


def _write_texts(path, model, settings):
    """Writes `num_texts` documents, repeated if there are fewer; returns their number of tokens."""
    with open(os.path.join(model, "assets", "vocabulary.spm"), "rb") as file:
        tokenizer = tensorflow_text.FastSentencepieceTokenizer(file.read(), add_eos=True)
    found = sources.read(Source("pydocs")).repeat().take(settings.num_texts)
    num_tokens = 0
    with open(path, "w", encoding="utf-8") as out:
        for example in found.batch(256):
            lengths = tokenizer.tokenize(example["text"]).row_lengths()
            num_tokens += int(tf.reduce_sum(tf.minimum(lengths, settings.length)))
            for text in example["text"].numpy():
                out.write(json.dumps({"text": text.decode()}) + "\n")
    return num_tokens


if __name__ == "__main__":
    program.run(rows, full=FULL, short=SHORT)
