"""How tokenizers and preprocessors are saved in presets and loaded from them."""

from convnlp.models import presets


class TextPreset:
    """Presets with the sums of their files, and one line for what is wrong with them.

    Stands in front of a class of keras_nlp among the bases of a tokenizer or a preprocessor.
    """

    def save_to_preset(self, preset_dir):
        """As in keras_nlp, with the sums of the files in SHA256SUMS."""
        with presets.saving(preset_dir, changed=presets.of_text):
            super().save_to_preset(preset_dir)

    def load_preset_assets(self, preset):
        """As in keras_nlp. Raises ValueError, naming it, if a file is damaged."""
        presets.check_assets(preset)
        super().load_preset_assets(preset)

    @classmethod
    def from_preset(cls, preset, *args, **kwargs):
        """As in keras_nlp.

        Raises:
            ValueError: naming the directory, the file and what was expected there.
        """
        with presets.explained(preset, cls, kwargs):
            return super().from_preset(preset, *args, **kwargs)
