"""How each part of a preset, a text's or a model's, is saved and loaded."""

from convnlp.models import presets


class CheckedPreset:
    """Gives presets the sums of their files, and one clear line for whatever is wrong with them.

    Comes before a keras_nlp class among the bases of a model, a tokenizer or a preprocessor.

    Attributes:
        pipeline_tag: str, what a model is for, in the terms of the Hugging Face hub; None for no tag.
        example: str, code that calls the loaded `model`; None for none. Both are for the model card.
    """

    pipeline_tag = None
    example = None
    _is_written = staticmethod(lambda name: True)  # which of a preset's files `save_to_preset` writes

    def save_to_preset(self, preset_dir, *args, **kwargs):
        """As in keras_nlp, with the sums of the files in SHA256SUMS.

        Raises:
            ValueError: if `preset_dir` is a URL or a weight is not finite; then nothing is written.
        """
        with presets.saving(preset_dir, self.variables, self._is_written):
            super().save_to_preset(preset_dir, *args, **kwargs)

    @classmethod
    def from_preset(cls, preset, *args, **kwargs):
        """As in keras_nlp; `presets` lists the names that can be given instead of a directory.

        Raises:
            ValueError: if the preset cannot be loaded; the message names the directory, the file and what was
                expected there.
        """
        with presets.explained(preset, cls, kwargs) as directory:
            return super().from_preset(directory, *args, **kwargs)


class TextPreset(CheckedPreset):
    """A `CheckedPreset` of a tokenizer or a preprocessor, which has no weights."""

    _is_written = staticmethod(presets.of_text)

    def load_preset_assets(self, preset):
        """As in keras_nlp. Raises ValueError, which names the file, if a file is damaged."""
        presets.check_assets(preset)
        super().load_preset_assets(preset)


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
