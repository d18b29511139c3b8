"""Metzler (2007) continued: lambda and mu by the gradients of smooth measures, compared with direct search.

Where RankNet's cost leads over lambda and mu, and what mends it, is told one step after another: every
objective is computed at every setting of a grid, so that nothing but the objective differs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.data import COLLECTION_HELP, index_collection, load_pool, short_name
from experiments.experiment import Claim, Experiment, Statistic, Tables, Unit, figures
from experiments.methods import HIDDEN, Fitted, Methods, compare_on, continuation, disjoint_sets, search
from experiments.pictures import Chart, stacked
from lmtune.candidates.columns import Columns
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.formats.result_folders import file_name
from lmtune.measures.measure import Measure, parse_measure, parse_measures
from lmtune.measures.significance.effects import (
    corrected_resampling,
    equivalence_test,
    mean_interval,
    topics_and_sets,
)
from lmtune.options import option
from lmtune.reporting.figures.style import Picture
from lmtune.reporting.figures.surfaces import SurfacePanel, surface
from lmtune.surrogates.packing_kernels import ByLabel
from lmtune.surrogates.pair_kernels import ranknet_queries
from lmtune.tuning import kernels
from lmtune.tuning.experiment.result import DIRECT, OPTIMAL, RANKNET
from lmtune.tuning.experiment.stored import check_names
from lmtune.tuning.objectives import SurrogateCost, parse_objective
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import FEWEST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEVEL = 0.05
_JUDGED = f"method not in {(DIRECT, OPTIMAL)}"
_BY_SIZE: dict[str, Any] = {"training topics": lambda rows: rows["topics"].astype(str)}
_PARTS = ["train", "test"]
_TABLES = ("fits", "sums", "causes", "surfaces", "parameters")
_BY = ["dataset", "size", "topics", "measure", "method"]


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
"""The objectives, each with what the one before has; the last is another."""

# Bounds of a slope's logarithm: in the corner differences of scores are thousandths.
_LOG_SLOPES = (-5.0, 12.0)
_CLOSE = 0.02


class PairCosts:
    """RankNet's cost of the documents of some columns, with a slope of its own.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    columns : Columns
        Each topic's documents by falling gain.
    rel : int
        The smallest gain that is relevant.
    topics : numpy.ndarray of int64
        Places of topics that have a pair.
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
        """Return the scores at a setting about each topic's mean, shape (topics, most documents).

        They are divided by their standard deviation over the topic's documents where `divided`.
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
        """Return the lowest cost over slopes, in which it is convex, and the slope."""
        from scipy.optimize import minimize_scalar

        optimum = minimize_scalar(
            lambda x: self.cost(scores, float(np.exp(x)), by_topic=by_topic),
            bounds=_LOG_SLOPES,
            method="bounded",
            options={"xatol": _CLOSE},
        )
        return float(optimum.fun), float(np.exp(optimum.x))


def find_causes(methods: Methods, alpha: float) -> dict[str, list[Any]]:
    """Compute the objectives of `STEPS` over the grid, and what measure each one's lowest point has.

    Parameters
    ----------
    methods : Methods
        Over a collection, AP among its surface's measures.
    alpha : float
        The smooth AP's steepness.

    Returns
    -------
    dict
        Rows of tables. ``surfaces``: the parameters, ``AP`` and the costs, a row a setting; ``causes``: a
        row an objective with its best setting, the slope there, the mean there and its share of the best.
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


def over_collections(table: pd.DataFrame, margin: float) -> Iterator[dict[str, Any]]:
    """Take collections as drawn at random: yield a row a measure, method and size of two or more.

    Parameters
    ----------
    table : pandas.DataFrame
        The table ``equivalence``.
    margin : float
        Differences that do not matter.

    Yields
    ------
    dict
        With the mean of the collections' differences, its 90% interval by Student's t, and the p-values
        of `lmtune.measures.significance.effects.equivalence_test`.
    """
    keys = ["measure", "method", "size"]
    for values, rows in table.query(_JUDGED).groupby(keys, sort=False):
        differences = rows["difference"].to_numpy()
        if differences.size < 2:
            continue
        low, high = mean_interval(differences, 0.0, 0.9)
        tested = equivalence_test(differences, 0.0, margin)
        within = int((np.abs(differences) < margin).sum())
        row = dict(zip(keys, values, strict=True)) | {"collections": differences.size, "within": within}
        row |= {"difference": float(differences.mean()), "low": low, "high": high}
        yield row | {"p_not_worse": tested.not_worse, "p_equivalent": tested.equivalent}


