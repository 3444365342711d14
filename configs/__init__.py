"""Experiments as ml_collections files; `common.py` holds every field and its default."""
