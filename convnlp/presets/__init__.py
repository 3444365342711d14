"""The presets that ship with the package: a folder each, beside this file, and one table of their names."""

# name -> entry, as keras_hub lists its own: {"metadata": {"description": str, "params": int},
# "kaggle_handle": the folder, os.path.join(os.path.dirname(__file__), name)}. `convnlp.pack_preset` makes the
# folder; tests/test_shipped_presets.py keeps it and this table together.
PRESETS = {}
