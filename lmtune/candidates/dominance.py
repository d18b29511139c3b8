r"""When one document beats another whatever the parameters are, in the arithmetic of the machine.

Documents are ranked by :math:`P = \prod_i ((y_i + \mu) r + \lambda)` over the N query words,
:math:`y = tf / P(w|C)`, :math:`r = (1 - \lambda) / (\mu + |D|)`
(`lmtune.models.kernels.rank_two_stage`), ties in the pool's order. A dominates B where
:math:`|D_A| \le |D_B|`, A stands before B, and one of these holds.

*tf-dominance*: A has at least B's frequency of every term. Rounding is monotone, so A's computed
score is at least B's at every setting. (Where logarithms stand in for a product that could leave
the range of a double, this also takes a monotone logarithm.) A floor under the factors
(`lmtune.models.two_stage`) is monotone too. So is BM25: with
:math:`u = k_1 (1 - b) \ge 0` and :math:`v = k_1 b / L \ge 0` a term adds
:math:`idf \, tf / (tf + u + v |D|)`, which rises in tf and falls in |D| for every :math:`k_1 \ge 0`
and :math:`0 \le b \le 1`; `lmtune.models.bm25_kernels.rank_bm25` computes it by monotone operations
alone, so that the same holds for computed scores. And so is sequential dependence
(`lmtune.models.sdm`), where A must have at least B's frequency of every window too: each kind of
columns is such a product P, and weights of 0 or more, a monotone logarithm and sums keep the order.
A mixture of fields (`lmtune.models.fields`) is a sum of such factors, each of its own field's
frequency and length with a weight above 0, under a logarithm: A dominates B there where it stands
before B, has at least B's frequency of every term in every field, and no field of A is longer.
`lmtune.models.fields_kernels.rank_mixture` is monotone in each of them.

*e-dominance*, for factors without a floor: with
:math:`c = \mu + \lambda (\mu + |D|) / (1 - \lambda)`, P is proportional to
:math:`\prod_i (y_i + c) = \sum_k e_k(y) c^{N-k}`, where :math:`e_k` are the elementary symmetric
polynomials. So :math:`e_k(A) \ge e_k(B)` for k = 1, ..., N is enough in real arithmetic. For the
computed scores it is not: at a large c they differ by less than their rounding errors. We ask for
a margin,

.. math:: e_k(A) \ge (1 + \delta) e_k(B), \quad e_1(A) \ge (1 + \delta) e_1(B) + \delta c_{max},

which gives :math:`P_A - P_B \ge \delta \sum_{k \ge 1} e_k(B) c^{N-k} + \delta c_{max} c^{N-1}
\ge \delta P_B` for every c up to :math:`c_{max}`. A :math:`\delta` above twice the relative error
of a computed score, plus that of computed :math:`e_k`, then puts A strictly first: see
`rounding`. Documents of equal frequencies dominate one another by length and tie order alone.
Margins keep the relation transitive.

The price is a bound on :math:`c`, that is on :math:`\lambda` and :math:`\mu`; that P must be a
product, not logarithms added (`smallest_factor`); and that documents whose :math:`e_k` all but
coincide are both kept. As :math:`\lambda` nears 1 the margin grows past
what one occurrence of a term is worth; `e_is_safe` then says no, and tf-dominance prunes more.
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
"""Scores are computed as products where `lmtune.models.kernels` says so: for no more query words
than this, and as long as no product can leave exp(-600) to exp(600)."""


@dataclass(frozen=True)
class Pruning:
    """What a pruned pool is exact for: the best `depth` documents of each setting in the range.

    Attributes
    ----------
    mode : {"auto", "e", "tf"}
        How it was asked for; see `lmtune.candidates.skyband.skyband`.
    depth : int
        Rankings are exact down to this rank.
    lambda_high, mu_high : float
        The largest parameters; 1 and infinity where every setting is exact.
    factor_low : float
        (1 - lambda) mu / (mu + |D|) + lambda, with the collection's longest |D|, must be at least
        this; 0 where every setting is exact.
    by_e : numpy.ndarray of bool, shape (topics,)
        Topics pruned by e-dominance; the others by tf-dominance or not at all.
    """

    mode: str
    depth: int
    lambda_high: float
    mu_high: float
    factor_low: float
    by_e: Booleans

    def also(self, others: Iterable[Pruning], by_e: Booleans) -> Pruning:
        """Return what a pool is exact for that was pruned in these ways too."""
        parts = (self, *others)
        return replace(
            self,
            lambda_high=min(part.lambda_high for part in parts),
            mu_high=min(part.mu_high for part in parts),
            factor_low=max(part.factor_low for part in parts),
            by_e=by_e,
        )

    def check(self, settings: Doubles, depth: int, longest: int) -> None:
        """Raise InputError for a depth or a setting that the pool is not exact for.

        Parameters
        ----------
        settings : numpy.ndarray of float64, shape (settings, parameters)
            Of two-stage smoothing, lambda and mu, where a topic was pruned by e-dominance.
        depth : int
            The depth of the rankings that are asked for.
        longest : int
            The collection's longest document.
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
                accepted=f"lambda up to {high[0]:.17g}, mu up to {high[1]:g}, not both next to 0",
            )


