"""The presets that ship with the package: a folder each, beside this file, and one table of their names."""

import os

_FOLDER = os.path.dirname(__file__)


def _entry(name, params, description):
    return {
        "metadata": {"description": description, "params": params},
        "kaggle_handle": os.path.join(_FOLDER, name),
    }


# name -> entry, as keras_hub lists its own. `convnlp.pack_preset` makes the folder;
# tests/test_shipped_presets.py keeps it and this table together.
PRESETS = {
    "dynamic_conv_mini_en": _entry(
        "dynamic_conv_mini_en",
        8_138_752,
        "Encoder of 4 layers of dynamic convolutions, no self-attention, width 256, for English texts with "
        "case, and a decoder of 2. Pre-trained by masked words on 500M tokens of web, press, spoken and "
        "literary text, the decoder afterwards by span corruption.",
    ),
}
