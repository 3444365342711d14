from convnlp.tasks.question_answering.answers import SpanAnswers
from convnlp.tasks.question_answering.task import QuestionAnswering

__all__ = ["QuestionAnswering", "SpanAnswers"]
