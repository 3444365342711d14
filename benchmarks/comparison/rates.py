"""The learning rate of a mixer: that of the best short run, judged on held-out data."""


def best_rate(trials):
    """Returns the rate of the best trial.

    Args:
        trials: list of dicts {"learning_rate", "score"}. Higher scores are better; None means that the run
            diverged. The first of equal scores wins.

    Returns:
        float.

    Raises:
        ValueError: if all of them diverged.

    Example:
    >>> best_rate([{"learning_rate": 1e-3, "score": -4.3}, {"learning_rate": 2e-3, "score": -4.1}])
    0.002
    """
    finite = [trial for trial in trials if trial["score"] is not None]
    if not finite:
        rates = [trial["learning_rate"] for trial in trials]
        raise ValueError(f"`learning_rates` must hold one that does not diverge. Received: {rates}")
    return max(finite, key=lambda trial: trial["score"])["learning_rate"]
