"""Parameters chosen on some topics, by direct search and along gradients, for models and made-up ones.

In a made-up model a document's score is a weighted sum of evidence; the judgements are what the sum with
hidden weights, and noise on top, ranks highest. So a good setting is known to exist, whatever the dimension.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.synthetic import folder_of
from lmtune.candidates.columns import Columns
from lmtune.candidates.pool import CandidatePool
from lmtune.datasets.loading import load
from lmtune.indexing.cache import index_for
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure, parse_measure
from lmtune.models.formula import Formula
from lmtune.models.kernels import TopicDocuments
from lmtune.models.parameter import Parameter
from lmtune.tuning.coordinate_ascent import CoordinateAscent
from lmtune.tuning.experiment.result import DIRECT, OPTIMAL, RANKNET
from lmtune.tuning.gradient import RankNetTuner
from lmtune.tuning.grid import GridSearch, Surface
from lmtune.tuning.objectives import parse_objective
from lmtune.tuning.pairs import Lists, Pairs
from lmtune.tuning.space import ParameterSpace, space_for
from lmtune.tuning.spsa import FDSA, SPSA
from lmtune.tuning.surrogate import ALPHAS, SurrogateTuner, lists_depth, objective_for
from lmtune.tuning.tuner import Tuner

# As many as `lmtune.tuning.experiment.plan.Plan` has.
_ASCENTS, _RESTARTS = 3, 2

Fitted = tuple[str, str, tuple[float, ...]]
"""A row's name, a surrogate objective, and the steepnesses that it is followed through."""


class Choice(NamedTuple):
    """The choice of a method, and its work.

    Attributes
    ----------
    tuner : Tuner
        After its fit.
    evaluations, documents : int
        How often the objective was computed, and documents scored in all of it.
    seconds : float
        Without extracting candidates, lists and pairs.
    """

    tuner: Tuner
    evaluations: int
    documents: int
    seconds: float

    @property
    def work(self) -> dict[str, float]:
        """Evaluations, documents and seconds, by name."""
        return {name: getattr(self, name) for name in self._fields[1:]}


def choose(
    tuner: Any, pool: CandidatePool, columns: Columns, train: Sequence[str], **prepared: Any
) -> Choice:
    """Let a tuner choose on training topics, of which an evaluation scores the documents of some columns."""
    begin = time.monotonic()
    tuner.fit(pool, topics=train, **prepared)
    seconds = time.monotonic() - begin
    evaluations = tuner.n_evaluations_
    return Choice(tuner, evaluations, evaluations * _scored(pool, columns, train), seconds)


def _scored(pool: CandidatePool, columns: Columns, train: Sequence[str]) -> int:
    """Count the documents that an evaluation scores."""
    return int(np.diff(columns.start)[pool.positions(train)].sum())


class Judged(NamedTuple):
    """How choices fare by a measure.

    Attributes
    ----------
    rows : list of dict
        By choice: means over training and over test topics, and the work.
    values : numpy.ndarray, shape (topics, choices)
        The measure of every topic.
    best : dict
        The best setting known on the test topics, of the grid or of the choices, and its mean, ``test``.
    """

    rows: list[dict[str, float]]
    values: NDArray[np.float64]
    best: dict[str, float]


class Compared(NamedTuple):
    """Results of the methods with one training set.

    Attributes
    ----------
    rows : list of dict
        A row a measure and method.
    differences : dict of (str, str) to numpy.ndarray, shape (topics,)
        By measure and method: every topic's value minus Direct's.
    test : numpy.ndarray of int64
        The places of the topics outside the training set.
    """

    rows: list[dict[str, Any]]
    differences: dict[tuple[str, str], NDArray[np.float64]]
    test: NDArray[np.int64]