def rounding(weight: int, largest_log: float | None = None) -> float:
    """Bound the relative error of a computed score: of P, or of exp of its sum of logarithms.

    A factor takes five roundings, and a multiplication. Logarithms are taken to be good to four
    units in the last place.

    Parameters
    ----------
    weight : int
        Query words N, repeats counted.
    largest_log : float, optional
        The largest absolute logarithm of a factor, where logarithms may be added; the bound then
        holds for products too. Without it P is a product.

    Returns
    -------
    float
    """
    if largest_log is None:
        return 6 * weight * _UNIT
    return (6 * weight + weight * largest_log * (weight + 10)) * _UNIT


def smallest_factor(weight: int) -> float:
    """Return how small a factor of P may be for e-dominance: above it P is always a product."""
    return math.exp(-(LARGEST_LOG - 1.0) / weight)


def margin(weight: int, longest: int, lambda_high: float, mu_high: float) -> tuple[float, float]:
    """Return e-dominance's delta and delta times the largest c; see the module's text.

    Parameters
    ----------
    weight : int
        Query words N, repeats counted.
    longest : int
        The collection's longest document.
    lambda_high, mu_high : float
        The largest parameters, lambda_high below 1.

    Returns
    -------
    relative, absolute : float
        Both twice what is needed.
    """
    largest_c = mu_high + lambda_high * (mu_high + longest) / (1.0 - lambda_high)
    # Each polynomial takes up to 2 N roundings, in A and in B.
    relative = 4.0 * (rounding(weight) + 4 * weight * _UNIT)
    return relative, relative * largest_c


def e_is_finite(weight: int, y_max: float) -> bool:
    """Say whether the polynomials of `weight` values up to `y_max` stay finite.

    Then no product of factors, each at most 1 / P(w|C), leaves the range of a double upwards.
    """
    return weight <= LARGEST_WEIGHT and weight * math.log(2.0 * max(y_max, 1.0)) < LARGEST_LOG


def e_is_safe(weight: int, y_max: float, p_max: float, relative: float, absolute: float) -> bool:
    """Say whether e-dominance can be computed, and drops all that tf-dominance would drop.

    The second is so where the margin in e_1 is below what one occurrence of any term adds.

    Parameters
    ----------
    weight : int
        Query words N, repeats counted.
    y_max : float
        The largest tf / P(w|C).
    p_max : float
        The largest P(w|C) among the terms.
    relative, absolute : float
        From `margin`.
    """
    largest_margin = absolute + relative * weight * y_max
    return e_is_finite(weight, y_max) and 4.0 * largest_margin < 1.0 / p_max


def polynomials(y: Doubles, count: Integers) -> Doubles:
    """Return e_1, ..., e_N of documents' y, each term taken as often as the query holds it.

    Parameters
    ----------
    y : numpy.ndarray of float64, shape (terms, documents)
        tf / P(w|C).
    count : numpy.ndarray of int64, shape (terms,)
        How often each term occurs in the query.

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
    """Turn polynomials into whole numbers: A e-dominates B where ``has[:, A] >= needs[:, B]``.

    Parameters
    ----------
    e : numpy.ndarray of float64, shape (N, documents)
        From `polynomials`.
    relative, absolute : float
        From `margin`.

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
