"""The forms of a TFLite file: how weights and activations are stored; one per file, one table, one contract.

The programs know a form by its name in `FORMS`, the value of `--mode`; docs/edge.md adds one. A SavedModel is
no form of these: it is a directory of versions that servers load, with programs, flags and checks of its own.
What the two have in common is what any exported model answers, and that is the task's
(`convnlp.tasks.Answers`).
"""

from convnlp.export.lite.forms.form import INPUTS, Form
from convnlp.export.lite.forms.table import FORMS, form_named, register_form

__all__ = ["FORMS", "INPUTS", "Form", "form_named", "register_form"]
