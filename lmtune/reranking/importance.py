"""How much a reranker rests on each feature: what the measure loses where its values are shuffled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, check_least
from lmtune.measures.lists import Measurer
from lmtune.measures.significance.comparison import Comparison, compare
from lmtune.progress import Progress, silent
from lmtune.reranking.data import RankingData
from lmtune.reranking.reranker import Reranker

WHOLE = "all features"
"""The name of what the others are compared with."""


def permutation_importance(
    model: Reranker,
    data: RankingData,
    *,
    measure: str | None = None,
    repeats: int = 5,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress = silent,
) -> Comparison:
    """Measure lists again with the values of one feature shuffled, feature by feature.

    Breiman's permutation importance (Machine Learning 45, 2001) for rankings: values are shuffled
    among the documents of each query. Those of a feature that every query's documents share are
    shuffled among queries.

    Parameters
    ----------
    model : Reranker
        What scores.
    data : RankingData
        Features as they come, and labels; of queries that the model has not seen.
    measure : str, optional
        As `lmtune.measures.measure.parse_list_measure` reads; the one that validation chose by.
    repeats : int
        Shuffles a feature; each query's mean over them is compared.
    seed : int
        Of the shuffles.
    device : str
        Where to compute.
    progress : Progress
        Called after each feature.

    Returns
    -------
    Comparison
        A system a feature, by name, against `WHOLE`; topics are the queries that count. A
        difference below 0 is what the feature is worth.

    Raises
    ------
    InputError
        For fewer repeats than one, other features than the model's, or fewer than two queries
        with a relevant document.
    """
    check_least("bad number of shuffles", repeats, 1)
    measurer = Measurer(measure or model.scorer.settings.chosen_by, data)
    topics = [query for query, counts in zip(data.queries, measurer.counted.tolist(), strict=True) if counts]
    if len(topics) < 2:
        raise InputError(
            "too few queries with a relevant document", value=len(topics), accepted="two or more"
        )

    def values(features: NDArray[np.float32]) -> NDArray[np.float64]:
        scores = model.score(replace(data, features=features), device=device)
        return measurer.values(scores)[measurer.counted]

    whole = values(data.features)
    rng, by_feature = np.random.default_rng(seed), {}
    for number, name in enumerate(model.names):
        shuffled = data.features.copy()
        total = np.zeros(len(topics))
        for _ in range(repeats):
            shuffled[:, number] = _shuffled(data, number, rng)
            total += values(shuffled)
        by_feature[name] = total / repeats
        progress("features shuffled", number + 1, len(model.names), name)
    name = str(measurer.measure)
    return compare(whole, by_feature, baseline=WHOLE, measures=[name], topics=topics)


def _shuffled(data: RankingData, number: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Shuffle one feature's values within queries, or among queries where they differ only there."""
    column, firsts = data.features[:, number], data.features[data.starts[:-1], number]
    if (column == firsts[data.query_of_row]).all():
        among: NDArray[np.float32] = rng.permutation(firsts)[data.query_of_row]
        return among
    within: NDArray[np.float32] = column[np.lexsort((rng.random(column.size), data.query_of_row))]
    return within