@dataclass(frozen=True)
class Methods:
    """The methods over one collection's topics.

    Attributes
    ----------
    pool : CandidatePool
        The collection.
    surface : Surface
        The measures over the grid, of all topics: what Optimal is looked for in.
    pairs : Pairs
        RankNet's.
    lists : Lists
        The surrogates'.
    space : ParameterSpace
        Where all of them look.
    shape : tuple of int
        Direct's grid.
    seed : int
        Of starts.
    """

    pool: CandidatePool
    surface: Surface
    pairs: Pairs
    lists: Lists
    space: ParameterSpace
    shape: tuple[int, ...]
    seed: int

    @classmethod
    def over(
        cls,
        pool: CandidatePool,
        measures: Sequence[Measure],
        shape: tuple[int, ...],
        seed: int,
        space: ParameterSpace | None = None,
    ) -> Methods:
        """Prepare what does not depend on the training topics."""
        objectives = [
            objective_for(parse_objective(f"approx-{measure}"), pool, DEPTH) for measure in measures
        ]
        depth = max(lists_depth(objective, pool, DEPTH) for objective in objectives)
        space = space_for(space, pool)
        surface = Surface.compute(pool, measures, space=space, shape=shape)
        lists = Lists.build(pool, space, depth=depth, seed=seed)
        return cls(pool, surface, Pairs.build(pool), lists, space, shape, seed)

    def direct(self, measure: Measure, train: Sequence[str]) -> Choice:
        """Climb from the grid's best points and from random ones, as ``lmtune tune`` does."""
        begin = time.monotonic()
        grid = GridSearch(measure, space=self.space, shape=self.shape).fit(self.pool, topics=train)
        names = list(grid.best_params_)
        best = grid.results_.sort_values(str(measure), ascending=False, kind="stable")[names].head(_ASCENTS)
        starts = [dict(zip(names, row, strict=True)) for row in best.to_numpy().tolist()]
        ascent = CoordinateAscent(
            measure, space=self.space, starts=starts, restarts=_RESTARTS, seed=self.seed
        ).fit(self.pool, topics=train)
        tried = np.concatenate((grid.results_[names].to_numpy(), ascent.results_[names].to_numpy()))
        seconds = time.monotonic() - begin
        evaluations = len(np.unique(tried, axis=0))
        return Choice(
            ascent, evaluations, evaluations * _scored(self.pool, self.pool.candidates, train), seconds
        )

    def search(self, tuner: Tuner, train: Sequence[str]) -> Choice:
        """Search the space by a tuner that measures settings."""
        return choose(tuner.set_params(space=self.space), self.pool, self.pool.candidates, train)

    def ranknet(self, train: Sequence[str], optimizer: str = "coordinate-descent") -> Choice:
        """Minimise RankNet's cost of judged pairs."""
        tuner = RankNetTuner(space=self.space, optimizer=optimizer, seed=self.seed)
        return choose(tuner, self.pool, self.pairs.columns, train, pairs=self.pairs)

    def surrogate(self, objective: str, alphas: Sequence[float], train: Sequence[str]) -> Choice:
        """Minimise a cost that is free of the scores' scale."""
        tuner = SurrogateTuner(objective, alpha=alphas, space=self.space, seed=self.seed)
        return choose(tuner, self.pool, self.lists.columns, train, lists=self.lists)

    def judged(
        self, measure: Measure, choices: Sequence[Choice], train: NDArray[np.int64], test: NDArray[np.int64]
    ) -> Judged:
        """Measure choices, of which training and test topics are told apart by their places."""
        settings = [choice.tuner.best_params_ for choice in choices]
        values = measure_settings(self.pool, settings, [measure])[:, :, 0]
        rows = [
            {"train": float(by_topic[train].mean()), "test": float(by_topic[test].mean()), **choice.work}
            for choice, by_topic in zip(choices, values.T, strict=True)
        ]
        means = values[test].mean(axis=0)
        [point] = self.surface.best(measure, test)
        on_grid = float(self.surface.means(measure, test)[point])
        if on_grid >= means.max():
            return Judged(rows, values, {**self.surface.setting(point), "test": on_grid})
        return Judged(rows, values, {**settings[int(means.argmax())], "test": float(means.max())})


def continuation(alpha: float) -> tuple[float, ...]:
    """Return the steepnesses that lead to a last one, which come from the default's first."""
    return (ALPHAS[0], alpha) if alpha > ALPHAS[0] else (alpha,)


