r"""Dominance: when a document outranks another at all parameter settings, in floating-point arithmetic.

Documents are ranked by :math:`P = \prod_i ((y_i + \mu) r + \lambda)` over the N query words, with
:math:`y = tf / P(w|C)` and :math:`r = (1 - \lambda) / (\mu + |D|)` (`lmtune.models.kernels.rank_two_stage`).
Ties are in the pool's order. A dominates B if :math:`|D_A| \le |D_B|`, A precedes B in tie order, and one of
the following conditions is true.

*tf-dominance*: A has at least B's frequency of every term. Rounding is monotone, so that A's computed score
is at least B's at every setting. If logarithms are summed instead of multiplying, this also requires a
monotone logarithm. The condition is valid for all formulas that are monotone in frequencies and lengths:

- A floor of the factors (`lmtune.models.two_stage`) is monotone.
- BM25: with :math:`u = k_1 (1 - b) \ge 0` and :math:`v = k_1 b / L \ge 0`, a term's score is
  :math:`idf \, tf / (tf + u + v |D|)`. It increases in tf and decreases in |D| for every :math:`k_1 \ge 0`
  and :math:`0 \le b \le 1`. `lmtune.models.bm25_kernels.rank_bm25` uses only monotone operations, so that
  the computed scores are monotone, too.
- Sequential dependence (`lmtune.models.sdm`): A must also have at least B's frequency of every window. Each
  kind of columns is such a product P. Non-negative weights, a monotone logarithm and sums preserve the order.
- A mixture of fields (`lmtune.models.fields`) is a sum of logarithms of sums over fields, which are monotone
  in the fields' frequencies and lengths. A must have at least B's frequency of every term in every field, and
  no field of A may be longer. `lmtune.models.fields_kernels.rank_mixture` is monotone in each of them.

*e-dominance*, for factors without a floor: with :math:`c = \mu + \lambda (\mu + |D|) / (1 - \lambda)`, P is
proportional to :math:`\prod_i (y_i + c) = \sum_k e_k(y) c^{N-k}`, where :math:`e_k` are the elementary
symmetric polynomials. In exact arithmetic, :math:`e_k(A) \ge e_k(B)` for k = 1, ..., N is sufficient. For
computed scores it is not, because at a large c they differ by less than their rounding errors. We therefore
require a margin,

.. math:: e_k(A) \ge (1 + \delta) e_k(B), \quad e_1(A) \ge (1 + \delta) e_1(B) + \delta c_{max},

which implies :math:`P_A - P_B \ge \delta \sum_{k \ge 1} e_k(B) c^{N-k} + \delta c_{max} c^{N-1} \ge \delta
P_B` for every c up to :math:`c_{max}`. Let :math:`\delta` exceed twice the relative error of a computed score
plus that of a computed :math:`e_k` (see `rounding`). Then A ranks strictly first. Documents of equal
frequencies dominate each other by length and tie order alone. The relation with margins is transitive.

e-dominance has three costs:

- It bounds :math:`c`, and therefore :math:`\lambda` and :math:`\mu`.
- P must be computed as a product, not as a sum of logarithms (`smallest_factor`).
- It keeps both of two documents with nearly equal :math:`e_k`.

As :math:`\lambda` approaches 1, the margin exceeds the effect of one occurrence of a term. Then `e_is_safe`
is false, and tf-dominance prunes more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from lmtune.arrays import Booleans, Doubles, Integers, Integers32
from lmtune.errors import InputError

_UNIT = 2.0**-53
"""The relative error of one rounding."""

LARGEST_LOG, LARGEST_WEIGHT = 600.0, 200
"""Limits for computing scores as products, as in `lmtune.models.kernels`: the largest absolute logarithm of a
product, and the largest number of query words."""


@dataclass(frozen=True)
class Pruning:
    """The settings for which a pruned pool has the exact best `depth` documents.

    Attributes
    ----------
    mode : {"auto", "e", "tf"}
        The mode argument of `lmtune.candidates.skyband.skyband`.
    depth : int
        Rankings are exact down to this rank.
    lambda_high, mu_high : float
        The largest parameters; 1 and infinity if every setting is exact.
    factor_low : float
        The smallest (1 - lambda) mu / (mu + |D|) + lambda, with |D| of the collection's longest document; 0
        if every setting is exact.
    by_e : numpy.ndarray of bool, shape (topics,)
        The topics pruned by e-dominance; the others are pruned by tf-dominance or not at all.
    """

    mode: str
    depth: int
    lambda_high: float
    mu_high: float
    factor_low: float
    by_e: Booleans

    def intersect(self, others: Iterable[Pruning], by_e: Booleans) -> Pruning:
        """Return the settings for which this and other prunings are all exact."""
        parts = (self, *others)
        return replace(
            self,
            lambda_high=min(part.lambda_high for part in parts),
            mu_high=min(part.mu_high for part in parts),
            factor_low=max(part.factor_low for part in parts),
            by_e=by_e,
        )

    def check(self, settings: Doubles, depth: int, longest: int) -> None:
        """Raise `InputError` for a depth or a setting for which the pool is not exact.

        Parameters
        ----------
        settings : numpy.ndarray of float64, shape (settings, parameters)
            Settings; with e-dominance, the columns are lambda and mu.
        depth : int
            Run depth.
        longest : int
            Length of the collection's longest document.
        """
        if depth > self.depth:
            raise InputError(
                "the candidates were pruned for a smaller run depth",
                value=depth,
                accepted=f"up to {self.depth}",
            )
        if not self.by_e.any():
            return
        lambdas, mus = settings.T
        factor = (1.0 - lambdas) * (mus / (mus + longest)) + lambdas
        high = self.lambda_high, self.mu_high
        outside = (lambdas > high[0]) | (mus > high[1]) | (factor < self.factor_low)
        if outside.any():
            at = int(np.argmax(outside))
            raise InputError(
                "the candidates were pruned for a smaller range of parameters",
                value=(float(lambdas[at]), float(mus[at])),
                accepted=f"lambda up to {high[0]:.17g}, mu up to {high[1]:g}, not both close to 0",
            )


def rounding(weight: int, largest_log: float | None = None) -> float:
    """Return a bound of the relative error of a computed score P or exp(sum of logarithms).

    A factor has five roundings and a multiplication. Logarithms are assumed to be accurate to four units in
    the last place.

    Parameters
    ----------
    weight : int
        Number of query words N, including repetitions.
    largest_log : float, optional
        The largest absolute logarithm of a factor. With it, the bound covers sums of logarithms and products;
        without it, only products.

    Returns
    -------
    float
    """
    if largest_log is None:
        return 6 * weight * _UNIT
    return (6 * weight + weight * largest_log * (weight + 10)) * _UNIT


def smallest_factor(weight: int) -> float:
    """Return the smallest factor of P for e-dominance; with larger factors P is always a product."""
    return math.exp(-(LARGEST_LOG - 1.0) / weight)


def margin(weight: int, longest: int, lambda_high: float, mu_high: float) -> tuple[float, float]:
    """Return the delta of e-dominance, and delta times the largest c; see the module's docstring.

    Parameters
    ----------
    weight : int
        Number of query words N, including repetitions.
    longest : int
        Length of the collection's longest document.
    lambda_high, mu_high : float
        The largest parameters, lambda_high below 1.

    Returns
    -------
    relative, absolute : float
        Twice the required margins, to be safe.
    """
    largest_c = mu_high + lambda_high * (mu_high + longest) / (1.0 - lambda_high)
    # The polynomials of A and of B have up to 2 N roundings each.
    relative = 4.0 * (rounding(weight) + 4 * weight * _UNIT)
    return relative, relative * largest_c


def e_is_finite(weight: int, y_max: float) -> bool:
    """Return whether the polynomials of `weight` values up to `y_max` are finite.

    If so, no product of factors, each at most 1 / P(w|C), overflows.
    """
    return weight <= LARGEST_WEIGHT and weight * math.log(2.0 * max(y_max, 1.0)) < LARGEST_LOG


def e_is_safe(weight: int, y_max: float, p_max: float, relative: float, absolute: float) -> bool:
    """Return whether e-dominance can be computed and removes all documents that tf-dominance removes.

    The latter is true if the margin of e_1 is smaller than the effect of one occurrence of any term.

    Parameters
    ----------
    weight : int
        Number of query words N, including repetitions.
    y_max : float
        The largest tf / P(w|C).
    p_max : float
        The largest P(w|C) of a term.
    relative, absolute : float
        The margins, from `margin`.
    """
    largest_margin = absolute + relative * weight * y_max
    return e_is_finite(weight, y_max) and 4.0 * largest_margin < 1.0 / p_max


def polynomials(y: Doubles, count: Integers) -> Doubles:
    """Return e_1, ..., e_N of documents' y, with each term repeated as in the query.

    Parameters
    ----------
    y : numpy.ndarray of float64, shape (terms, documents)
        tf / P(w|C).
    count : numpy.ndarray of int64, shape (terms,)
        Occurrences of each term in the query.

    Returns
    -------
    numpy.ndarray of float64, shape (sum of count, documents)
    """
    e = np.zeros((int(count.sum()) + 1, y.shape[1]))
    e[0] = 1.0
    done = 0
    for row, times in zip(y, count, strict=True):
        for _ in range(times):
            done += 1
            e[1 : done + 1] += e[:done] * row
    return e[1:]


def dominance_ranks(e: Doubles, relative: float, absolute: float) -> tuple[Integers32, Integers32]:
    """Convert polynomials to integer ranks: A e-dominates B if ``has[:, A] >= needs[:, B]``.

    Parameters
    ----------
    e : numpy.ndarray of float64, shape (N, documents)
        The polynomials, from `polynomials`.
    relative, absolute : float
        The margins, from `margin`.

    Returns
    -------
    has, needs : numpy.ndarray of int32, shape (N, documents)
    """
    has = np.empty(e.shape, np.int32)
    needs = np.empty(e.shape, np.int32)
    for k, values in enumerate(e):
        wanted = values * (1.0 + relative) + (absolute if k == 0 else 0.0)
        ascending = np.sort(values)
        has[k] = np.searchsorted(ascending, values)
        needs[k] = np.searchsorted(ascending, wanted)
    return has, needs
