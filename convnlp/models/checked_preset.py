"""How all that is in a preset is saved there and loaded from there."""

from convnlp.models import presets


class CheckedPreset:
    """Presets with the sums of their files, and one line for what is wrong with them.

    Stands in front of a class of keras_nlp among the bases of a model, a tokenizer or a preprocessor.

    Attributes:
        pipeline_tag: str, what a model is for, by the names of the Hugging Face hub; None for no tag.
        example: str, code that asks the `model` that was loaded; None for none. Both are for the model card.
    """

    pipeline_tag = None
    example = None
    _is_written = staticmethod(lambda name: True)  # by `save_to_preset`, of the names of a preset's files

    def save_to_preset(self, preset_dir, *args, **kwargs):
        """As in keras_nlp, with the sums of the files in SHA256SUMS.

        Raises:
            ValueError: if a weight is not finite; nothing is written then.
        """
        with presets.saving(preset_dir, self.variables, self._is_written):
            super().save_to_preset(preset_dir, *args, **kwargs)

    @classmethod
    def from_preset(cls, preset, *args, **kwargs):
        """As in keras_nlp; `presets` lists the names that may stand for a directory.

        Raises:
            ValueError: naming the directory, the file and what was expected there.
        """
        with presets.explained(preset, cls, kwargs) as directory:
            return super().from_preset(directory, *args, **kwargs)