def compare_on(
    methods: Methods, fitted: Mapping[Measure, Sequence[Fitted]], train: Sequence[str]
) -> Compared:
    """Let every method choose on training topics, and measure the choices on all others.

    Parameters
    ----------
    methods : Methods
        Over the collection.
    fitted : mapping of Measure to sequence of (str, str, tuple of float)
        Each measure's surrogates: a row's name, an objective, its steepnesses.
    train : sequence of str
        Training topics.

    Returns
    -------
    Compared
    """
    pool = methods.pool
    places = pool.positions(train)
    test = np.setdiff1d(pool.positions(), places)
    ranknet = methods.ranknet(train)
    rows, differences = [], {}
    for measure, surrogates in fitted.items():
        chosen = {DIRECT: methods.direct(measure, train), RANKNET: ranknet}
        for name, objective, alphas in surrogates:
            chosen[name] = methods.surrogate(objective, alphas, train)
        _, values, best = judged = methods.judged(measure, [*chosen.values()], places, test)
        for (name, choice), row, by_topic in zip(chosen.items(), judged.rows, values.T, strict=True):
            named = {"measure": str(measure), "method": name, **choice.tuner.best_params_, **row}
            rows.append(named | {"at_edge": ", ".join(choice.tuner.at_edge_)})
            differences[str(measure), name] = by_topic - values[:, 0]
        rows.append({"measure": str(measure), "method": OPTIMAL, **best})
    return Compared(rows, differences, test)


def disjoint_sets(topics: Sequence[str], size: int, fits: int, *, seed: int) -> Iterator[tuple[str, ...]]:
    """Draw training sets: disjoint as long as there are topics, then from all of them anew.

    Parameters
    ----------
    topics : sequence of str
        In the order that each set keeps.
    size : int
        Topics in each set.
    fits : int
        How many sets.
    seed : int
        Of the draws.
    """
    each = len(topics) // size
    for number in range(fits):
        rng = np.random.default_rng([seed, size, number // each])
        order = rng.permutation(len(topics))
        first = number % each * size
        yield tuple(topics[topic] for topic in sorted(order[first : first + size]))


HIDDEN = "hidden weights"
_RANGE = 2.0
# Relevant documents of a topic, and the noise's deviation in that of the scores.
_RELEVANT, _NOISE = 10, 0.5
_LIST_DEPTH = 200


class Evidence(Formula):
    r"""A log-linear mixture of saturated frequencies and of features of the document's length.

    .. math:: \sum_t c_t \frac{tf_t}{tf_t + 1} + \sum_{i=1}^{d} w_i \varphi_i ,

    c the query's counts. Features with an odd number are the terms' evidence, rarer terms counting
    more, saturated at ever higher frequencies; the others are waves in the logarithm of the length.

    Parameters
    ----------
    dimensions : int
        How many weights, 1 or more.
    """

    def __init__(self, dimensions: int) -> None:
        self.name = f"evidence-{dimensions}"
        self.parameters = tuple(
            Parameter(f"w{number + 1}", -_RANGE, _RANGE, "linear", 0.0, "a feature's weight")
            for number in range(dimensions)
        )

    def features(self, topic: TopicDocuments) -> NDArray[np.float64]:
        """Return the features of a topic's documents, shape (weights, documents), from -1 to 1 or so."""
        weight = topic.counts * -np.log(topic.value)
        rarity = (weight / weight.sum())[:, None]
        length = np.log1p(topic.length)
        rows = []
        for number in range(len(self.parameters)):
            order = number // 2
            if number % 2 == 0:
                # Not by BLAS, which may give equal columns other bits.
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
        # Added in order, feature by feature: equal documents get equal bits.
        for weight, feature in zip(setting.tolist(), features, strict=True):
            base = base + weight * feature
        return base, features


def made_up(dataset: str, dimensions: int, seed: int) -> tuple[CandidatePool, NDArray[np.float64]]:
    """Judge a collection's documents by hidden weights with noise.

    Parameters
    ----------
    dataset : str
        Whose documents and topics; its own judgements are not looked at.
    dimensions, seed : int
        Of the formula; of the weights and the noise.

    Returns
    -------
    pool : CandidatePool
        For `Evidence`.
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
    return pool.with_judgements(qrels), hidden


def search(dataset: str, dimensions: int, seed: int, evaluations: int) -> dict[str, list[dict[str, Any]]]:
    """Tune a made-up model on every other topic by each method.

    Parameters
    ----------
    dataset, dimensions, seed
        As of `made_up`.
    evaluations : int
        SPSA's and FDSA's.

    Returns
    -------
    dict
        ``parameters``: a row a method, and one of the hidden weights: AP on training and other topics,
        evaluations, documents scored, seconds.
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
