r"""Lucene's Dirichlet-smoothed score (LMDirichletSimilarity) and its derivative.

.. math:: g(Q;D) = \sum_{w \in Q} \max\Big(0, \log\big(1 + \frac{tf}{\mu P(w|C)}\big)
    + \log\frac{\mu}{\mu + |D|}\Big)

Lucene computes each term in single precision; here it is double.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.models import kernels
from lmtune.models.two_stage import as_columns, check_parameters


class Slope(NamedTuple):
    r"""Scores with their derivative, each of shape (documents,).

    Attributes
    ----------
    score : numpy.ndarray of float64
        g(Q; D), 0 or more.
    dmu : numpy.ndarray of float64
        The derivative of g in mu. The floor makes no kink: a term is above it for every mu, where
        tf > P(w|C) \|D\|, or for none.
    """

    score: NDArray[np.float64]
    dmu: NDArray[np.float64]


def score_and_slope(
    tf: ArrayLike, length: ArrayLike, p: ArrayLike, *, mu: float, count: ArrayLike | None = None
) -> Slope:
    r"""Score documents as Lucene does and differentiate the scores in mu.

    Parameters
    ----------
    tf : array_like of int, shape (terms, documents)
        Occurrences of each query term in each document.
    length : array_like of int, shape (documents,)
        Document lengths in tokens; rounded by
        `lmtune.indexing.quantised.quantised_lengths`, to agree with Lucene.
    p : array_like of float, shape (terms,)
        (cf + 1) / (\|C\| + 1), each in (0, 1].
    mu : float
        mu > 0, in tokens.
    count : array_like of int, shape (terms,), optional
        How often each term occurs in the query; once each by default.

    Returns
    -------
    Slope

    Raises
    ------
    InputError
        For a mu outside its domain, arrays whose shapes do not fit, or negative frequencies.

    Examples
    --------
    >>> score_and_slope([[2], [0]], [10], [0.01, 0.001], mu=100.0).score.round(6)
    array([1.003302])
    """
    check_parameters(0.0, mu)
    columns = as_columns(tf, length, p, count)
    result = Slope(*(np.empty(columns[1].size) for _ in range(2)))
    kernels.floored_log_likelihood(*columns, float(mu), *result)
    return result
