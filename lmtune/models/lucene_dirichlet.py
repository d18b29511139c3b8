r"""Lucene's Dirichlet-smoothed score (LMDirichletSimilarity) and its derivative.

.. math:: g(Q;D) = \sum_{w \in Q} \max\Big(0, \log\big(1 + \frac{tf}{\mu P(w|C)}\big)
    + \log\frac{\mu}{\mu + |D|}\Big)

Lucene computes each term in single precision; here it is double.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.indexing.index import Index, TermCounts
from lmtune.indexing.quantised import quantised_lengths
from lmtune.models import kernels
from lmtune.models.kernels import Documents, TopicDocuments
from lmtune.models.two_stage import LAMBDA, MU, TwoStage, as_topic, check_parameters


class LuceneDirichlet(TwoStage):
    r"""Lucene's Dirichlet smoothing: two-stage smoothing's product with no factor below 1.

    .. math:: \sum_w \max\Big(0, \log\big(1 + \frac{tf}{\mu p}\big) + \log\frac{\mu}{\mu + |D|}\Big)
        = \sum_w \log \max(1, x) \quad (\lambda = 0),

    with p = (cf + 1) / (\|C\| + 1) and lengths rounded as in `lmtune.indexing.quantised`. A term
    that the document lacks has x < 1, so that the floor leaves it out, as Lucene does.
    """

    name = "lucene-dirichlet"
    parameters = (replace(LAMBDA, low=0.0, high=0.0), MU)
    dominance = "tf"
    is_floored = True

    def term_value(self, term: TermCounts) -> float:
        """Return P(w|C), smoothed by one occurrence."""
        return (term.cf + 1.0) / (term.size.terms + 1.0)

    def lengths(self, index: Index) -> NDArray[np.int32]:
        """Return the lengths of all documents as Lucene rounds them."""
        return quantised_lengths(np.asarray(index.lengths))

    def differentiate(
        self, topic: TopicDocuments, setting: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return `score_and_slope`; nothing is checked any more."""
        scores, gradients = np.empty(topic.length.size), np.zeros((2, topic.length.size))
        kernels.floored_log_likelihood(topic, setting[1], scores, gradients[1])
        return scores, gradients

    def likelihoods(
        self,
        documents: Documents,
        setting: NDArray[np.float64],
        likelihood: NDArray[np.float64],
        gradient: NDArray[np.float64],
        product: NDArray[np.bool_],
    ) -> None:
        """Fill products of max(1, x) where they are safe, and derivatives: none in lambda."""
        super().likelihoods(documents, setting, likelihood, gradient, product)
        gradient[0] = 0.0


LUCENE_DIRICHLET = LuceneDirichlet()


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
    topic = as_topic(tf, length, p, count)
    scores, gradients = LUCENE_DIRICHLET.differentiate(topic, np.array([0.0, mu]))
    return Slope(scores, gradients[1])
