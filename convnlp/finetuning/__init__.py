"""What `convnlp finetune` and `convnlp fit_head` share: the data of a run, its steps and its results."""
