"""How every part of a preset is saved and loaded."""

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
