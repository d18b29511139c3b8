"""Find why RankNet's cost misses the best lambda and mu, by changing the cost step by step.

Every objective is computed at every setting of a grid, so only the objective differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.methods import Methods
from lmtune import CandidatePool, ParameterSpace
from lmtune.candidates.columns import Columns
from lmtune.losses.packing_kernels import ByLabel
from lmtune.losses.pair_kernels import ranknet_queries
from lmtune.measures import parse_measure
from lmtune.tuning import kernels
from lmtune.tuning.surrogate import SurrogateCost, parse_objective

PAIRS = "RankNet"
SMOOTH = "approx-AP"
STEPS = (
    PAIRS,
    "with a fitted slope",
    "and topics of equal weight",
    "and scores over their spread",
    "over lists, not judged pairs",
    SMOOTH,
)
"""The objectives. Each includes the changes of the ones before, except the last."""

# bounds of a slope's logarithm: at the corner, differences of scores are thousandths
_LOG_SLOPES = (-5.0, 12.0)
_CLOSE = 0.02


class PairCosts:
    """RankNet's cost of the documents of some columns, with a fitted slope.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    columns : Columns
        Each topic's documents by falling gain.
    rel : int
        The smallest gain that is relevant.
    topics : numpy.ndarray of int64
        Indices of topics with a pair.
    """

    def __init__(self, pool: CandidatePool, columns: Columns, rel: int, topics: NDArray[np.int64]) -> None:
        self._formula = pool.formula
        self._documents = pool.documents(columns).of(topics)
        self._sizes = np.diff(self._documents.docs)[:, 0]
        shape = topics.size, int(self._sizes.max())
        self._real = np.arange(shape[1]) < self._sizes[:, None]
        self._labels = np.zeros(shape)
        gain = np.concatenate([columns.gain[columns.rows(t)] for t in topics])
        self._labels[self._real] = gain >= rel
        self._order = np.ascontiguousarray(np.broadcast_to(np.arange(shape[1]), shape))

    def scores(self, setting: NDArray[np.float64], *, divided: bool) -> NDArray[np.float64]:
        """Return scores at a setting minus each topic's mean, shape (topics, most documents).

        If `divided`, they are divided by their standard deviation over the topic's documents.
        """
        likelihood = np.empty(int(self._sizes.sum()))
        gradient = np.empty((setting.size, likelihood.size))
        product = np.empty(self._sizes.size, np.bool_)
        self._formula.likelihoods(self._documents, setting, likelihood, gradient, product)
        out, spread = np.zeros(self._real.shape), np.empty(self._sizes.size)
        kernels.standardise(self._sizes, product, likelihood, out, spread)
        if not divided:
            out *= np.where(np.isfinite(spread), spread, 0.0)[:, None]
        return out

    def cost(self, scores: NDArray[np.float64], slope: float, *, by_topic: bool) -> float:
        """Return the mean cost of a pair, or the mean over topics of their pairs' means."""
        lists = ByLabel(scores, self._labels, self._order, self._sizes)
        losses, slopes = np.zeros(len(scores)), np.zeros(scores.shape)
        ranknet_queries(0, len(scores), lists, slope, by_topic, losses, slopes)
        if by_topic:
            return float(losses.mean())
        relevant = self._labels.sum(axis=1)
        return float(losses.sum() / (relevant * (self._sizes - relevant)).sum())

    def fitted(self, scores: NDArray[np.float64], *, by_topic: bool) -> tuple[float, float]:
        """Return the lowest cost over slopes and this slope; the cost is convex in the slope."""
        from scipy.optimize import minimize_scalar

        optimum = minimize_scalar(
            lambda x: self.cost(scores, float(np.exp(x)), by_topic=by_topic),
            bounds=_LOG_SLOPES,
            method="bounded",
            options={"xatol": _CLOSE},
        )
        return float(optimum.fun), float(np.exp(optimum.x))


def find_causes(methods: Methods, alpha: float) -> dict[str, list[Any]]:
    """Compute the objectives of `STEPS` over the grid, and the measure at the minimum of each.

    Parameters
    ----------
    methods : Methods
        Methods on a collection; the measures of its surface must include AP.
    alpha : float
        The smooth AP's steepness.

    Returns
    -------
    dict
        Rows of tables. ``surfaces`` has a row for each setting: parameters, ``AP`` and costs. ``causes`` has
        a row for each objective: its best setting, the slope and mean there, and the mean relative to the
        best.
    """
    pool, surface = methods.pool, methods.surface
    ap, places = parse_measure("AP"), pool.positions()
    means = surface.means(ap, places)
    paired = np.flatnonzero(methods.pairs.per_topic)
    judged = PairCosts(pool, methods.pairs.columns, methods.pairs.rel, paired)
    columns = methods.lists.columns
    relevant = np.array([(columns.gain[columns.rows(t)] >= ap.rel).sum() for t in places])
    listed = np.flatnonzero((relevant > 0) & (relevant < np.diff(columns.start)))
    over_lists = PairCosts(pool, columns, ap.rel, listed)
    smooth = SurrogateCost(methods.lists, parse_objective("approx-ap"), places)
    costs, slopes = np.empty((len(STEPS), len(means))), np.ones((len(STEPS), len(means)))
    for at, setting in enumerate(surface.settings):
        raw, divided = (judged.scores(setting, divided=spread) for spread in (False, True))
        costs[0, at] = judged.cost(raw, 1.0, by_topic=False)
        costs[1, at], slopes[1, at] = judged.fitted(raw, by_topic=False)
        costs[2, at], slopes[2, at] = judged.fitted(raw, by_topic=True)
        costs[3, at], slopes[3, at] = judged.fitted(divided, by_topic=True)
        scores = over_lists.scores(setting, divided=True)
        costs[4, at], slopes[4, at] = over_lists.fitted(scores, by_topic=True)
        costs[5, at], slopes[5, at] = smooth(setting, alpha).value, alpha
    space = ParameterSpace.of(pool.formula)
    rows = [
        {"objective": name, **space.named(surface.settings[lowest]), "slope": float(slope[lowest])}
        | {"AP": float(means[lowest]), "best": float(means.max())}
        | {"at_edge": ", ".join(space.at_edge(surface.settings[lowest]))}
        for name, slope, lowest in zip(STEPS, slopes, costs.argmin(axis=1).tolist(), strict=True)
    ]
    columns_of = dict(zip(surface.names, surface.settings.T, strict=True))
    over = pd.DataFrame({**columns_of, "AP": means, **dict(zip(STEPS, costs, strict=True))})
    return {"causes": rows, "surfaces": over.to_dict("records")}
