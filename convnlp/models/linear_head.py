"""Fits linear models of fixed vectors in seconds: for classes, several labels or a number."""

import numpy as np
from scipy import optimize, special

MAX_ITERATIONS = 300
_TOLERANCE = 1e-4  # along axes that all bend alike


def fit(features, labels, num_classes, penalties, weights=None):
    """Minimises mean_n w_n CE(W z_n + b, y_n) + penalty / 2 |W|^2 over W and b.

    z is x, shifted and scaled to mean 0 and variance 1. Each penalty starts from the solution of the previous
    one. The problem is convex, so neither a seed nor the order of the examples matters.

    Args:
        features: float [N,D], x. Constant features are ignored.
        labels: int [N], y, each in [0, num_classes).
        num_classes: int, C.
        penalties: sequence of float, at least 0.
        weights: float [N], w. Default None: all 1.

    Returns:
        list of pairs, one per penalty: float32 [D,C] and [C], to be applied to x itself.
    """

    def solve(z, penalty, start):
        return softmax_regression(z, labels, num_classes, penalty, start, weights, tolerance=_TOLERANCE)

    return _along_axes(solve, features, penalties)


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
    labels = np.asarray(labels, "float64")
    return _along_axes(
        lambda z, penalty, start: _logistic_regression(z, labels, penalty, start), features, penalties
    )


def fit_numbers(features, values, penalties):
    """Minimises mean_n (w z_n + b - y_n)^2 / 2 + penalty / 2 |w|^2 over w and b: ridge regression, solved.

    z is as in `fit`.

    Args:
        features: float [N,D], x.
        values: float [N], y.
        penalties: sequence of float, at least 0. With 0, the shortest of all solutions is returned.

    Returns:
        list of pairs, one per penalty: float32 [D,1] and [1], to be applied to x itself.
    """
    z, variances, back = _principal(features)
    values = np.asarray(values, "float64")
    slopes = z.T @ (values - values.mean()) / len(z)
    bias = np.array([values.mean()])
    return [back((slopes / (variances + penalty))[:, np.newaxis], bias) for penalty in penalties]


def _along_axes(solve, features, penalties):
    """Solves for each penalty along the axes of the examples, each scaled so that all bend alike.

    Along an axis of variance e, the loss bends by about a quarter of e, the largest variance of a label, and
    the penalty adds its own. After division by the root of both, the search takes a quarter of the steps.

    Args:
        solve: function of (z [N,R], penalties of the R features, start) -> (W [R,C], b [C]).
        features: float [N,D].
        penalties: sequence of float.

    Returns:
        list of pairs, one per penalty: float32 [D,C] and [C].
    """
    z, variances, back = _principal(features)
    found, kernel, bias = [], None, None
    for penalty in penalties:
        scale = 1 / np.sqrt(variances / 4 + penalty)
        start = None if kernel is None else (kernel / scale[:, np.newaxis], bias)
        kernel, bias = solve((z * scale).astype("float32"), penalty * scale**2, start)
        kernel = kernel * scale[:, np.newaxis]
        found.append(back(kernel, bias))
    return found


def _principal(features):
    """Returns the examples along the axes on which they vary, without correlations.

    Args:
        features: float [N,D], x.

    Returns:
        (z, float64 [N,R]: x standardized and turned; its variances, float64 [R]; a function that maps W [R,C]
        and b [C] for z to those for x). Axes on which no example differs are left out: they would change no
        logit.
    """
    features = np.asarray(features, "float64")
    mean, deviation = features.mean(0), features.std(0)
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 1e-6)
    z = (features - mean) * scale
    # z^T z / N = axes diag(variances) axes^T. With fewer examples than features, z z^T is the smaller matrix.
    is_wide = len(z) < z.shape[1]
    variances, axes = np.linalg.eigh((z @ z.T if is_wide else z.T @ z) / len(z))
    varies = variances > 1e-9 * max(variances[-1], 1e-9)
    variances, axes = variances[varies], axes[:, varies]
    if is_wide:
        axes = z.T @ axes / np.sqrt(variances * len(z))

    def back(kernel, bias):
        kernel = (axes @ kernel) * scale[:, np.newaxis]
        return kernel.astype("float32"), (bias - mean @ kernel).astype("float32")

    return z @ axes, variances, back


def softmax_regression(features, labels, num_classes, penalty, start=None, weights=None, tolerance=3e-5):
    """Minimises mean_n w_n CE(W x_n + b, y_n) + penalty / 2 |W|^2 over W and b, by L-BFGS.

    Args:
        features: float array or SciPy's sparse array [N,D], x.
        labels: int [N], y, each in [0, num_classes).
        num_classes: int, C.
        penalty: float, at least 0; or float array [D], one for the weights of each feature.
        start: (W, b) to start from. Default None: zeros.
        weights: float [N], w. Default None: all 1.
        tolerance: float. The search ends where no derivative is larger. Default 3e-5.

    Returns:
        (W, b): float64 [D,C] and [C].
    """
    penalty = np.reshape(penalty, [-1, 1])
    targets = np.eye(num_classes)[labels]  # [N,C]
    shares = np.reshape(1.0 if weights is None else weights, [-1, 1]) / len(targets)  # [N,1] or [1,1]
    transposed = features.T if isinstance(features, np.ndarray) else features.T.tocsr()

    def objective(flat):
        kernel, bias = _parts(flat, num_classes)
        log_probabilities = special.log_softmax(features @ kernel.astype(features.dtype) + bias, axis=1)
        error = (np.exp(log_probabilities) - targets) * shares
        loss = np.sum(penalty * kernel**2) / 2 - np.sum(log_probabilities * targets * shares)
        slope = transposed @ error.astype(features.dtype) + penalty * kernel
        return loss, np.concatenate([slope.ravel(), error.sum(0)])

    return _minimum(objective, start, features.shape[1], num_classes, tolerance)


def _logistic_regression(features, targets, penalty, start):
    """Does the same as `softmax_regression` for targets [N,C] of 0 and 1, each label on its own."""
    penalty = np.reshape(penalty, [-1, 1])

    def objective(flat):
        kernel, bias = _parts(flat, targets.shape[1])
        logits = (features @ kernel.astype(features.dtype) + bias).astype("float64")
        error = (special.expit(logits) - targets) / len(targets)
        loss = np.sum(np.logaddexp(0, logits) - targets * logits) / len(targets)
        slope = features.T @ error.astype(features.dtype) + penalty * kernel
        return loss + np.sum(penalty * kernel**2) / 2, np.concatenate([slope.ravel(), error.sum(0)])

    return _minimum(objective, start, features.shape[1], targets.shape[1], _TOLERANCE)


def _minimum(objective, start, num_features, num_outputs, tolerance):
    """Returns (W, b) at the minimum; `objective` takes them, and returns their gradient, as one vector."""
    if start is None:
        start = np.zeros([num_features, num_outputs]), np.zeros(num_outputs)
    first = np.concatenate([part.ravel() for part in start])
    options = {"maxiter": MAX_ITERATIONS, "maxcor": 5, "gtol": tolerance}
    found = optimize.minimize(objective, first, jac=True, method="L-BFGS-B", options=options)
    return _parts(found.x, num_outputs)


def _parts(flat, num_classes):
    return flat[:-num_classes].reshape(-1, num_classes), flat[-num_classes:]
