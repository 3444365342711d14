"""Checks of an exported model against its preset, made in a process that has no convnlp."""

import pathlib
import pickle
import re
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

from convnlp.models import Seq2SeqLM
from export import requests
from export.signatures import label_names

# Float32 sums in another order differ by some 1e-7 an operation; a tenfold of what 12 + 12 layers add up to.
# A wrong mask, length or variable is off by 1e-2 and more.
BOUND = 1e-4

_FRESH_RUN = pathlib.Path(__file__).with_name("fresh_run.py")


def check(model, servables):
    """Asks every signature of exported models at batch 1, 2 and 5 and compares with the preset's answers.

    Each is asked through `tf.saved_model.load` and through a Session, which is what TensorFlow Serving runs.
    The preset answers in eager mode, with the kernels of training and rows of full length. What is compared:
    scores and embeddings by their largest difference (embeddings relative to their largest value), labels
    with the scores beside them, a generated token by how far its logit is below the best one given the tokens
    before it.

    Args:
        model: the `TextClassifier` or `Seq2SeqLM`.
        servables: dict, directory of a SavedModel -> its `Servable`. Those that only have the signature "ids"
            are asked before tensorflow_text is imported.

    Returns:
        dict, (directory, signature, loader) -> largest error.

    Raises:
        ValueError: if a signature fails, or differs by more than `BOUND`.
    """
    jobs, given = [], {}
    for directory, servable in servables.items():
        asked = [
            (name, requests.request(servable, name, n))
            for name in servable.signatures
            for n in requests.BATCH_SIZES
        ]
        path = str(pathlib.Path(directory).resolve())  # for the process, which stands elsewhere
        given[path] = str(directory)
        jobs.append((path, set(servable.signatures) != {"ids"}, asked))
    expected = reference(model)
    errors = {}
    for path, name, loader, inputs, outputs in _answers(jobs):
        key = given[path], name, loader
        errors[key] = np.maximum(errors.get(key, 0.0), expected.error(name, inputs, outputs))  # keeps NaN
    for (directory, name, loader), error in errors.items():
        if not error <= BOUND:  # or NaN
            raise ValueError(
                f"signature {name!r} of {directory} ({loader} loader) differs from the preset by "
                f"{error:.3g}, more than the rounding of {BOUND:g}"
            )
    return errors


def reference(model):
    """What the answers of an exported `TextClassifier` or `Seq2SeqLM` should be, by the preset itself."""
    return _LanguageModel(model) if isinstance(model, Seq2SeqLM) else _Classifier(model)


def op_names(directory):
    """The names of all operations in a SavedModel's graph and functions."""
    return {node.op for node in _nodes(directory)}


def has_custom_gradients_or_islands(directory):
    """Whether a SavedModel holds custom gradients or functions that must be compiled by XLA."""
    return any(
        node.attr["_gradient_op_type"].s.startswith(b"CustomGradient") or node.attr["_XlaMustCompile"].b
        for node in _nodes(directory)
    )


def _nodes(directory):
    from tensorflow.core.protobuf import saved_model_pb2

    proto = saved_model_pb2.SavedModel.FromString(pathlib.Path(directory, "saved_model.pb").read_bytes())
    for graph in (meta_graph.graph_def for meta_graph in proto.meta_graphs):
        yield from graph.node
        for function in graph.library.function:
            yield from function.node_def


def _answers(jobs):
    with tempfile.TemporaryDirectory() as scratch:
        jobs_path, results_path = pathlib.Path(scratch, "jobs"), pathlib.Path(scratch, "results")
        jobs_path.write_bytes(pickle.dumps(jobs))
        command = [sys.executable, "-I", str(_FRESH_RUN), str(jobs_path), str(results_path)]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        if done.returncode:
            *_, reason = re.split(r"^[\w.]*(?:Error|Exception): ", done.stderr, flags=re.MULTILINE)
            reason = " ".join(reason.split())[:300] or f"exit code {done.returncode}"
            raise ValueError(f"an exported signature fails in a fresh process: {reason}")
        return pickle.loads(results_path.read_bytes())


