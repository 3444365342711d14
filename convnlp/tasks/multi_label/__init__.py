from convnlp.tasks.multi_label.answers import MultiLabelAnswers
from convnlp.tasks.multi_label.task import MultiLabelClassification

__all__ = ["MultiLabelAnswers", "MultiLabelClassification"]
