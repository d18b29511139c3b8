"""What a setting fitted on some topics loses on others, cut in two: by the search, and because these are few.

A certificate says how far from the best of its training topics a setting is; the rest of its loss is because
these are few. Settings that are chosen in other ways than by the highest mean are array arithmetic on one
table, the measure of all topics at all settings of a grid. The protocol is docs/protocols/estimation.md.
`Power` says how many topics tell two settings apart: the difference that a paired t-test sees of so many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.data import COLLECTION_HELP, index_collection, load_pool, short_name
from experiments.experiment import Claim, Experiment, Tables, Unit, figures
from experiments.methods import Methods, disjoint_sets
from experiments.pictures import Chart
from lmtune.errors import InputError
from lmtune.formats.result_folders import file_name
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.effects import (
    LEVEL,
    POWER,
    detectable_difference,
    equivalence_test,
    mean_interval,
    topics_and_sets,
)
from lmtune.measures.significance.tests import FEWEST
from lmtune.options import option
from lmtune.reporting.comparison_tables import DASH, signed
from lmtune.reporting.figures.style import Picture
from lmtune.reporting.table import Cell, Table, short
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.experiment.result import APPROX, DEFAULT, DIRECT, RANKNET
from lmtune.tuning.experiment.stored import check_names
from lmtune.tuning.grid import Surface
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import ALPHAS

Vector = NDArray[np.float64]
Places = NDArray[np.int64]

OPTIMUM = "optimum"
STRENGTHS = (math.inf, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.0)
"""Of the pull to the default; the largest is the default itself."""

_TOGETHER, _FEWEST = 5, 20
_FEW, _BAGS = 10, 100
_CONFIDENCE = 0.9
_KEYS = ["collection", "model", "size", "set"]
_CELL = ["model", "size", "method"]
_FIGURES = ["train", "test", "optimisation", "unproven", "below", "above", "part"]
_REFERENCES = ("below", "above")
_OF_DIRECT, _TIMES = f"method == '{DIRECT}'", 10.0


class Grid(NamedTuple):
    """A measure of every topic at settings, of which the last is the default.

    Attributes
    ----------
    space : ParameterSpace
        Where the settings lie.
    settings : numpy.ndarray of float64, shape (settings, parameters)
    values : numpy.ndarray of float64, shape (topics, settings)
    """

    space: ParameterSpace
    settings: Vector
    values: Vector

    @property
    def points(self) -> Vector:
        """The settings in unbounded coordinates."""
        return np.array([self.space.to_unbounded(one) for one in self.settings])

    def choices(self, topics: Places, rng: np.random.Generator) -> dict[str, Vector]:
        """Choose settings by some topics' values alone, by the name of the method."""
        values, points = self.values[topics], self.points
        means = values[:, :-1].mean(axis=0)
        ten = rng.choice(means.size, min(_FEW, means.size), replace=False)
        width = np.ptp(self.space.unbounded_box, axis=1)
        distance = (((points - points[-1]) / np.where(width > 0.0, width, 1.0)) ** 2).sum(axis=1)
        drawn = {
            "near": near(values[:, :-1]),
            "bagged": bagged(values[:, :-1], rng),
            "bayes": bayesian(values[:, :-1], rng.spawn(1)[0]),
        }
        averages = {name: points[:-1][own].mean(axis=0) for name, own in drawn.items()}
        return {
            DEFAULT: self.settings[-1],
            "grid": self.settings[means.argmax()],
            "ten": self.settings[ten[means[ten].argmax()]],
            "shrunk": self.settings[shrunk(values, distance)],
            **{name: self.space.from_unbounded(own) for name, own in averages.items()},
        }


def shrunk(values: Vector, distance: Vector) -> int:
    """Choose the best mean minus a strength times a squared distance, the strength by leaving topics out.

    Parameters
    ----------
    values : numpy.ndarray, shape (topics, settings)
        Of two topics or more.
    distance : numpy.ndarray, shape (settings,)
        From a setting that is among them.

    Returns
    -------
    int
        The setting's place; of equally good strengths of `STRENGTHS` the largest counts.
    """
    topics = len(values)
    others = (values.sum(axis=0) - values) / (topics - 1)

    def chosen(means: Vector, strength: float) -> Any:
        # Infinity times 0 is no number.
        return np.argmax(means - np.where(distance > 0.0, strength, 0.0) * distance, axis=-1)

    held_out = [values[np.arange(topics), chosen(others, strength)].mean() for strength in STRENGTHS]
    return int(chosen(values.mean(axis=0), STRENGTHS[int(np.argmax(held_out))]))


