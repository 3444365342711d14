from convnlp.tasks.regression.answers import RegressionAnswers
from convnlp.tasks.regression.task import Regression

__all__ = ["Regression", "RegressionAnswers"]
