"""The forward pass of a text classifier at growing lengths, compared with attention, keras_nlp and PyTorch.

    python -m benchmarks.encoder --json=FILE

The models have four layers of width 256 and lightweight convolutions with 7 taps and 8 heads. Throughput is
measured with 8192 positions per call, including pads; latency with one text per call. Our models and those
of keras_nlp's layers run as a `tf.function` of the model, traced for the shape; the dtype bfloat16 is the
policy mixed_bfloat16. PyTorch runs in `inference_mode`. In bfloat16 it has bfloat16 weights; the
convolution encoder also runs with autocast, and the faster form is the peer.

With "padding": "none", texts fill their rows; our models get a mask of ones, as users pass it, and the
peers get none. With "half", texts have n / 2 to n tokens followed by pads, and all get the mask. PyTorch's
TransformerEncoder takes its fast path, with nested tensors if there is a mask.
"""

import copy
import dataclasses
import functools

import numpy as np
import tensorflow as tf
from absl import flags

from benchmarks import machine, program, timing
from benchmarks.peers import keras_nlp_models
from benchmarks.shared_flags import check_among
from benchmarks.small_models import (
    ATTENTION,
    CONVOLUTION,
    KERNEL_SIZE,
    POLICIES,
    SEED,
    SIZES,
    backbone,
    token_ids,
)
from convnlp.models import TextClassifier

NUM_CLASSES = 2
_DTYPES = flags.DEFINE_list("dtypes", [], f"Number types, of {', '.join(POLICIES)}. Default: both.")


@dataclasses.dataclass
class Settings:
    """What is measured.

    Args:
        lengths: tuple of int, for throughput.
        padded_lengths: tuple of int, the `lengths` that are also measured with pads.
        latency_lengths: tuple of int.
        dtypes: tuple of str, keys of `POLICIES`.
        tokens_per_call: int, positions per call for throughput; a multiple of the lengths.
        repeats: int, samples; at most two from length 4096 on.
        sizes: dict, see `benchmarks.peers`.
    """

    lengths: tuple = (64, 512, 1024, 2048, 4096, 8192)
    padded_lengths: tuple = (64, 512, 1024, 2048, 4096)
    latency_lengths: tuple = (64, 512, 2048)
    dtypes: tuple = ("float32", "bfloat16")
    tokens_per_call: int = 8192
    repeats: int = 3
    sizes: dict = dataclasses.field(default_factory=lambda: SIZES)


def rows(settings):
    """Yields the rows of throughput, then those of latency."""
    dtypes = _DTYPES.value or settings.dtypes
    check_among("dtypes", dtypes, POLICIES)
    for dtype in dtypes:
        models = Models(dtype, settings)
        for length in settings.lengths:
            for padding in ("none", "half") if length in settings.padded_lengths else ("none",):
                batch_size = settings.tokens_per_call // length
                yield from _compared(models, "forward", length, batch_size, padding, settings)
        for length in settings.latency_lengths:
            yield from _compared(models, "latency", length, 1, "none", settings)


