"""A weighted sum of columns as a formula, so that pools, measures and tuners work with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.fusion.kernels import differentiate_sum, differentiate_sums, weighted_sums
from lmtune.indexing.index import Index
from lmtune.models.formula import Formula, Ridge
from lmtune.models.kernels import Documents, TopicDocuments
from lmtune.models.parameter import Parameter

EQUAL = "equal"
"""The simplest weights: the same for all runs."""


class WeightedSum(Formula):
    """The score ``sum over runs of weight * unit * column``.

    Columns are whole numbers, which stand where term frequencies do, and a topic's unit of a run, a power
    of two, where a term's value does: documents of equal columns get equal bits, and where weights are
    whole numbers too, sums of one unit are exact.

    Parameters
    ----------
    names : sequence of str
        The runs', one a weight.
    tied : int
        How many unequal values of a topic and run are equal in the columns.
    """

    name = "weighted-sum"

    def __init__(self, names: Sequence[str], tied: int = 0) -> None:
        self.tied, self.runs = tied, tuple(names)
        equal = 1.0 / len(names)
        self.parameters = tuple(
            Parameter(name, 0.0, 1.0, "linear", equal, "a run's weight") for name in names
        )
        self.simpler = ((EQUAL, dict.fromkeys(names, equal)),)

    def ridge(self, rows: NDArray[Any]) -> Ridge:  # noqa: ARG002
        """Pull weights to equal ones: the mean square of how far each is from 1, in units of equal ones."""
        runs = len(self.runs)
        return Ridge(np.full(runs, 1.0 / runs), np.full(runs, runs**0.5))

    def lengths(self, index: Index) -> NDArray[np.int32]:
        """Return no lengths: they play no part."""
        return np.zeros(index.num_docs, np.int32)

    def differentiate(
        self, topic: TopicDocuments, setting: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Score one topic's documents; the gradients in weights are the columns."""
        scores, gradient = np.empty(topic.length.size), np.empty((setting.size, topic.length.size))
        differentiate_sum(topic.tf.astype(np.int32), setting * topic.value, topic.value, scores, gradient)
        return scores, gradient

    def likelihoods(
        self,
        documents: Documents,
        setting: NDArray[np.float64],
        likelihood: NDArray[np.float64],
        gradient: NDArray[np.float64],
        product: NDArray[np.bool_],
    ) -> None:
        """Fill scores and gradients of many topics at once."""
        product[:] = False
        columns = documents.terms[:, :1] + np.arange(len(self.runs))
        units = documents.value[columns]
        differentiate_sums(documents.tf, documents.tfs, setting * units, units, likelihood, gradient)

    def rank_scores(
        self, documents: Documents, settings: NDArray[np.float64], out: NDArray[np.float64]
    ) -> None:
        """Fill scores, topic by topic and, within a topic, setting by setting."""
        filled, runs = 0, len(self.runs)
        sizes = np.diff(documents.docs)[:, 0].tolist()
        for docs, tfs, terms in zip(sizes, documents.tfs, documents.terms, strict=True):
            columns = documents.tf[slice(*tfs)].reshape(runs, docs)
            end = filled + docs * len(settings)
            units = documents.value[slice(*terms)]
            weighted_sums(settings * units, columns, out[filled:end].reshape(len(settings), docs))
            filled = end
