"""Tuning methods by number of parameters, on generated models with a known good setting.

A document's score is a weighted sum of evidence. Relevant documents are those that the sum with hidden
weights and noise ranks highest. So a good setting exists in any dimension.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.methods import choose
from experiments.synthetic import folder_of
from lmtune import (
    FDSA,
    SPSA,
    CandidatePool,
    CoordinateAscent,
    Formula,
    Parameter,
    ParameterSpace,
    SurrogateTuner,
    index_for,
    load,
)
from lmtune.measures import parse_measure
from lmtune.measures.evaluate import measure_settings
from lmtune.models.kernels import TopicDocuments
from lmtune.tuning.pairs import Lists
from lmtune.tuning.tuner import Tuner

HIDDEN = "hidden weights"
_RANGE = 2.0
# relevant documents of a topic, and standard deviation of the noise relative to that of the scores
_RELEVANT, _NOISE = 10, 0.5
_LIST_DEPTH = 200


class Evidence(Formula):
    r"""A log-linear mixture of saturated frequencies and of features of the document's length.

    .. math:: \sum_t c_t \frac{tf_t}{tf_t + 1} + \sum_{i=1}^{d} w_i \varphi_i ,

    where c are the query's counts. Features with odd numbers are term evidence, with larger weights of rarer
    terms, saturated at increasing frequencies. The others are waves in the logarithm of the length.

    Parameters
    ----------
    dimensions : int
        Number of weights, 1 or more.
    """

    def __init__(self, dimensions: int) -> None:
        self.name = f"evidence-{dimensions}"
        self.parameters = tuple(
            Parameter(f"w{number + 1}", -_RANGE, _RANGE, "linear", 0.0, "a feature's weight")
            for number in range(dimensions)
        )

    def features(self, topic: TopicDocuments) -> NDArray[np.float64]:
        """Return the features of a topic's documents, shape (weights, documents), about -1 to 1."""
        weight = topic.counts * -np.log(topic.value)
        rarity = (weight / weight.sum())[:, None]
        length = np.log1p(topic.length)
        rows = []
        for number in range(len(self.parameters)):
            order = number // 2
            if number % 2 == 0:
                # not by BLAS, which may give equal columns different last bits
                rows.append((rarity * (topic.tf / (topic.tf + 0.5 * 1.5**order))).sum(axis=0))
            else:
                rows.append(0.5 * np.cos((order + 1) * length))
        return np.array(rows)

    def differentiate(
        self, topic: TopicDocuments, setting: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Score documents; the features are the gradient."""
        features = self.features(topic)
        base = (topic.counts[:, None] * (topic.tf / (topic.tf + 1.0))).sum(axis=0)
        # added in order, feature by feature: equal documents have identical scores
        for weight, feature in zip(setting.tolist(), features, strict=True):
            base = base + weight * feature
        return base, features


def made_up(dataset: str, dimensions: int, seed: int) -> tuple[CandidatePool, NDArray[np.float64]]:
    """Judge a collection's documents by hidden weights with noise.

    Parameters
    ----------
    dataset : str
        Collection of the documents and topics; its judgments are not used.
    dimensions, seed : int
        Number of weights; seed of the weights and the noise.

    Returns
    -------
    pool : CandidatePool
        Candidates for `Evidence`.
    hidden : numpy.ndarray of float64, shape (dimensions,)
    """
    collection = load(folder_of(dataset), need=("documents", "topics"))
    assert collection.documents is not None
    formula = Evidence(dimensions)
    pool = CandidatePool.build(index_for(collection.documents), collection.topics, model=formula)
    rng = np.random.default_rng([seed, dimensions])
    hidden = ParameterSpace.of(formula).random(rng)
    scores = np.empty(pool.candidates.doc.size)
    formula.rank_scores(pool.documents(pool.candidates), hidden[None], scores)
    qrels: dict[str, dict[str, int]] = {}
    for t, topic in enumerate(pool.topics):
        rows = pool.candidates.rows(t)
        exact = scores[rows]
        noisy = exact + rng.normal(0.0, _NOISE * max(float(exact.std()), 1e-9), exact.size)
        best = np.argsort(-noisy, kind="stable")[:_RELEVANT]
        docs = pool.candidates.doc[rows][best]
        qrels[topic] = dict.fromkeys(pool.index.docnos(docs), 1)
    return pool.with_judgments(qrels), hidden


def search(dataset: str, dimensions: int, seed: int, evaluations: int) -> dict[str, list[dict[str, Any]]]:
    """Tune a generated model on every second topic by each method.

    Parameters
    ----------
    dataset, dimensions, seed
        As for `made_up`.
    evaluations : int
        Evaluations of SPSA and FDSA.

    Returns
    -------
    dict
        ``parameters`` has a row for each method and one for the hidden weights: AP on training and other
        topics, evaluations, documents scored, seconds.
    """
    pool, hidden = made_up(dataset, dimensions, seed)
    train, test = pool.topics[::2], pool.topics[1::2]
    begin = time.monotonic()
    lists = Lists.build(pool, ParameterSpace.of(pool.formula), depth=_LIST_DEPTH, seed=seed)
    listing = time.monotonic() - begin
    shared = pool.candidates, dict[str, Any](), 0.0
    listed = lists.columns, {"lists": lists}, listing
    tuners: Mapping[str, Tuner] = {
        "coordinate ascent": CoordinateAscent("AP", seed=seed),
        "FDSA": FDSA("AP", evaluations=evaluations, seed=seed),
        "SPSA": SPSA("AP", evaluations=evaluations, seed=seed),
        "approx-AP": SurrogateTuner("approx-ap", seed=seed),
        "approx-AP, one start": SurrogateTuner("approx-ap", starts=1, seed=seed),
    }
    settings, works = [hidden], [dict.fromkeys(("evaluations", "documents", "seconds"), math.nan)]
    for tuner in tuners.values():
        columns, prepared, before = listed if isinstance(tuner, SurrogateTuner) else shared
        choice = choose(tuner, pool, columns, train, **prepared)
        settings.append(np.array(list(tuner.best_params_.values())))
        works.append(choice.work | {"seconds": before + choice.seconds})
    rows = []
    for method, setting, work in zip([HIDDEN, *tuners], settings, works, strict=True):
        values = measure_settings(pool, setting, [parse_measure("AP")])[:, 0, 0]
        on_train, on_test = (float(values[pool.positions(topics)].mean()) for topics in (train, test))
        row = {"parameters": dimensions, "draw": seed, "method": method, "train": on_train, "test": on_test}
        rows.append(row | work)
    return {"parameters": rows}
