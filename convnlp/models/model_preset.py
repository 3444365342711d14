"""How a model is saved in presets, and what it refuses of what Keras offers."""

from convnlp.models.checked_preset import CheckedPreset


class ModelPreset(CheckedPreset):
    """A `CheckedPreset` of a Keras model, a task's or a backbone."""

    def export(self, filepath, format="tf_saved_model", *args, **kwargs):
        """As in Keras, a model that takes token ids and their mask; `convnlp export` writes one for texts.

        Raises:
            ValueError: if the format is "onnx". With tf2onnx installed, Keras would write a file with
                operations of TensorFlow in it, which ONNX Runtime does not load.
        """
        if format == "onnx":
            raise ValueError(
                "`format` must be tf_saved_model, litert or openvino, because tf2onnx, which Keras takes for "
                "ONNX, cannot convert all of our operations; an ONNX file comes from the twin in PyTorch, by "
                f"benchmarks/peers/pytorch_deployed.py. Received: format={format!r}"
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
