"""Fits linear models of fixed vectors in seconds: for classes, several labels or a number."""

import numpy as np
from scipy import optimize, special

MAX_ITERATIONS = 300


def fit(features, labels, num_classes, penalties):
    """Minimises mean_n CE(W z_n + b, y_n) + penalty / 2 |W|^2 over W and b.

    z is x, shifted and scaled to mean 0 and variance 1. Each penalty starts from the solution of the previous
    one. The problem is convex, so neither a seed nor the order of the examples matters.

    Args:
        features: float [N,D], x. Constant features are ignored.
        labels: int [N], y, each in [0, num_classes).
        num_classes: int, C.
        penalties: sequence of float, at least 0.

    Returns:
        list of pairs, one per penalty: float32 [D,C] and [C], to be applied to x itself.
    """
    z, back = _standardized(features)
    found, start = [], None
    for penalty in penalties:
        start = softmax_regression(z, labels, num_classes, penalty, start)
        found.append(back(*start))
    return found


def fit_several(features, labels, penalties):
    """Minimises sum_c mean_n BCE(w_c z_n + b_c, y_nc) + penalty / 2 |W|^2: logistic regression of each label.

    Each label is solved independently of the others. Everything else is as in `fit`.

    Args:
        features: float [N,D], x.
        labels: [N,C] of 0 and 1, y.
        penalties: sequence of float, at least 0.

    Returns:
        list of pairs, one per penalty: float32 [D,C] and [C], to be applied to x itself.
    """
    z, back = _standardized(features)
    found, start = [], None
    for penalty in penalties:
        start = _logistic_regression(z, np.asarray(labels, "float64"), penalty, start)
        found.append(back(*start))
    return found


def fit_numbers(features, values, penalties):
    """Minimises mean_n (w z_n + b - y_n)^2 / 2 + penalty / 2 |w|^2 over w and b: ridge regression, solved.

    z is as in `fit`. One decomposition, Z^T Z / N = V diag(e) V^T, serves all penalties.

    Args:
        features: float [N,D], x.
        values: float [N], y.
        penalties: sequence of float, at least 0. With 0, the shortest of all solutions is returned.

    Returns:
        list of pairs, one per penalty: float32 [D,1] and [1], to be applied to x itself.
    """
    z, back = _standardized(features)
    z, values = z.astype("float64"), np.asarray(values, "float64")
    mean = values.mean()
    variances, directions = np.linalg.eigh(z.T @ z / len(z))
    slopes = directions.T @ (z.T @ (values - mean)) / len(z)
    is_there = variances > 1e-9 * max(variances[-1], 1e-9)
    found = []
    for penalty in penalties:
        along = np.divide(slopes, variances + penalty, out=np.zeros_like(slopes), where=is_there)
        found.append(back((directions @ along)[:, np.newaxis], np.array([mean])))
    return found


def _standardized(features):
    """Returns z, float32, of features [N,D], and a function that maps W and b for z to those for x.

    If there are fewer examples than features, z is turned into the N dimensions that the examples span: W
    has no part outside of these, since it would add to the penalty and change no logit.

    Returns:
        (z [N,min(N,D)], function)
    """
    features = np.asarray(features, "float64")
    mean, deviation = features.mean(0), features.std(0)
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 1e-6)
    z = (features - mean) * scale
    turn = None
    if len(z) < z.shape[1]:
        turn, corner = np.linalg.qr(z.T)  # z = corner^T turn^T
        z = corner.T

    def back(kernel, bias):
        kernel = (kernel if turn is None else turn @ kernel) * scale[:, np.newaxis]
        return kernel.astype("float32"), (bias - mean @ kernel).astype("float32")

    return z.astype("float32"), back


def softmax_regression(features, labels, num_classes, penalty, start=None, weights=None):
    """Minimises mean_n w_n CE(W x_n + b, y_n) + penalty / 2 |W|^2 over W and b, by L-BFGS.

    Args:
        features: float array or SciPy's sparse array [N,D], x.
        labels: int [N], y, each in [0, num_classes).
        num_classes: int, C.
        penalty: float, at least 0.
        start: (W, b) to start from. Default None: zeros.
        weights: float [N], w. Default None: all 1.

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

    return _minimum(objective, start, features.shape[1], num_classes)


def _logistic_regression(features, targets, penalty, start):
    """Does the same as `softmax_regression` for targets [N,C] of 0 and 1, each label on its own."""

    def objective(flat):
        kernel, bias = _parts(flat, targets.shape[1])
        logits = (features @ kernel.astype(features.dtype) + bias).astype("float64")
        error = (special.expit(logits) - targets) / len(targets)
        loss = np.sum(np.logaddexp(0, logits) - targets * logits) / len(targets)
        slope = features.T @ error.astype(features.dtype) + penalty * kernel
        return loss + penalty / 2 * np.sum(kernel**2), np.concatenate([slope.ravel(), error.sum(0)])

    return _minimum(objective, start, features.shape[1], targets.shape[1])


def _minimum(objective, start, num_features, num_outputs):
    """Returns (W, b) at the minimum; `objective` takes them, and returns their gradient, as one vector."""
    if start is None:
        start = np.zeros([num_features, num_outputs]), np.zeros(num_outputs)
    first = np.concatenate([part.ravel() for part in start])
    options = {"maxiter": MAX_ITERATIONS, "maxcor": 5, "gtol": 1e-5}
    found = optimize.minimize(objective, first, jac=True, method="L-BFGS-B", options=options)
    return _parts(found.x, num_outputs)


def _parts(flat, num_classes):
    return flat[:-num_classes].reshape(-1, num_classes), flat[-num_classes:]


def log_softmax(logits):
    """Returns the logarithms of the probabilities, [N,C], for logits [N,C]."""
    shifted = logits - logits.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
