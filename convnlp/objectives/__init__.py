"""Pre-training objectives: one per file, one table, one contract.

The programs know an objective by its name in `OBJECTIVES`; docs/your_own_objective.md shows how to add one.
"""

from convnlp.objectives.masked_lm import MaskedLanguageModeling
from convnlp.objectives.objective import Objective, Seeds, require, require_mixers, require_token_outputs
from convnlp.objectives.prefix_lm import PrefixLanguageModeling
from convnlp.objectives.span_corruption import SpanCorruption
from convnlp.objectives.table import OBJECTIVES, SHARED_OPTIONS, build_objectives, register_objective
from convnlp.objectives.together import pretraining_batches, pretraining_loss
from convnlp.objectives.unilm import UnifiedLanguageModeling
from convnlp.options import option

__all__ = [
    "OBJECTIVES",
    "SHARED_OPTIONS",
    "MaskedLanguageModeling",
    "Objective",
    "PrefixLanguageModeling",
    "Seeds",
    "SpanCorruption",
    "UnifiedLanguageModeling",
    "build_objectives",
    "option",
    "pretraining_batches",
    "pretraining_loss",
    "register_objective",
    "require",
    "require_mixers",
    "require_token_outputs",
]
