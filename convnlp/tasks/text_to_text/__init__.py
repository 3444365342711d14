from convnlp.tasks.text_to_text.answers import LanguageModelAnswers
from convnlp.tasks.text_to_text.examples import read_text_to_text, text_to_text_batches
from convnlp.tasks.text_to_text.scoring import greedy_predictions, text_to_text_scores
from convnlp.tasks.text_to_text.task import TextToText, text_to_text_loss

__all__ = [
    "LanguageModelAnswers",
    "TextToText",
    "greedy_predictions",
    "read_text_to_text",
    "text_to_text_batches",
    "text_to_text_loss",
    "text_to_text_scores",
]
