from convnlp.tasks.continuation.answers import PrefixLMAnswers
from convnlp.tasks.continuation.task import Continuation

__all__ = ["Continuation", "PrefixLMAnswers"]
