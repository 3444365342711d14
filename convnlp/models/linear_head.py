"""A linear classifier on vectors that do not change: softmax regression, fitted in seconds."""

import numpy as np
from scipy import optimize

MAX_ITERATIONS = 300


def fit(features, labels, num_classes, penalties):
    """Minimises mean_n CE(W z_n + b, y_n) + penalty / 2 |W|^2 over W and b.

    z is x, shifted and scaled to mean 0 and variance 1. Each penalty starts from the solution of the one
    before it. The problem is convex, so no seed and no order of examples plays a part.

    Args:
        features: float [N,D], x. A feature that is the same everywhere takes no part.
        labels: int [N], y, each in [0, num_classes).
        num_classes: int, C.
        penalties: sequence of float, at least 0.

    Returns:
        list of pairs, one per penalty: float32 [D,C] and [C], which take x as it is.
    """
    features = np.asarray(features, "float64")
    mean, deviation = features.mean(0), features.std(0)
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 1e-6)
    z = ((features - mean) * scale).astype("float32")
    found, start = [], None
    for penalty in penalties:
        kernel, bias = start = softmax_regression(z, labels, num_classes, penalty, start)
        kernel = kernel * scale[:, None]
        found.append((kernel.astype("float32"), (bias - mean @ kernel).astype("float32")))
    return found


def softmax_regression(features, labels, num_classes, penalty, start=None, weights=None):
    """Minimises mean_n w_n CE(W x_n + b, y_n) + penalty / 2 |W|^2 over W and b, by L-BFGS.

    Args:
        features: float array or SciPy's sparse array [N,D], x.
        labels: int [N], y, each in [0, num_classes).
        num_classes: int, C.
        penalty: float, at least 0.
        start: (W, b) to start from. Default None: zeros.
        weights: float [N], w. Default None: 1.

    Returns:
        (W, b): float64 [D,C] and [C].
    """
    targets = np.eye(num_classes)[labels]  # [N,C]
    shares = np.reshape(1.0 if weights is None else weights, [-1, 1]) / len(targets)  # [N,1] or [1,1]
    transposed = features.T if isinstance(features, np.ndarray) else features.T.tocsr()

    def objective(flat):
        kernel, bias = _parts(flat, num_classes)
        log_probabilities = log_softmax(features @ kernel.astype(features.dtype) + bias)
        error = (np.exp(log_probabilities) - targets) * shares
        loss = penalty / 2 * np.sum(kernel**2) - np.sum(log_probabilities * targets * shares)
        slope = transposed @ error.astype(features.dtype) + penalty * kernel
        return loss, np.concatenate([slope.ravel(), error.sum(0)])

    if start is None:
        start = np.zeros([features.shape[1], num_classes]), np.zeros(num_classes)
    first = np.concatenate([part.ravel() for part in start])
    options = {"maxiter": MAX_ITERATIONS, "maxcor": 5, "gtol": 1e-5}
    found = optimize.minimize(objective, first, jac=True, method="L-BFGS-B", options=options)
    return _parts(found.x, num_classes)


def _parts(flat, num_classes):
    return flat[:-num_classes].reshape(-1, num_classes), flat[-num_classes:]


def log_softmax(logits):
    """Float [N,C] -> the logarithms of the probabilities, [N,C]."""
    shifted = logits - logits.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
