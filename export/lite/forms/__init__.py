"""The forms of a TFLite file: how weights and activations are stored. Each form has its own file.

The programs know a form by its name in `FORMS`, the value of `--mode`; docs/edge.md shows how to add one. A
SavedModel is not a form: it is a directory of versions that servers load, with its own programs, flags and
checks. The answers of any exported model are defined by the task (`convnlp.tasks.Answers`).
"""

from convnlp.export.lite.forms.form import INPUTS, Form
from convnlp.export.lite.forms.table import FORMS, form_named, register_form

__all__ = ["FORMS", "INPUTS", "Form", "form_named", "register_form"]
