"""A reranker's scores added to those of the run that it reranks, with a weight chosen on other topics."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError
from lmtune.fusion.lines import check_measure
from lmtune.fusion.normalisation import normalised
from lmtune.fusion.runs import MINIMUM, RunSet
from lmtune.fusion.search import ExactLineSearch
from lmtune.measures.measure import Measure, parse_measure
from lmtune.reranking.data import RankingData

Run = Mapping[str, Mapping[str, float]]
Qrels = Mapping[str, Mapping[str, int]]


def parse_interpolation(text: str) -> float | Measure:
    """Read a weight from 0 to 1, or the measure by which to choose one."""
    try:
        weight = float(text)
    except ValueError:
        measure = parse_measure(text)
        check_measure(measure)
        return measure
    if not 0.0 <= weight <= 1.0:
        raise InputError("bad --interpolate", value=text, accepted="from 0 to 1, or a measure")
    return weight


def interpolated(data: RankingData, run: Run, scores: ArrayLike, weight: float) -> NDArray[np.float64]:
    """Add each topic's min-max scores of a model and of the run: weight times the one, the rest the other.

    Parameters
    ----------
    data : RankingData
        Made from the run.
    run : mapping
        The run.
    scores : array_like of float, shape (rows,)
        The model's.
    weight : float
        Of the model, from 0 to 1.
    """
    mixed, columns = np.array(scores, np.float64), normalised("min-max", MINIMUM)
    for q, (topic, docnos) in enumerate(_lists(data)):
        rows = data.rows(q)
        pair = np.array([[run[topic][docno] for docno in docnos], mixed[rows]])
        mixed[rows] = np.array([1.0 - weight, weight]) @ columns(pair)
    return mixed


def best_weight(
    data: RankingData, run: Run, scores: ArrayLike, qrels: Qrels, measure: Measure
) -> tuple[float, float]:
    """Return the model's weight with the highest mean on data's topics, and that mean, by a line search.

    Parameters
    ----------
    data, run, scores
        As of `interpolated`; topics that did not train the model.
    qrels : mapping
        Judgements of all these topics.
    measure : Measure
        One that `ExactLineSearch` takes.
    """
    values = np.asarray(scores, np.float64)
    both: dict[str, dict[str, dict[str, float]]] = {"run": {}, "model": {}}
    for q, (topic, docnos) in enumerate(_lists(data)):
        both["run"][topic] = {docno: run[topic][docno] for docno in docnos}
        both["model"][topic] = dict(zip(docnos, values[data.rows(q)].tolist(), strict=True))
    pool = RunSet.of(both).pool(normalised("min-max", MINIMUM), qrels)
    found = ExactLineSearch(str(measure)).fit(pool)
    weights = found.best_params_
    return weights["model"] / sum(weights.values()), found.best_value_


def _lists(data: RankingData) -> list[tuple[str, tuple[str, ...]]]:
    docnos = data.docnos or ()
    return [(topic, tuple(docnos[data.rows(q)])) for q, topic in enumerate(data.queries)]
