"""Labelled texts to try the programs on, from the package itself: see README.md beside this file."""
