"""The RankNet cost beside the measures, along the same lines through (lambda, log mu)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure
from lmtune.tuning.folds import Fold
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.plan import Plan
from lmtune.tuning.result import DIRECT, RANKNET, CollectionResult, Fit
from lmtune.tuning.space import ParameterSpace

if TYPE_CHECKING:
    import pandas as pd

ACROSS, ALONG_LAMBDA, ALONG_MU = "across", "lambda", "mu"

# From RankNet's choice at 0 to Direct's at 1, and as far again half way on both sides.
_ACROSS = np.linspace(-0.5, 1.5, 41)
_POINTS = 31


def measure_lines(
    pool: CandidatePool,
    result: CollectionResult,
    plan: Plan,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, pd.DataFrame]:
    """Compute the RankNet cost and the measure along three lines, for each measure and fold.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    result : CollectionResult
        Its experiment.
    plan : Plan
        The experiment's.
    progress : callable, optional
        Called with (folds done, folds in all).

    Returns
    -------
    dict of str to pandas.DataFrame
        By ``MEASURE-foldN``. One row a setting: ``line``, ``position``, ``lambda``, ``mu``,
        ``cost`` (RankNet's mean over the pairs of the training topics), ``train`` and ``test``
        (the measure's means). The line ``across`` is straight in (lambda, log mu), with RankNet's
        choice at position 0 and Direct's at 1; it is missing where the two are the same. ``lambda``
        and ``mu`` go along one parameter through RankNet's choice; the position is the parameter.
        A parameter that the model fixes has no line.
    """
    import pandas as pd

    pairs = Pairs.build(pool, rel=plan.rel, depth=plan.negatives_depth)
    fits = {(row.measure, row.method): row.fits for row in result.rows}
    lines: dict[str, pd.DataFrame] = {}
    for number, fold in enumerate(result.folds):
        along = _along(plan.space, fits[plan.measures[0], RANKNET][number])
        shared = _Settings(pool, pairs, fold, plan, along)
        for measure in plan.measures:
            across = _across(plan.space, *(fits[measure, m][number] for m in (RANKNET, DIRECT)))
            own = _Settings(pool, pairs, fold, plan, across, [measure]) if len(across) else None
            tables = [part.table(measure) for part in (own, shared) if part is not None]
            lines[f"{measure}-fold{number + 1}"] = pd.concat(tables, ignore_index=True)
        if progress is not None:
            progress(number + 1, len(result.folds))
    return lines


Place = tuple[str, float, float, float]
"""A line, a position on it, lambda and mu."""


def _along(space: ParameterSpace, fit: Fit) -> list[Place]:
    """Return settings along lambda and along mu through a setting, itself included.

    There is no line along a parameter that the space fixes, unless it fixes both.
    """
    lambdas, _ = space.grid(_POINTS, 1)
    _, mus = space.grid(1, _POINTS)
    along_mu = space.mu_low < space.mu_high
    places = []
    if space.lambda_low < space.lambda_high or not along_mu:
        places = [
            (ALONG_LAMBDA, lambda_, lambda_, fit.mu)
            for lambda_ in np.union1d(lambdas, [fit.lambda_]).tolist()
        ]
    if not along_mu:
        return places
    return places + [(ALONG_MU, mu, fit.lambda_, mu) for mu in np.union1d(mus, [fit.mu]).tolist()]


def _across(space: ParameterSpace, begin: Fit, end: Fit) -> list[Place]:
    """Return settings on the straight line through two, as far as the space goes."""
    if (begin.lambda_, begin.mu) == (end.lambda_, end.mu):
        return []
    ends = {0.0: (begin.lambda_, begin.mu), 1.0: (end.lambda_, end.mu)}
    places = []
    for position in _ACROSS.round(12).tolist():
        lambda_ = begin.lambda_ + position * (end.lambda_ - begin.lambda_)
        mu = begin.mu
        if begin.mu != end.mu:
            mu = math.exp(math.log(begin.mu) + position * math.log(end.mu / begin.mu))
        setting = ends.get(position, (lambda_, mu))
        if space.clip(*setting) == setting:
            places.append((ACROSS, position, *setting))
    return places


class _Settings:
    """The cost and the measures at some settings."""

    def __init__(
        self,
        pool: CandidatePool,
        pairs: Pairs,
        fold: Fold,
        plan: Plan,
        places: list[Place],
        measures: list[Measure] | None = None,
    ) -> None:
        self.places = places
        self.measures = measures or list(plan.measures)
        lambdas = [lambda_ for _, _, lambda_, _ in places]
        mus = [mu for _, _, _, mu in places]
        train = pool.positions(fold.train)
        count = int(pairs.per_topic[train].sum())
        self.cost = [
            pairs.cost(lambda_, mu, topics=train).value / count
            for lambda_, mu in zip(lambdas, mus, strict=True)
        ]

        def means(topics: NDArray[np.int64]) -> NDArray[np.float64]:
            values = measure_settings(pool, lambdas, mus, self.measures, topics=topics, depth=plan.depth)
            mean: NDArray[np.float64] = values.mean(axis=0)
            return mean

        self.train, self.test = means(train), means(pool.positions(fold.test))

    def table(self, measure: Measure) -> pd.DataFrame:
        import pandas as pd

        column = self.measures.index(measure)
        table = pd.DataFrame(self.places, columns=["line", "position", "lambda", "mu"])
        return table.assign(cost=self.cost, train=self.train[:, column], test=self.test[:, column])