def _levels(margin: float) -> Statistic:
    """Compare methods with Direct over collections and sizes."""

    def statistic(tables: Tables) -> pd.DataFrame:
        rows = tables["equivalence"].query(_JUDGED)
        marked = rows["p_value_crossed"] < _LEVEL
        rows = rows.assign(
            near=rows["difference"].abs() < margin,
            equivalent=rows["p_equivalent"] < _LEVEL,
            equivalent_crossed=rows["p_equivalent_crossed"] < _LEVEL,
            below=marked & (rows["difference"] < 0.0),
            above=marked & (rows["difference"] > 0.0),
        )
        groups = rows.groupby(["measure", "method"], sort=False)
        counts = groups[["near", "equivalent", "equivalent_crossed", "below", "above"]].sum()
        return groups["difference"].agg(["size", "mean", "min", "max"]).join(counts)

    return statistic


def _work(tables: Tables) -> pd.DataFrame:
    """Return the range of the methods' work as shares of Direct's."""
    keys, columns = ["dataset", "size", "measure"], ["evaluations", "documents", "seconds"]
    direct = tables["work"].query(f"method == '{DIRECT}'").set_index(keys)[columns]
    others = tables["work"].query(f"method != '{DIRECT}'").set_index([*keys, "method"])[columns]
    groups = others.div(direct).groupby("method", sort=False)
    return groups.min().add_suffix("_from").join(groups.max().add_suffix("_to"))


