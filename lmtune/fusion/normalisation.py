"""How scores of different runs are made comparable: normalisations, and the methods' columns of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lmtune.arrays import Booleans, Doubles
from lmtune.fusion.runs import MINIMUM, Columns, Scores, ranks

Logistic = Doubles
"""Runs' a and b, shape (2, runs)."""

RRF_K = 60.0
"""The constant of Cormack, Clarke and Büttcher (SIGIR 2009)."""


def _per_run(of: Callable[[Doubles], Doubles]) -> Columns:
    """Apply a function to each run's own scores."""

    def columns(scores: Scores) -> Scores:
        out = np.full(scores.shape, np.nan)
        for row, own in zip(out, scores, strict=True):
            held = ~np.isnan(own)
            if held.any():
                row[held] = of(own[held])
        return out

    return columns


def _min_max(s: Doubles) -> Doubles:
    return (s - s.min()) / np.ptp(s) if np.ptp(s) > 0.0 else np.ones_like(s)


def _z_score(s: Doubles) -> Doubles:
    return (s - s.mean()) / s.std() if np.ptp(s) > 0.0 else np.ones_like(s)


def _sum(s: Doubles) -> Doubles:
    return (s - s.min()) / (s - s.min()).sum() if np.ptp(s) > 0.0 else np.full_like(s, 1.0 / s.size)


def _rank(scores: Scores) -> Scores:
    sizes = (~np.isnan(scores)).sum(axis=1, keepdims=True)
    found: Scores = (sizes - ranks(scores) + 1.0) / np.maximum(sizes, 1)
    return found


NORMALISATIONS: dict[str, Columns] = {
    "min-max": _per_run(_min_max),
    "z-score": _per_run(_z_score),
    "sum": _per_run(_sum),
    "rank": _rank,
    "none": lambda scores: scores,
}
"""From the least score 0 to the greatest 1; mean 0 and standard deviation 1; least 0 and sum 1; from the
last rank 1/n to the first 1; as they are. Equal scores, such as a single document's, become 1 by the first
two and 1/n by the third."""


LOGISTIC = "logistic"
"""The normalisation by each run's own `fit_logistic`."""


def fit_logistic(scores: Doubles, relevant: Booleans) -> tuple[float, float]:
    """Fit a and b of ``1 / (1 + exp(-(a score + b)))`` to what of some documents is relevant.

    As Platt (Advances in Large Margin Classifiers, 2000) does: by likelihood, of n relevant ones each
    counts as relevant to (n + 1) / (n + 2), and the others likewise, so that a and b are always finite.

    Parameters
    ----------
    scores : numpy.ndarray of float64, shape (documents,)
        At least one.
    relevant : numpy.ndarray of bool, shape (documents,)
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    found, centre, spread = int(relevant.sum()), float(scores.mean()), float(scores.std()) or 1.0
    target = np.where(relevant, (found + 1) / (found + 2), 1 / (scores.size - found + 2))
    x = np.stack(((scores - centre) / spread, np.ones_like(scores)))

    def cost(ab: Doubles) -> tuple[float, Doubles]:
        z = ab @ x
        return float((np.logaddexp(0.0, z) - target * z).mean()), x @ (expit(z) - target) / scores.size

    a, b = minimize(cost, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-9}).x.tolist()
    return a / spread, b - a * centre / spread


def _scale(normalise: str, fitted: Logistic | None) -> Columns:
    """Return a normalisation by its name, or by runs' logistic functions, shape (2, runs)."""
    if fitted is None:
        return NORMALISATIONS[normalise]
    from scipy.special import expit

    a, b = fitted[:, :, None]
    return lambda scores: np.asarray(expit(a * scores + b))


def normalised(normalise: str, missing: str, fitted: Logistic | None = None) -> Columns:
    """Return normalised scores; a missing document gets the topic's minimum, or 0.

    With the minimum, all values of a topic are less by it: that changes no order. Where all values of a run
    are equal, its minimum would put retrieved and missing documents on a level: missing ones get 0 if that
    is less. Where runs' logistic functions are fitted, these normalise.
    """
    scale = _scale(normalise, fitted)

    def columns(scores: Scores) -> Scores:
        values = scale(scores)
        if missing == MINIMUM:
            held = ~np.isnan(values)
            least = np.min(values, axis=1, initial=np.inf, where=held, keepdims=True)
            most = np.max(values, axis=1, initial=-np.inf, where=held, keepdims=True)
            values = values - np.where(least < most, least, np.minimum(most, 0.0))
        filled: Scores = np.nan_to_num(values, nan=0.0)
        return filled

    return columns


def counted(normalise: str, power: float, fitted: Logistic | None = None) -> Columns:
    """Return normalised scores times a power of the number of runs that retrieved the document.

    With equal weights they add up to CombSUM (power 0), CombMNZ (1) and CombANZ (-1) of Fox and Shaw
    (TREC-2, 1994); a missing document adds 0.
    """
    scale = _scale(normalise, fitted)

    def columns(scores: Scores) -> Scores:
        runs = np.maximum((~np.isnan(scores)).sum(axis=0), 1)
        found: Scores = np.nan_to_num(scale(scores), nan=0.0) * runs ** float(power)
        return found

    return columns


def reciprocal_ranks(k: float) -> Columns:
    """Return 1 / (k + rank)."""
    return lambda scores: np.nan_to_num(1.0 / (k + ranks(scores)), nan=0.0)


def borda(scores: Scores) -> Scores:
    """Return Borda's points: with c documents in all, c for the first, one less for each next.

    Documents that a run has not retrieved share what is left (Aslam and Montague, SIGIR 2001); as no
    order changes, all points of a run are less by that.
    """
    documents = scores.shape[1]
    retrieved = (~np.isnan(scores)).sum(axis=1, keepdims=True)
    points = documents - ranks(scores) + 1.0 - (documents - retrieved + 1.0) / 2.0
    found: Scores = np.nan_to_num(points, nan=0.0)
    return found
