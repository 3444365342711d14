"""How tokenizers and preprocessors are saved in presets and loaded from them."""

from convnlp.models import presets
from convnlp.models.checked_preset import CheckedPreset


class TextPreset(CheckedPreset):
    """A `CheckedPreset` of a tokenizer or a preprocessor, which has no weights."""

    _is_written = staticmethod(presets.of_text)

    def load_preset_assets(self, preset):
        """As in keras_nlp. Raises ValueError, which names the file, if a file is damaged."""
        presets.check_assets(preset)
        super().load_preset_assets(preset)
