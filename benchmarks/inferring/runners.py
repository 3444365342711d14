"""Runs one variant as its users would.

Each class imports its tool only when it is used, so that a process has no other tool in its memory. Threads
are set here and by the environment variables that `benchmarks.inferring.turns` sets for the process.
"""

import json
import pathlib

import numpy as np

from benchmarks.inferring.pieces import FACTS, Pieces


class Runner:
    """A loaded variant.

    Args:
        path: pathlib.Path, what its builder made, in the directory of the model.
        threads: int.
    """

    def __init__(self, path, threads):
        self._pieces = Pieces(path.parent)
        self._load(path, threads)

    def run(self, ids):
        """Returns logits [B,C], each row up to a constant, for token ids int32 [B,T], pads = 0."""
        raise NotImplementedError

    def answer(self, texts):
        """Does the same as `run`, for a list of B str."""
        return self.run(self._pieces(texts))


class SavedModel(Runner):
    """The exported directory, through its signatures for ids and for texts."""

    def __init__(self, path, threads):
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  (registers the tokenizer's operations)

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        self._tf, self._model = tf, tf.saved_model.load(str(path))

    def run(self, ids):
        return self._scores("ids", token_ids=self._tf.constant(ids))

    def answer(self, texts):
        return self._scores("serving_default", text=self._tf.constant(texts))

    def _scores(self, name, **inputs):
        return np.log(self._model.signatures[name](**inputs)["scores"].numpy())


class LiteRt(Runner):
    """The file for edge devices, through the class that users copy into their application."""

    def __init__(self, path, threads):
        from convnlp.export.edge_model import EdgeModel

        self._model = EdgeModel(path, threads)

    def run(self, ids):
        return self._model.run(ids)

    def answer(self, texts):
        return self._model.run(self._model.token_ids(texts))


class PyTorch(Runner):
    """The twin, eager or compiled; it gets no mask if no row has pads."""

    def __init__(self, path, threads, dtype="float32", autocast=False, compiled=False):
        self._dtype, self._autocast, self._compiled = dtype, autocast, compiled
        super().__init__(path, threads)

    def _load(self, path, threads):
        import torch

        from benchmarks.peers import pytorch_deployed

        torch.set_num_threads(threads)
        facts = json.loads((path.parent / FACTS).read_text(encoding="utf-8"))
        state = {name: value.float() for name, value in torch.load(path).items()}
        model = pytorch_deployed.classifier(facts, state, channels_last=not self._compiled)
        model = model.to(getattr(torch, self._dtype))
        if self._compiled:
            import torch._inductor.config

            torch._inductor.config.freezing = True  # packs the weights for the processor
            model = torch.compile(model)
        self._torch, self._model = torch, model

    def run(self, ids):
        torch, mask = self._torch, ids != 0
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=self._autocast):
            token_ids = torch.from_numpy(ids.astype(np.int64))
            logits = self._model(token_ids, None if mask.all() else torch.from_numpy(mask))
            return logits.float().numpy()


class OnnxRuntime(Runner):
    """A session with all graph optimisations."""

    def _load(self, path, threads):
        self._session = _session(path, threads)

    def run(self, ids):
        return self._session.run(None, {"token_ids": ids.astype(np.int64)})[0]


class OpenVino(Runner):
    """A compiled model with the performance hint for one request at a time."""

    def __init__(self, path, threads, precision):
        self._precision = precision
        super().__init__(path, threads)

    def _load(self, path, threads):
        import openvino

        hints = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": self._precision,
        }
        compiled = openvino.Core().compile_model(str(path), "CPU", hints)
        self._request = compiled.create_infer_request()

    def run(self, ids):
        outputs = self._request.infer({0: ids.astype(np.int64)}, share_inputs=True, share_outputs=True)
        return np.array(outputs[0])


class MiniLm(Runner):
    """Sentence embeddings without a head, which would cost next to nothing."""

    def __init__(self, path, threads):
        from benchmarks.scoring import minilm

        self._minilm = minilm
        self._session = _session(path / minilm.FILES[0], threads)
        self._tokenizer = minilm.tokenizer(path)

    def run(self, ids):
        return self._minilm.embedded(self._session, ids.astype(np.int64), (ids != 0).astype(np.int64))

    def answer(self, texts):
        return self._minilm.embedded(self._session, *self._minilm.token_ids(self._tokenizer, texts))


def _session(path, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def load(variant, path, threads):
    """Returns the `Runner` of a variant.

    Args:
        variant: `benchmarks.inferring.variants.Variant`.
        path: path of what its builder made.
        threads: int.
    """
    return globals()[variant.runner](pathlib.Path(path), threads, **variant.options)
