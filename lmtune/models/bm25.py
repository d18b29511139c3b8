r"""BM25 as Lucene has it, and its analytic gradient.

.. math:: g(Q;D) = \sum_{w \in Q} idf_w \frac{tf_{w,D}}{tf_{w,D} + n_D}, \qquad
    n_D = k_1 \Big(1 - b + b \frac{|D|}{L}\Big), \qquad
    idf_w = \log\Big(1 + \frac{N - df_w + 1/2}{df_w + 1/2}\Big),

L the mean length of the N documents that hold a term. It is Robertson and Zaragoza's (Foundations
and Trends in Information Retrieval, 2009, section 3.5) without the factor :math:`k_1 + 1`, which
changes no ranking, and with an idf that is never negative. A query term occurring c times counts
c times.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.indexing.index import Index, TermCounts
from lmtune.indexing.quantised import quantised_lengths
from lmtune.models import bm25_kernels as kernels
from lmtune.models.formula import Formula
from lmtune.models.kernels import Documents, TopicDocuments
from lmtune.models.parameter import ANSERINI, Parameter

K1 = Parameter("k1", 0.01, 5.0, "log", 0.9, "how slowly term frequencies saturate", source=ANSERINI)
B = Parameter("b", 0.0, 1.0, "linear", 0.4, "how much a document's length counts", source=ANSERINI)


class BM25(Formula):
    r"""BM25, with its gradient.

    A term's part is idf tf / (tf + n), so that

    .. math:: \frac{\partial g}{\partial k_1} = -\sum_w idf_w \frac{tf}{(tf + n)^2}
        \Big(1 - b + b \frac{|D|}{L}\Big), \qquad
        \frac{\partial g}{\partial b} = -\sum_w idf_w \frac{tf}{(tf + n)^2}
        k_1 \Big(\frac{|D|}{L} - 1\Big).
    """

    name = "bm25"
    parameters = (K1, B)
    dominance = "tf"
    value_name = "idf"

    def term_value(self, term: TermCounts) -> float:
        """Return a term's idf."""
        return idf(term.df, term.size.documents)

    def check(self, settings: NDArray[np.float64]) -> None:
        """Raise `InputError` unless 0 <= b <= 1, and k1 is 0 or more."""
        super().check(settings)
        for b in settings[:, 1].tolist():
            if not 0.0 <= b <= 1.0:
                raise InputError("b is outside its domain", value=b, accepted="0 <= b <= 1")

    def differentiate(
        self, topic: TopicDocuments, setting: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Score one topic's documents and differentiate the scores in k1 and b."""
        scores, gradients = np.empty(topic.length.size), np.empty((2, topic.length.size))
        kernels.differentiate(topic, setting[0], setting[1], scores, gradients)
        return scores, gradients

    def parts(
        self, topic: TopicDocuments, setting: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Score and differentiate each term by itself."""
        k1, b = setting.tolist()
        relative = topic.length / topic.mean_length
        share = (1.0 - b) + b * relative
        whole = topic.tf + np.maximum(k1 * share, kernels.LEAST_ROOM)
        parts = topic.tf / whole
        parts *= topic.value[:, None]
        slopes = np.divide(parts, whole, out=whole)
        gradients = np.empty((2, *parts.shape))
        np.multiply(slopes, -share, out=gradients[0])
        np.multiply(slopes, k1 * (1.0 - relative), out=gradients[1])
        return parts, gradients

    def rank_scores(
        self, documents: Documents, settings: NDArray[np.float64], out: NDArray[np.float64]
    ) -> None:
        """Fill scores whose rounding keeps dominance."""
        kernels.rank_scores(documents, settings, out)

    def likelihoods(
        self,
        documents: Documents,
        setting: NDArray[np.float64],
        likelihood: NDArray[np.float64],
        gradient: NDArray[np.float64],
        product: NDArray[np.bool_],
    ) -> None:
        """Fill scores and derivatives; no products."""
        product[:] = False
        kernels.likelihoods(documents, setting[0], setting[1], likelihood, gradient)


class LuceneBM25(BM25):
    """BM25 with lengths rounded as in `lmtune.indexing.quantised`: Lucene's BM25Similarity.

    Lucene computes each term in single precision; here it is double.
    """

    name = "lucene-bm25"

    def lengths(self, index: Index) -> NDArray[np.int32]:
        """Return the lengths of all documents as Lucene rounds them; their mean is exact."""
        return quantised_lengths(np.asarray(index.lengths))


def idf(df: int, documents: int) -> float:
    """Return log(1 + (N - df + 1/2) / (df + 1/2)) of a term that `df` of N documents hold."""
    return math.log1p((documents - df + 0.5) / (df + 0.5))
