"""How a model is saved in presets, and what it refuses of what Keras offers."""

from convnlp.models.checked_preset import CheckedPreset

EXPORT_FORMATS = ("tf_saved_model", "litert")


class ModelPreset(CheckedPreset):
    """A `CheckedPreset` of a Keras model, a task's or a backbone."""

    def export(self, filepath, format="tf_saved_model", *args, **kwargs):
        """As in Keras, a model that takes token ids and their mask; `convnlp export` writes one for texts.

        Raises:
            ValueError: if the format is not one of `EXPORT_FORMATS`. Keras would only name the package that
                it would need next, and which cannot convert these layers.
        """
        if format not in EXPORT_FORMATS:
            raise ValueError(
                f"`format` must be one of {', '.join(EXPORT_FORMATS)}, or use `convnlp export` or `convnlp "
                "export-tflite`, whose models also take texts; an ONNX file comes from the model's twin in "
                f"PyTorch (benchmarks/peers/pytorch_deployed.py). Received: format={format!r}"
            )
        super().export(filepath, format, *args, **kwargs)

    def quantize(self, mode=None, **kwargs):
        """Not supported: Keras would quantize only the head, and warn about each other layer.

        Raises:
            NotImplementedError: always; the message names what is supported.
        """
        raise NotImplementedError(
            "`quantize` is not supported. For int8 weights export with `convnlp export-tflite "
            "--mode=dynamic` (`--mode=int8` quantizes the activations too); to compute in 16 bits load with "
            f"dtype='mixed_bfloat16'. Received: mode={mode!r}"
        )
