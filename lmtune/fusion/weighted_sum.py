"""A weighted sum of columns as a formula, so that pools, measures and tuners work with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.fusion.kernels import Weighing, differentiate_sum, differentiate_sums, weighted_sums
from lmtune.indexing.index import Index
from lmtune.models.formula import Formula, Ridge
from lmtune.models.kernels import Documents, TopicDocuments
from lmtune.models.parameter import Parameter

EQUAL, GLOBAL = "equal", "global"
"""The simplest weights: the same for all runs; and the same for all queries."""

THETA = "theta"
"""What the names of powers of features begin with."""

_FARTHEST = 8.0


class WeightedSum(Formula):
    """The score ``sum over runs of weight * unit * column``; weights may depend on the query.

    With features x of queries, a run's weight is ``weight * exp(theta . x)``; where a pool's columns have
    counts, the features stand below these.

    Columns are whole numbers, which stand where term frequencies do, and a topic's unit of a run, a power
    of two, where a term's value does: documents of equal columns get equal bits, and where weights are
    whole numbers too, sums of one unit are exact.

    Parameters
    ----------
    names : sequence of str
        The runs', one a weight.
    tied : int
        How many unequal values of a topic and run are equal in the columns.
    features : sequence of str
        The names of features, one a power theta.
    """

    name = "weighted-sum"

    def __init__(self, names: Sequence[str], tied: int = 0, features: Sequence[str] = ()) -> None:
        self.tied, self.runs, self.features = tied, tuple(names), tuple(features)
        equal = 1.0 / len(names)
        powers = [
            Parameter(f"{THETA} {name}", -_FARTHEST, _FARTHEST, "linear", 0.0, f"the power of {name}")
            for name in features
        ]
        weights = [Parameter(name, 0.0, 1.0, "linear", equal, "a run's weight") for name in names]
        self.parameters = (*weights, *powers)
        unweighted = ((GLOBAL, {power.name: 0.0 for power in powers}),)
        self.simpler = unweighted if features else ((EQUAL, dict.fromkeys(names, equal)),)

    def ridge(self, rows: NDArray[Any]) -> Ridge:
        """Pull weights to equal ones, and powers of features to 0.

        The weights' part is the mean square of how far each is from 1, in units of equal ones; powers are
        in units of the features' standard deviations.
        """
        runs, powers = len(self.runs), len(self.features)
        spread = rows[1:].std(axis=1) if powers else np.empty(0)
        centre = np.concatenate((np.full(runs, 1.0 / runs), np.zeros(powers)))
        return Ridge(centre, np.concatenate((np.full(runs, runs**0.5), spread)))

    def weights(self, counts: NDArray[Any], settings: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a topic's weights at settings, shape (settings, runs)."""
        weights = settings[:, : len(self.runs)]
        return weights * np.exp(settings[:, len(self.runs) :] @ counts[1:]) if self.features else weights

    def lengths(self, index: Index) -> NDArray[np.int32]:
        """Return no lengths: they play no part."""
        return np.zeros(index.num_docs, np.int32)

    def _weighing(self, units: NDArray[Any], counts: NDArray[Any], setting: NDArray[np.float64]) -> Weighing:
        """Weigh topics' columns: units of shape (topics, runs), counts (rows, topics, runs)."""
        weights, powers = np.split(setting, [len(self.runs)])
        if not self.features:
            return Weighing(weights * units, units, np.empty((len(units), 0, weights.size)))
        slopes = np.exp(np.tensordot(powers, counts[1:], 1)) * units
        weighted = weights * slopes
        return Weighing(weighted, slopes, np.ascontiguousarray((counts[1:] * weighted).swapaxes(0, 1)))

    def differentiate(
        self, topic: TopicDocuments, setting: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Score one topic's documents; the gradients in weights are the columns, times what features say."""
        scores, gradient = np.empty(topic.length.size), np.empty((setting.size, topic.length.size))
        weighing = self._weighing(topic.value[None], topic.counts[..., None, :], setting)
        differentiate_sum(topic.tf.astype(np.int32), weighing, 0, scores, gradient)
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
        weighing = self._weighing(documents.value[columns], documents.counts[..., columns], setting)
        differentiate_sums(documents.tf, documents.tfs, weighing, likelihood, gradient)

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
            weights = self.weights(documents.counts[..., slice(*terms)], settings)
            weighted_sums(weights * units, columns, out[filled:end].reshape(len(settings), docs))
            filled = end