class _Classifier:
    """What a classifier's answers should be."""

    def __init__(self, classifier):
        self._model = classifier
        self._names = np.array([label.encode() for label in label_names(classifier)], object)

    def error(self, name, inputs, outputs):
        """The largest error of an answer; infinite where a label is not that of the best score."""
        if name == "embed":
            return _relative(outputs["embedding"], self._model.embed(self._rows(inputs)))
        labels_are_right = {
            "label": lambda labels: np.array_equal(labels, self._names[outputs["scores"].argmax(axis=1)]),
            "classes": lambda classes: (classes == self._names).all(),
        }
        if not all(right(outputs[key]) for key, right in labels_are_right.items() if key in outputs):
            return np.inf
        error = _relative(outputs["scores"], tf.nn.softmax(self.edge(inputs)))
        return np.maximum(error, self._explanation_error(inputs, outputs)) if name == "explain" else error

    def _explanation_error(self, inputs, outputs):
        """The same of an explanation, with a row of the batch for each piece that is left out."""
        detokenize = self._model.preprocessor.tokenizer.detokenize
        rows = self._rows(inputs)
        worst = 0.0
        for i, (ids, mask) in enumerate(zip(*(row.numpy() for row in rows.values()), strict=True)):
            count = mask.sum() - 1  # without the end token
            tokens = outputs["tokens"][i]
            text = b"".join(tokens).decode()
            if not all(tokens[:count]) or any(tokens[count:]) or text.strip() != detokenize(ids).strip():
                return np.inf
            all_and_without = np.stack([ids] + [np.append(np.delete(ids, t), 0) for t in range(count)])
            logits = self.edge({"token_ids": all_and_without})
            log_scores = tf.nn.log_softmax(logits).numpy()[:, outputs["scores"][i].argmax()]
            expected = np.zeros(len(tokens))
            expected[:count] = log_scores[0] - log_scores[1:]
            worst = np.maximum(worst, _relative(outputs["importances"][i], expected))
        return worst

    def edge(self, inputs):
        """The logits [B,C]."""
        return self._model(self._rows(inputs), training=False)

    def _rows(self, inputs):
        if "token_ids" in inputs:
            return {"token_ids": inputs["token_ids"], "padding_mask": inputs["token_ids"] != 0}
        if "inputs" in inputs:
            examples = [tf.train.Example.FromString(value) for value in inputs["inputs"]]
            text = [example.features.feature["text"].bytes_list.value[0] for example in examples]
        else:
            text = (inputs["text"], inputs["text_pair"]) if "text_pair" in inputs else inputs["text"]
        return self._model.preprocessor(text, y=None)  # without `y`, keras_nlp takes a tuple for (x, y)


class _LanguageModel:
    """What a language model's answers should be."""

    def __init__(self, lm):
        self._lm = lm
        self._text_of = {}  # number of rows -> the text of the ids generated for the same rows

    def error(self, name, inputs, outputs):
        """The largest error of an answer; infinite where a text is not that of the generated ids.

        The answers of "ids" have to come before those of "generate".
        """
        if name == "ids":
            ids = outputs["generated_ids"]
            self._text_of[len(ids)] = [
                text.encode() for text in self._lm.preprocessor.tokenizer.detokenize(tf.constant(ids))
            ]
            return self._shortfall(inputs["token_ids"], ids)
        if name == "embed":
            return _relative(outputs["embedding"], self.edge(inputs))
        return 0.0 if outputs["generated_text"].tolist() == self._text_of[len(inputs["text"])] else np.inf

    def edge(self, inputs):
        """The embedding [B,D]: the mean of the encoder's output over the tokens."""
        if "token_ids" in inputs:
            token_ids, mask = inputs["token_ids"], inputs["token_ids"] != 0
        else:
            rows = self._lm.preprocessor.generate_preprocess(inputs["text"])
            token_ids, mask = rows["encoder_token_ids"], rows["encoder_padding_mask"].numpy()
        backbone = self._lm.backbone
        encoded = backbone.encode(token_ids, padding_mask=mask).numpy()
        kept = np.asarray(backbone.encoder_output_mask(mask))
        return np.stack([row[tokens].mean(axis=0) for row, tokens in zip(encoded, kept, strict=True)])

    def _shortfall(self, token_ids, generated):
        """How far the logits of generated tokens lie below the best ones, given the tokens before them."""
        mask = token_ids != 0
        backbone = self._lm.backbone
        encoded = backbone.encode(token_ids, padding_mask=mask)
        shifted = np.pad(generated[:, :-1], [[0, 0], [1, 0]])  # the start token is 0
        hidden = backbone.decode(shifted, encoded, encoder_padding_mask=mask)
        logits = backbone.logits(hidden).numpy()  # [B,N,V]
        chosen = np.take_along_axis(logits, generated[..., None], axis=-1)[..., 0]
        end = generated == self._lm.preprocessor.tokenizer.end_token_id
        before_end = np.cumsum(end, axis=1) - end == 0
        return float(np.max((logits.max(axis=-1) - chosen)[before_end]))


def _relative(actual, expected):
    expected = np.asarray(expected)
    return float(np.max(np.abs(actual - expected)) / max(1.0, np.max(np.abs(expected))))