def near(values: Vector) -> NDArray[np.bool_]:
    """Say which settings, of values (topics, settings), are within a standard error of the best, paired."""
    losses = values[:, [values.mean(axis=0).argmax()]] - values
    close: NDArray[np.bool_] = losses.mean(axis=0) <= losses.std(axis=0, ddof=1) / math.sqrt(len(values))
    return close


def bagged(values: Vector, rng: np.random.Generator) -> Places:
    """Return the best settings of bootstrap samples of topics, given values of (topics, settings)."""
    counts = rng.multinomial(len(values), np.full(len(values), 1.0 / len(values)), size=_BAGS)
    return _best_by(counts.astype(np.float64), values)


def bayesian(values: Vector, rng: np.random.Generator) -> Places:
    """Return the best settings of draws from the posterior of topics: the Bayesian bootstrap's weights.

    Rubin, The Bayesian bootstrap, Annals of Statistics 9, 1981: shares of topics evenly from the simplex.
    """
    return _best_by(rng.dirichlet(np.ones(len(values)), size=_BAGS), values)


def _best_by(weights: Vector, values: Vector) -> Places:
    # Not by BLAS, whose bits depend on threads.
    best: Places = np.einsum("bt,ts->bs", weights, values).argmax(axis=1)
    return best


def crossed_halves(values: Vector, topics: Places, rng: np.random.Generator) -> Vector:
    """Return each topic's value at the best setting of the half of topics that it is not in.

    Parameters
    ----------
    values : numpy.ndarray, shape (all topics, settings)
    topics : numpy.ndarray of int64
        Places; the result has their order.
    rng : numpy.random.Generator
        Cuts them in two.
    """
    found = np.empty(topics.size)
    first = np.zeros(topics.size, np.bool_)
    first[rng.permutation(topics.size)[: topics.size // 2]] = True
    for half in (first, ~first):
        found[half] = values[topics[half], values[topics[~half]].mean(axis=0).argmax()]
    return found


def decompose(by_topic: Mapping[str, Vector], train: Places, test: Places) -> dict[str, dict[str, float]]:
    """Cut methods' losses in two.

    Parameters
    ----------
    by_topic : mapping of str to numpy.ndarray, shape (all topics,)
        By method the measure at its choice, that of the training topics' best, `OPTIMUM`, among them.
    train, test : numpy.ndarray of int64
        Places of topics.

    Returns
    -------
    dict
        By method: means ``train`` and ``test``; ``optimisation``, what it misses on the training topics; and
        ``part``, what it loses to the optimum on the test topics.
    """
    means = {name: (float(own[train].mean()), float(own[test].mean())) for name, own in by_topic.items()}
    top = means[OPTIMUM]
    return {
        name: {"train": own[0], "test": own[1], "optimisation": top[0] - own[0], "part": top[1] - own[1]}
        for name, own in means.items()
    }


@dataclass(frozen=True)
class Estimation(Experiment):
    """Experiment.

    What fitted settings lose on other topics: by the search, or because few topics were there.

    The loss of each method is cut in two by a certified optimum of its training topics: how far from that it
    is, and what even the optimum loses. See docs/protocols/estimation.md.
    """

    name: ClassVar[str] = "estimation"
    quick: ClassVar[Mapping[str, Any]] = {
        "models": ("bm25",),
        "sizes": (5, 10),
        "draws": 4,
        "grid": (8, 8),
        "topics": 60,
    }

    datasets: tuple[str, ...] = option(("pydocs",), f"each of {COLLECTION_HELP}", fewest=1)
    models: tuple[str, ...] = option(
        ("bm25", "two-stage"), "whose parameters", choices=("bm25", "two-stage"), fewest=1
    )
    measure: str = option("AP", "AP, P@k, nDCG@k ")
    sizes: tuple[int, ...] = option(
        (5, 10, 25, 50, 100, 200), f"training topics, where {_FEWEST} others are left", low=2, fewest=1
    )
    draws: int = option(20, "training sets of each size: disjoint, then drawn anew", low=2)
    tolerance: float = option(0.001, "of the certificate; 0 for none, the best known stands for it", low=0)
    grid: tuple[int, ...] = option((20, 26), "points along the parameters", low=2, fewest=2)
    margin: float = option(0.005, "differences below it do not matter", above=0)
    topics: int = option(0, "how many topics, drawn by the seed; 0 for all", low=0)
    seed: int = option(0, "of topics, training sets and the methods' starts", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_measure(self.measure)
        check_names([short_name(dataset) for dataset in self.datasets])

    def units(self) -> list[Unit]:
        """Return units of a few training sets each."""
        units = list(self._units())
        if not units:
            accepted = f"a size that leaves {_FEWEST} topics of a collection"
            raise InputError("no collection is large enough", value=self.sizes, accepted=accepted)
        return units

    def _units(self) -> Iterator[Unit]:
        for dataset in self.datasets:
            topics = index_collection(dataset, topics=self.topics)
            for model in self.models:
                for size in self.sizes:
                    if size > (self.topics or topics) - _FEWEST:
                        continue
                    for first in range(0, self.draws, _TOGETHER):
                        key = file_name(f"{short_name(dataset)}-{model}-{size}-{first}")
                        arguments = {"dataset": dataset, "model": model, "size": size, "first": first}
                        yield Unit(key, self.examine, arguments)

    def examine(self, dataset: str, model: str, size: int, first: int) -> dict[str, Any]:
        """Fit by every method on a few training sets, and cut the losses.

        Returns
        -------
        dict
            Rows of tables: ``fits``, a row a set and method; ``sums``, by method the sums over the sets of
            each test topic's loss to the optimum, of references the gain, and how many sets, ``counts``.
        """
        methods, grid = _prepared(dataset, model, self.topics, self.measure, self.grid, self.seed)
        topics = methods.pool.topics
        rows: list[dict[str, Any]] = []
        counts, sums = np.zeros(len(topics), np.int64), dict[str, Vector]()
        sets = disjoint_sets(topics, size, self.draws, seed=self.seed)
        for number, subset in islice(enumerate(sets), first, first + _TOGETHER):
            train = methods.pool.positions(subset)
            test = np.setdiff1d(methods.pool.positions(), train)
            rng = np.random.default_rng([self.seed, size, number])
            settings, by_topic, bound = self._fitted(methods, grid, subset, rng)
            parts = decompose(by_topic, train, test)
            best = [*by_topic.values(), grid.values[:, grid.values[test].mean(axis=0).argmax()]]
            above = max(best, key=lambda own: float(own[test].mean()))[test]
            references = {"below": crossed_halves(grid.values, test, rng), "above": above}
            held_out = parts[OPTIMUM]["test"]
            common = {name: float(own.mean()) - held_out for name, own in references.items()}
            common["unproven"] = bound - parts[OPTIMUM]["train"]
            keys = dict(zip(_KEYS, (short_name(dataset), model, size, number), strict=True))
            rows += [
                {**keys, "method": name, **methods.space.named(settings[name]), **part, **common}
                for name, part in parts.items()
            ]
            counts[test] += 1
            optimum = by_topic[OPTIMUM][test]
            gains = {name: own - optimum for name, own in references.items()}
            for name, own in (gains | {name: optimum - own[test] for name, own in by_topic.items()}).items():
                sums.setdefault(name, np.zeros(len(topics)))[test] += own
        cell = dict(zip(_KEYS[:3], (short_name(dataset), model, size), strict=True))
        summed = [
            {**cell, "method": name, "sums": own.tolist(), "counts": counts.tolist()}
            for name, own in sums.items()
        ]
        return {"fits": rows, "sums": summed}

    def _fitted(
        self, methods: Methods, grid: Grid, subset: Sequence[str], rng: np.random.Generator
    ) -> tuple[dict[str, Vector], dict[str, Vector], float]:
        """Return settings and topics' values by method, and a bound of the mean on the training topics."""
        pool, space, measure = methods.pool, methods.space, parse_measure(self.measure)
        train = pool.positions(subset)
        fits = {
            DIRECT: methods.direct(measure, subset),
            APPROX: methods.surrogate(f"approx-{measure}", ALPHAS, subset),
            "softmax": methods.surrogate("softmax", ALPHAS[:1], subset),
            RANKNET: methods.ranknet(subset),
        }
        settings = grid.choices(train, rng)
        settings |= {name: space.vector(choice.tuner.best_params_) for name, choice in fits.items()}
        bound, tried = math.nan, list(settings.values())
        if self.tolerance:
            starts = [space.named(own) for own in tried]
            proven = CertifiedOptimum(measure, tolerance=self.tolerance, space=space, starts=starts)
            bound = proven.fit(pool, topics=subset).bound_
            tried.insert(0, space.vector(proven.best_params_))
        values = measure_settings(pool, np.array(tried), [measure])[:, :, 0].T
        means = [float(own[train].mean()) for own in values]
        best = int(np.argmax(means))
        by_topic = dict(zip(settings, values[-len(settings) :], strict=True))
        return (
            {OPTIMUM: tried[best], **settings},
            {OPTIMUM: values[best], **by_topic},
            max(bound, means[best]),
        )

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Make ``answer``, means over collections; ``cells``, each collection's; ``fits``, by training set.

        In ``cells``, ``low`` and ``high`` are the ends of the 90% interval of ``part``, or of the estimation
        gap in the rows ``below`` and ``above``, with topics and training sets as drawn at random.
        """
        fits, summed = super().tables(results).values()
        cells = pd.DataFrame(_cells(fits, summed))
        return {"answer": pd.DataFrame(_answer(cells, self.margin)), "cells": cells, "fits": fits}

    def table(self, tables: Tables) -> Table:
        """Lay the answer out: by model and size a row a method, the estimation gap in the first."""
        groups = []
        for (model, size), rows in tables["answer"].groupby(_CELL[:2], sort=False):
            gap = rows.iloc[0]
            head = [str(model), str(size), f"{short(gap['below'])} to {short(gap['above'])}"]
            groups.append(
                [
                    [*(Cell(text, repeated=number > 0) for text in head), *_row(row)]
                    for number, row in enumerate(rows.to_dict("records"))
                ]
            )
        names = ["Model", "Topics", "Estimation gap", "Method"]
        figures = "training", "held out", "optimisation gap", "lost to the optimum, held out", "90%"
        caption = f"{parse_measure(self.measure).title}: what is lost by searching, and by few topics"
        legend = "Means over collections and training sets; intervals by Student's t over collections"
        return Table.of(names, figures, groups, caption, legend)

    def pictures(self, tables: Tables) -> list[Picture]:
        """Draw both gaps by the number of training topics, and what methods lose to the optimum."""
        answer = tables["answer"].assign(size=lambda rows: rows["size"].astype(str))
        answer = answer.rename(columns={"size": "training topics", "model": "panel"})
        title = parse_measure(self.measure).title
        gap, lost = f"{title} lost on average", f"held-out {title} minus the optimum's"
        lines = {"few topics, at most": (DIRECT, "above"), "few topics, at least": (DIRECT, "below")}
        lines |= {f"the search, {method}": (method, "optimisation") for method in (DIRECT, APPROX)}
        parts = [
            own.assign(line=line, **{gap: own[column]})
            for line, (method, column) in lines.items()
            for own in [answer[answer["method"] == method]]
        ]
        gaps = Chart("training topics", gap, "line", "panel", levels={"": (0.0,)}, same=True, symlog=1e-3)
        answer = answer[~answer["method"].isin([OPTIMUM, RANKNET])]
        answer = answer.assign(**{lost: -answer["part"], "from": -answer["high"], "to": -answer["low"]})
        margins = {"": (-self.margin, 0.0, self.margin)}
        losses = Chart("training topics", lost, "method", "panel", "from", "to", dots=True, levels=margins)
        return [
            gaps.draw(pd.concat(parts), "estimation", "What is lost by few topics, and by searching"),
            losses.draw(answer, "methods", "Methods against the certified optimum of the training topics"),
        ]

    def claims(self) -> Sequence[Claim]:
        """Claim that the estimation gap is ten times the optimisation gap, and tell the methods' parts."""
        return (
            Claim(
                f"{DIRECT}: the estimation gap, from below, is ten times the optimisation gap",
                figures("answer", "model size", "below above optimisation unproven", where=_OF_DIRECT),
                lambda rows: rows["below"] >= _TIMES * rows["optimisation"],
            ),
            Claim(
                "Lost to the optimum", figures("answer", "model size method", "part low high p_equivalent")
            ),
        )


def _row(row: Mapping[Any, Any]) -> list[str]:
    """Return the cells of a method."""
    interval = DASH if math.isnan(row["low"]) else f"{signed(row['low'])} to {signed(row['high'])}"
    means = map(short, (row["train"], row["test"], row["optimisation"]))
    return [str(row["method"]), *means, signed(row["part"]), interval]


def _cells(fits: pd.DataFrame, summed: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield a row a collection, model, size and method or reference: means, the interval of ``part``."""
    for keys, group in summed.groupby([*_KEYS[:3], "method"], sort=False):
        *cell, method = keys
        own = (fits[_KEYS[:3]] == cell).all(axis=1)
        rows = fits[own & (fits["method"] == (OPTIMUM if method in _REFERENCES else method))]
        by_set = rows[method if method in _REFERENCES else "part"].to_numpy()
        sums, counts = (np.sum(group[column].tolist(), axis=0) for column in ("sums", "counts"))
        seen = counts > 0
        independent = max(counts.size // int(rows["size"].iloc[0]), 1)
        estimate = topics_and_sets(by_set, sums[seen] / counts[seen], independent=independent)
        low, high = estimate.interval(_CONFIDENCE)
        means = {name: float(rows[name].mean()) for name in _FIGURES} | {"part": estimate.mean}
        yield dict(zip([*_KEYS[:3], "method"], keys, strict=True)) | means | {"low": low, "high": high}


def _answer(cells: pd.DataFrame, margin: float) -> Iterator[dict[str, Any]]:
    """Yield a row a model, size and method: means over collections, with Student's t over these."""
    for case, rows in cells[~cells["method"].isin(_REFERENCES)].groupby(_CELL, sort=False):
        parts, (low, high), equivalent = rows["part"].to_numpy(), (math.nan, math.nan), math.nan
        if parts.size > 1:
            low, high = mean_interval(parts, 0.0, _CONFIDENCE)
            equivalent = equivalence_test(parts, 0.0, margin).equivalent
        means = {name: float(rows[name].mean()) for name in _FIGURES}
        tested = {"low": low, "high": high, "p_equivalent": equivalent, "collections": parts.size}
        yield dict(zip(_CELL, case, strict=True)) | means | tested


@lru_cache(maxsize=2)
def _prepared(
    dataset: str, model: str, topics: int, measure: str, shape: tuple[int, ...], seed: int
) -> tuple[Methods, Grid]:
    """Return what does not depend on training topics."""
    pool = load_pool(dataset, model=model, topics=topics, seed=seed)
    what = parse_measure(measure)
    methods = Methods.over(pool, [what], shape, seed)
    default = methods.space.vector({})
    values = measure_settings(pool, default[None], [what])[:, :, 0]
    settings = np.concatenate([methods.surface.settings, default[None]])
    return methods, Grid(methods.space, settings, np.hstack([methods.surface.values[:, :, 0], values]))


_SAMPLES = 4000
_MODELS = "bm25", "two-stage"


@dataclass(frozen=True)
class Power(Experiment):
    """Experiment.

    How many topics tell two settings apart, and two models.

    Differences of topics' values, between the defaults of two models, the default and the best setting of all
    topics, and neighbours on a grid, say what a paired t-test of so many topics sees in four of five cases.
    Whether it does is tried on topics drawn with replacement, their differences shifted to that mean.
    """

    name: ClassVar[str] = "power"
    quick: ClassVar[Mapping[str, Any]] = {"topics": 60, "sizes": (10, 50), "grid": (8, 8)}

    datasets: tuple[str, ...] = option(("pydocs",), f"each of {COLLECTION_HELP}", fewest=1)
    measure: str = option("AP", "AP, P@k, nDCG@k ")
    sizes: tuple[int, ...] = option((10, 25, 50, 100, 250, 1000), "numbers of topics", low=FEWEST, fewest=1)
    grid: tuple[int, ...] = option((20, 26), "points along the parameters", low=2, fewest=2)
    topics: int = option(0, "how many topics, drawn by the seed; 0 for all", low=0)
    seed: int = option(0, "of topics, and of what is drawn of them", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_measure(self.measure)
        check_names([short_name(dataset) for dataset in self.datasets])

    def units(self) -> list[Unit]:
        """Return a unit a collection."""
        for dataset in self.datasets:
            index_collection(dataset, topics=self.topics)
        return [
            Unit(file_name(short_name(dataset)), self.examine, {"dataset": dataset})
            for dataset in self.datasets
        ]

    def examine(self, dataset: str) -> dict[str, Any]:
        """Return rows of ``seen``: collection, pair, topics, what of them is seen, and how often it was."""
        rng, rows = np.random.default_rng(self.seed), []
        for pair, differences in self._pairs(dataset):
            deviation = float(differences.std(ddof=1))
            said = {"collection": short_name(dataset), "pair": pair, "difference": float(differences.mean())}
            for size in self.sizes:
                least = detectable_difference(deviation, size)
                row = {"deviation": deviation, "size": size, "seen_from": least}
                rows.append({**said, **row, "found": found_share(differences, size, least, rng)})
        return {"seen": rows}

    def _pairs(self, dataset: str) -> Iterator[tuple[str, Vector]]:
        """Yield names of pairs and topics' differences."""
        measure, defaults = parse_measure(self.measure), {}
        for model in _MODELS:
            pool = load_pool(dataset, model=model, topics=self.topics, seed=self.seed)
            space = ParameterSpace.of(pool.formula)
            values = Surface.compute(pool, [measure], space=space, shape=self.grid).values[:, :, 0]
            defaults[model] = measure_settings(pool, space.vector({})[None], [measure])[:, 0, 0]
            yield f"{model}: best, default", values[:, values.mean(axis=0).argmax()] - defaults[model]
            square = values.reshape(len(values), *self.grid)
            for axis, name in enumerate(space.names, 1):
                steps = np.diff(square, axis=axis).reshape(len(values), -1)
                spread = steps.std(axis=0)
                # The one in the middle stands for all.
                yield f"{model}: a step of {name}", steps[:, np.argsort(spread)[spread.size // 2]]
        first, second = _MODELS
        yield f"{first}, {second}: defaults", defaults[first] - defaults[second]

    def pictures(self, tables: Tables) -> list[Picture]:
        """Draw what is seen by the number of topics."""
        title = f"difference in {parse_measure(self.measure).title} seen in {POWER:.0%} of cases"
        seen = tables["seen"].rename(columns={"size": "topics", "seen_from": title})
        caption = f"What a paired t-test at {LEVEL:g} sees, by the number of topics"
        return [Chart("topics", title, "pair", "collection", same=True).draw(seen, "power", caption)]

    def claims(self) -> Sequence[Claim]:
        """Tell what is seen."""
        shown = "difference deviation seen_from found"
        return (Claim("Seen in four of five cases from", figures("seen", "collection pair size", shown)),)


def found_share(differences: Vector, size: int, mean: float, rng: np.random.Generator) -> float:
    """Return how often a paired t-test finds a mean in topics that are drawn with replacement.

    Parameters
    ----------
    differences : numpy.ndarray of float64, shape (topics,)
        Shifted to that mean.
    size : int
        Topics in a sample.
    mean : float
    rng : numpy.random.Generator
        Draws the samples.
    """
    from scipy.special import stdtrit

    shifted = differences - differences.mean() + mean
    critical = float(stdtrit(size - 1, 1.0 - LEVEL / 2.0)) / math.sqrt(size)
    found = 0
    for _ in range(_SAMPLES):
        drawn = shifted[rng.integers(shifted.size, size=size)]
        found += bool(abs(drawn.mean()) > critical * drawn.std(ddof=1))
    return found / _SAMPLES