# Training sets of a piece of work.
_TOGETHER = 5
_CONFIDENCE = 0.9
# What else is called RankNet is the paper's.
_NAMES = {"ranknet": "RankNet over lists"}

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Surrogates(Experiment):
    """Experiment.

    Gradients of smooth measures against direct search for lambda and mu: is the one level with the other.

    Metzler (SIGIR 2007) finds that RankNet does not reach direct search, and asks for a better gradient.
    Here RankNet, cures of it and smooth measures of `lmtune.tuning.surrogate` choose parameters on many
    small disjoint sets of topics beside Direct, and are measured on the topics outside; what they differ
    by is compared with a margin, with tests that allow for the splits' overlap.
    """

    name: ClassVar[str] = "surrogates"
    quick: ClassVar[Mapping[str, Any]] = {
        "topics": 60,
        "measures": ("AP",),
        "sizes": (10, 0),
        "fits": 4,
        "alphas": (8.0,),
        "objectives": ("ranknet",),
        "grid": (6, 8),
        "parameters": (2, 5),
        "draws": 1,
        "evaluations": 40,
    }

    datasets: tuple[str, ...] = option(("pydocs",), f"each of {COLLECTION_HELP}", fewest=1)
    topics: int = option(0, "how many topics, drawn by the seed; 0 for all", low=0)
    measures: tuple[str, ...] = option(
        ("AP", "nDCG@10", "P@10", "Bpref", "RR"), "AP, P@k, Bpref, nDCG@k, RR ...", fewest=1
    )
    sizes: tuple[int, ...] = option(
        (10, 25, 50, 0), "training topics, where they are half of all at most; 0 for half", low=0, fewest=1
    )
    fits: int = option(20, "training sets of each size: disjoint, then drawn anew", low=2)
    alphas: tuple[float, ...] = option(
        (32.0, 4.0, 8.0, 16.0),
        "the smooth AP's last steepness; of other measures, the first",
        low=2,
        fewest=1,
    )
    objectives: tuple[str, ...] = option(
        ("softmax", "ranknet", "song"), "further surrogates, for AP; lambda-ap takes long"
    )
    grid: tuple[int, ...] = option((20, 26), "Direct's points along lambda and mu", low=2, fewest=2)
    margin: float = option(0.002, "differences below it do not matter", above=0)
    parameters: tuple[int, ...] = option((2, 5, 20), "numbers of parameters of made-up models", low=1)
    draws: int = option(5, "made-up models of each number of parameters", low=1)
    made_up: str = option("synthetic:1000x40", "the collection whose documents they rank")
    evaluations: int = option(400, "what SPSA and FDSA may measure on them", low=FEWEST)
    seed: int = option(0, "of topics, training sets and the methods' starts", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._fitted()
        check_names([short_name(dataset) for dataset in self.datasets])

    def units(self) -> list[Unit]:
        """Return units of a few training sets each."""
        units = list(self._units())
        if all(unit.function != self.compare for unit in units):
            accepted = "a size of half of a collection's topics at most"
            raise InputError("no collection is large enough", value=self.sizes, accepted=accepted)
        return units

    def _units(self) -> Iterator[Unit]:
        for dataset in self.datasets:
            topics = index_collection(dataset, topics=self.topics)
            topics = self.topics or topics
            for size in self.sizes:
                train = size or topics // 2
                if not 1 <= train <= topics // 2:
                    continue
                for first in range(0, self.fits, _TOGETHER):
                    key = file_name(f"{short_name(dataset)}-{size or 'half'}-{first}")
                    yield Unit(key, self.compare, {"dataset": dataset, "size": size, "first": first})
            if parse_measure("AP") in self._fitted():
                yield Unit(file_name(f"{short_name(dataset)}-causes"), self.causes, {"dataset": dataset})
        for dimensions in self.parameters:
            for draw in range(self.draws):
                arguments = {"dataset": self.made_up, "dimensions": dimensions}
                arguments |= {"seed": self.seed + draw, "evaluations": self.evaluations}
                yield Unit(f"parameters-{dimensions}-{draw}", search, arguments)

    def compare(self, dataset: str, size: int, first: int) -> dict[str, Any]:
        """Compare the methods over a few training sets.

        Returns
        -------
        dict
            Rows of tables: ``fits``, of `experiments.methods.compare_on` with dataset, size and set;
            ``sums``, by measure and method the sums over the sets of each test topic's difference to
            Direct, and in how many sets a topic was a test topic, ``counts``.
        """
        methods = _methods(dataset, self.topics, tuple(self._fitted()), self.grid, self.seed)
        topics = methods.pool.topics
        train = size or len(topics) // 2
        keys = {"dataset": short_name(dataset), "size": size, "topics": train}
        rows: list[dict[str, Any]] = []
        counts = np.zeros(len(topics), np.int64)
        sums: defaultdict[tuple[str, str], Vector] = defaultdict(lambda: np.zeros(len(topics)))
        sets = disjoint_sets(topics, train, self.fits, seed=self.seed)
        for number, subset in islice(enumerate(sets), first, first + _TOGETHER):
            compared = compare_on(methods, self._fitted(), subset)
            rows += [{**keys, "set": number, **row} for row in compared.rows]
            counts[compared.test] += 1
            for case, values in compared.differences.items():
                sums[case][compared.test] += values[compared.test]
        times = counts.tolist()
        summed = [
            {**keys, "measure": measure, "method": method, "sums": by_topic.tolist(), "counts": times}
            for (measure, method), by_topic in sums.items()
        ]
        return {"fits": rows, "sums": summed}

    def causes(self, dataset: str) -> dict[str, Any]:
        """Compute RankNet's cost, cures of it and the smooth AP over the grid, on all topics.

        Returns
        -------
        dict
            Of `experiments.surrogates.find_causes`, with the dataset.
        """
        methods = _methods(dataset, self.topics, tuple(self._fitted()), self.grid, self.seed)
        tables = find_causes(methods, self.alphas[0])
        return {
            name: [{"dataset": short_name(dataset), **row} for row in rows] for name, rows in tables.items()
        }

    def _fitted(self) -> dict[Measure, list[Fitted]]:
        """Return each measure's surrogates."""
        fitted: dict[Measure, list[Fitted]] = {}
        for measure in parse_measures(self.measures):
            is_ap = measure == parse_measure("AP")
            objective = parse_objective(f"approx-{measure}")
            fitted[measure] = [
                (f"{objective}, alpha {alpha:g}", str(objective), continuation(alpha))
                for alpha in (self.alphas if is_ap else self.alphas[:1])
            ]
            for name in self.objectives if is_ap else ():
                further = str(parse_objective(name))
                row = _NAMES.get(further, further), further, continuation(self.alphas[0])
                fitted[measure].append(row)
        return fitted

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Make the comparison's tables, those of the causes and that of the made-up models.

        ``fits`` has a row a training set, measure and method; ``equivalence`` one a collection, size,
        measure and method, with the difference to Direct on the test topics, its interval and p-values
        by `corrected_resampling`, and by `topics_and_sets` in columns that end in ``_crossed``;
        ``collections`` has the rows of `over_collections`; ``work`` the means of what fits take;
        ``causes`` and ``surfaces`` are those of `find_causes`, by dataset; ``parameters`` has the rows of
        `experiments.methods.search`.
        """
        parts = {key: {name: result.get(name, []) for name in _TABLES} for key, result in results.items()}
        fits, summed, *others = super().tables(parts).values()
        grouped, sums = fits.groupby(_BY, sort=False), summed.groupby(_BY, sort=False)
        work = grouped[["evaluations", "documents", "seconds"]].mean().dropna().reset_index()
        rows = []
        for case, group in grouped:
            direct, method = grouped.get_group((*case[:-1], DIRECT)), case[-1]
            means = {"fits": len(group), "direct": direct["test"].mean(), "test": group["test"].mean()}
            difference = group["test"].to_numpy() - direct["test"].to_numpy()
            row = dict(zip(_BY, case, strict=True)) | means | {"difference": float(difference.mean())}
            if method not in (DIRECT, OPTIMAL) and len(group) > 1:
                row |= self._judged(sums.get_group(case), int(group["topics"].iloc[0]), difference)
            rows.append(row)
        equivalence = pd.DataFrame(rows)
        return {
            "equivalence": equivalence,
            "collections": pd.DataFrame(over_collections(equivalence, self.margin)),
            "work": work,
            "fits": fits,
            **dict(zip(_TABLES[2:], others, strict=True)),
        }

    def _judged(self, summed: pd.DataFrame, train: int, difference: Vector) -> dict[str, float]:
        """Return p-values and intervals of a method's differences to Direct."""
        counts, sums = (np.sum(summed[column].tolist(), axis=0) for column in ("counts", "sums"))
        topics = counts.size
        estimates = {
            "": corrected_resampling(difference, train=train, test=topics - train),
            "_crossed": topics_and_sets(
                difference, sums[counts > 0] / counts[counts > 0], independent=topics // train
            ),
        }
        judged: dict[str, float] = {}
        for suffix, estimate in estimates.items():
            low, high = estimate.interval(_CONFIDENCE)
            both = estimate.equivalence(self.margin)
            judged |= {f"low{suffix}": low, f"high{suffix}": high, f"p_value{suffix}": estimate.p_value}
            judged |= {f"p_not_worse{suffix}": both.not_worse, f"p_equivalent{suffix}": both.equivalent}
        return judged

    def pictures(self, tables: Tables) -> list[Picture]:
        """Draw each method's difference to Direct by size, and where each objective leads."""
        drawn, margin = [], self.margin
        for measure, rows in tables["equivalence"].query(_JUDGED).groupby("measure", sort=False):
            title = f"{parse_measure(str(measure)).title} on test topics, minus Direct's"
            rows = rows.rename(columns={"difference": title}).assign(**_BY_SIZE)
            chart = Chart("training topics", title, "method", "dataset", "low_crossed", "high_crossed")
            chart = replace(chart, dots=True, symlog=5.0 * margin, levels={"": (-margin, 0.0, margin)})
            drawn.append(chart.draw(rows, f"differences-{file_name(str(measure))}", title))
        if len(tables["causes"]):
            below = "MAP below the grid's best, %"
            steps = tables["causes"].assign(**{below: lambda row: 100.0 * (1.0 - row["AP"] / row["best"])})
            caption = "RankNet's cost mended step by step"
            drawn.append(Chart("objective", below, "dataset").draw(steps, "causes", caption))
            title = "MAP, RankNet's cost and the smooth AP over lambda and mu"
            for dataset, rows in tables["surfaces"].groupby("dataset", sort=False):
                name = f"surfaces-{file_name(str(dataset))}"
                drawn.append(Picture(name, title, cost_surfaces(rows), str(dataset)))
        return [*drawn, *([_on_made_up(tables["parameters"])] if len(tables["parameters"]) else [])]

    def claims(self) -> Sequence[Claim]:
        """Return which methods are level with Direct, where, what they take, and why."""
        near = f"differences below {self.margin:g} do not matter"
        return (
            Claim(f"Minus Direct by collection and size; {near}", _levels(self.margin)),
            Claim(
                f"Minus Direct over collections, by training topics, 0 for half; {near}",
                figures("collections", "measure method size", "difference low high p_equivalent collections"),
            ),
            Claim("Work, of Direct's", _work),
            Claim(
                "MAP where each objective is lowest over the grid, and the best",
                figures("causes", "dataset objective", "AP best lambda mu at_edge"),
            ),
            Claim(
                "MAP on made-up models, by parameters",
                figures("parameters", "parameters method", "train test evaluations", "mean"),
            ),
        )


@lru_cache(maxsize=2)
def _methods(
    dataset: str, topics: int, measures: tuple[Measure, ...], grid: tuple[int, ...], seed: int
) -> Methods:
    return Methods.over(load_pool(dataset, topics=topics, seed=seed), measures, grid, seed)


def cost_surfaces(table: pd.DataFrame) -> Figure:
    """Draw MAP, RankNet's cost and the smooth AP over the parameters, with their best points.

    Parameters
    ----------
    table : pandas.DataFrame
        Rows of the table ``surfaces`` of one collection.

    Returns
    -------
    matplotlib.figure.Figure
        Of RankNet its lowest cost over its cost, so that higher is better on all panels; each best
        point is drawn on its own panel, RankNet's and Direct's on the other's too.
    """
    settings = list(zip(table["lambda"], table["mu"], strict=True))
    direct = {DIRECT: settings[int(table["AP"].argmax())]}
    ranknet = {RANKNET: settings[int(table[PAIRS].argmin())]}
    smooth = {SMOOTH: settings[int(table[SMOOTH].argmin())]}
    x, y = table["lambda"], table["mu"]
    panels = [
        SurfacePanel("MAP", x, y, table["AP"], points={**ranknet, **direct}),
        SurfacePanel(RANKNET, x, y, table[PAIRS].min() / table[PAIRS], points={**direct, **ranknet}),
        SurfacePanel(SMOOTH, x, y, -table[SMOOTH], points={**ranknet, **smooth}),
    ]
    return surface(panels, measure="each objective", title=str(table["dataset"].iloc[0]))


def _on_made_up(table: pd.DataFrame) -> Picture:
    """Draw the measure reached on made-up models, and evaluations, from the table ``parameters``."""
    keys = ["parameters", "method"]
    means = table.groupby(keys, sort=False).mean(numeric_only=True).reset_index()
    hidden = means[means["method"] == HIDDEN].set_index("parameters")
    rest = means[means["method"] != HIDDEN].copy()
    rest[_PARTS] -= hidden.loc[rest["parameters"], _PARTS].to_numpy()
    titles = {"train": "MAP minus the hidden weights'", "test": "the same, other topics"}
    levels = dict.fromkeys(titles.values(), (0.0,))
    rest = stacked(rest, keys, titles | {"evaluations": "evaluations"})
    chart = Chart("parameters", line="method", panel="panel", levels=levels)
    return chart.draw(rest, "parameters", "MAP on made-up models as parameters grow in number")