def _compared(models, what, length, batch_size, padding, settings):
    """Yields the rows of one shape: ours compared with the fastest form of each peer."""
    ids = token_ids(batch_size, length, settings.sizes["vocabulary_size"])
    mask = None
    if padding == "half":
        lengths = np.random.default_rng(SEED).integers(length // 2, length + 1, batch_size)
        mask = np.arange(length) < lengths[:, np.newaxis]  # [B,T]
    peers = models.peers(ids, mask)
    candidates = {CONVOLUTION: models.ours(CONVOLUTION, ids, mask)}
    for forms in peers.values():
        candidates.update(forms)
    repeats = min(settings.repeats, 2) if length >= 4096 else settings.repeats
    timings = timing.interleaved(candidates, repeats, max_rounds=2 * repeats)

    setting = {
        "dtype": models.dtype,
        "length": length,
        "batch_size": batch_size,
        "padding": padding,
        "mixer": CONVOLUTION,
        "kernel_size": KERNEL_SIZE,
        "seed": SEED,
        "shapes": settings.sizes,
    }
    unit, work = ("tokens/s", batch_size * length) if what == "forward" else ("ms", None)
    for peer, forms in peers.items():
        form = min(forms, key=lambda form: timings[form].median)
        yield program.compare(
            f"encoder {what} vs {peer}",
            setting,
            timings[CONVOLUTION],
            timings[form],
            unit,
            work,
            peer_form=form,
        )


class Models:
    """All classifiers of one dtype, and calls of them on given inputs.

    Inputs are int32 `ids` [B,T] and a bool `mask` [B,T], True = token, or None if there are no pads.
    """

    def __init__(self, dtype, settings):
        self.dtype = dtype
        sizes, max_length = settings.sizes, max(settings.lengths + settings.latency_lengths)
        self._ours = {
            mixer: TextClassifier(backbone(mixer, dtype, sizes, num_decoder_layers=0), NUM_CLASSES)
            for mixer in (CONVOLUTION, ATTENTION)
        }
        self._keras_nlp = {
            is_masked: keras_nlp_models.classifier(sizes, max_length, NUM_CLASSES, is_masked, POLICIES[dtype])
            for is_masked in (False, True)
        }
        self._pytorch = pytorch_forms(dtype, sizes, max_length) if machine.optional_torch() else {}

    def ours(self, mixer, ids, mask):
        """Returns a function without arguments that classifies with our model."""
        mask = np.ones(ids.shape, bool) if mask is None else mask
        return _graph(self._ours[mixer], {"token_ids": ids, "padding_mask": mask})

    def peers(self, ids, mask):
        """Returns dict, name of a peer in the rows -> dict, name of a form -> function as of `ours`."""
        inputs = {"token_ids": ids} if mask is None else {"token_ids": ids, "padding_mask": mask}
        peers = {
            "own attention": {ATTENTION: self.ours(ATTENTION, ids, mask)},
            "keras_nlp TransformerEncoder": {"keras_nlp": _graph(self._keras_nlp[mask is not None], inputs)},
        }
        for name, forms in self._pytorch.items():
            if name == "TransformerEncoder":
                name += ", unmasked" if mask is None else ", masked"
            peers[f"PyTorch {name}"] = {
                f"{name}, {form}": functools.partial(call, ids, mask) for form, call in forms.items()
            }
        return peers


def _graph(model, inputs):
    inputs = {name: tf.constant(value) for name, value in inputs.items()}
    function = tf.function(lambda inputs: model(inputs, training=False), autograph=False)
    return lambda: function(inputs).numpy()


def pytorch_forms(dtype, sizes, max_length):
    """Returns the PyTorch classifiers: dict, name -> dict, form -> function from (ids, mask) to logits."""
    import torch

    from benchmarks.peers import pytorch_models

    def call(model, is_autocast, ids, mask):
        mask = None if mask is None else torch.from_numpy(mask)
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=is_autocast):
            return model(torch.from_numpy(ids), mask)

    def forms(encoder, takes_autocast):
        model = pytorch_models.TextClassifier(encoder, sizes["hidden_dim"], NUM_CLASSES).eval()
        if dtype == "float32":
            return {"float32": functools.partial(call, model, False)}
        converted = copy.deepcopy(model).to(torch.bfloat16)
        forms = {"bfloat16 weights": functools.partial(call, converted, False)}
        if takes_autocast:
            forms["autocast"] = functools.partial(call, model, True)
        return forms

    return {
        "convolution encoder": forms(pytorch_models.Encoder("conv", sizes, KERNEL_SIZE), True),
        # On a CPU, its fast path ignores autocast: an error with a mask, float32 without.
        "TransformerEncoder": forms(pytorch_models.TransformerEncoder(sizes, max_length), False),
    }


if __name__ == "__main__":
    program.run(
        rows,
        full=Settings(),
        short=Settings(lengths=(64, 512, 1024), padded_lengths=(512,), latency_lengths=(512,), repeats=2),
    )
