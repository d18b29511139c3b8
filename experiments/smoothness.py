"""How smooth a measure is in the parameters of a model, and in the weights of a network.

Either is taken along lines through the best point, on nested samples of topics or queries: whole lines, and a
section about the point in finer steps (`MapSmoothness` and `Smoothness`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.data import COLLECTION_HELP, HELP, index_collection, load_pool, short_name
from experiments.experiment import Claim, Experiment, Statistic, Tables, Unit, figures
from experiments.landscape import jump_noise, roughness
from experiments.networks import FlatNetwork, NetExperiment, NetworkMeasure, odd
from experiments.pictures import VALUE, Chart, stacked
from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure, parse_measure, parse_measures
from lmtune.options import option
from lmtune.reporting.figures.style import Picture
from lmtune.reporting.result_folder import file_name
from lmtune.tuning.grid import Surface
from lmtune.tuning.space import ParameterSpace

LAMBDA, MU = "lambda", "mu"
COLUMN = "topics_"
"""Columns of the table ``curves`` begin with it; the number of topics follows."""

# Every so many points of a line, where they go into it.
_STRIDES = (1, 2, 5, 10, 25, 50)
_GRID = (20, 26)
_SECTIONS = {"whole": "", "zoom": ", blown up", "section": ", blown up"}


def power(table: str, case: str, x: str, y: str, where: str) -> Statistic:
    """Fit y as x to a power, case by case, to the medians at each x."""

    def statistic(tables: Tables) -> pd.DataFrame:
        powers = {}
        for keys, rows in tables[table].query(where).groupby(case.split(), sort=False):
            medians = rows.groupby(x)[y].median()
            if len(medians) > 1:
                powers[keys] = np.polyfit(np.log(medians.index), np.log(medians), 1)[0]
        return pd.DataFrame({"power": powers})

    return statistic


def mean(values: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Average topics, in the pool's order, so that equal sets of topics give equal bits."""
    averaged: NDArray[np.float64] = values[np.sort(places)].mean(axis=0)
    return averaged


def positions(
    space: ParameterSpace, line: str, at: Mapping[str, float], points: int, inside: int, zoom: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a line's positions, evenly spaced in lambda or log mu, and a section's."""
    bounds = space.ranges[line]
    low, high, here = bounds[0], bounds[1], at[line]
    if line == MU:
        low, high, here = np.log([low, high, here])
    whole = np.linspace(low, high, points)
    half = 0.5 * zoom * (high - low)
    begin = min(max(here - half, low), high - 2.0 * half)
    section = np.linspace(begin, begin + 2.0 * half, inside)
    if line == LAMBDA:
        return whole.clip(*bounds), section
    return np.exp(whole).clip(*bounds), np.exp(section).clip(*bounds)


def along(
    pool: CandidatePool, measure: Measure, line: str, at: Mapping[str, float], position: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Measure every topic along a line, shape (topics, positions)."""
    settings = [{**at, line: value} for value in position.tolist()]
    return measure_settings(pool, settings, [measure])[:, :, 0]


@dataclass(frozen=True)
class MapSmoothness(Experiment):
    """Experiment.

    How many topics make MAP, or another measure, smooth in lambda and log mu.

    For one topic a measure is a step function of the parameters. Its mean over n topics has n times as
    many steps, each 1/n as high, so that the total variation at the finest scale need not fall: what
    topics smooth is the curve at a given step. Roughness is therefore measured at several steps.
    """

    name: ClassVar[str] = "map-smoothness"
    quick: ClassVar[Mapping[str, Any]] = {
        "measures": ("AP",),
        "topics": (10, 100, 1000),
        "samples": 5,
        "points": 191,
        "zoom_points": 101,
    }

    dataset: str = option("pydocs", COLLECTION_HELP)
    measures: tuple[str, ...] = option(("AP", "Bpref", "p@10"), "AP, P@k, Bpref, nDCG@k ...")
    topics: tuple[int, ...] = option(
        (10, 30, 100, 300, 1000), "numbers of topics; all of them are always among them", low=1, fewest=1
    )
    samples: int = option(20, "samples of each number of topics", low=1)
    points: int = option(951, "points along each parameter; 951 are steps of .001 in lambda", low=3)
    zoom_points: int = option(301, "points of the blown-up section", low=3)
    zoom: float = option(0.02, "how much of the range is blown up", above=0, high=1)
    smooth: float = option(
        0.1, "called smooth: up and down by this share more than one hill", above=0, high=1
    )
    seed: int = option(0, "of the samples", low=0)

    def units(self) -> list[Unit]:
        """Return a unit a measure."""
        measures = parse_measures(self.measures)
        available = index_collection(self.dataset)
        sizes = [*sorted({size for size in self.topics if size < available}), available]
        return [
            Unit(file_name(str(measure)), self.measure_lines, {"measure": measure, "sizes": sizes})
            for measure in measures
        ]

    def measure_lines(self, measure: Measure, sizes: Sequence[int]) -> dict[str, Any]:
        """Measure along lambda and along log mu through the best grid point of all topics.

        Parameters
        ----------
        measure : Measure
            What to measure.
        sizes : sequence of int
            Numbers of topics, ascending; the last is that of all topics. The samples of one number
            are nested: each holds the smaller ones.

        Returns
        -------
        dict
            Rows of the tables ``best``, ``curves`` and ``single``, and of ``roughness`` a row a sample.
        """
        pool = load_pool(self.dataset)
        space = ParameterSpace.of()
        surface = Surface.compute(pool, [measure], space=space, shape=_GRID)
        best = surface.best(measure, pool.positions())[0]
        at = surface.setting(best)
        rng = np.random.default_rng(self.seed)
        orders = [rng.permutation(len(pool.topics)) for _ in range(self.samples)]
        strides = [stride for stride in _STRIDES if (self.points - 1) % stride == 0]
        curves, rough, single = [], [], []
        for line in (LAMBDA, MU):
            keys = {"measure": str(measure), "line": line}
            steps = {stride: stride * (_width(line) / (self.points - 1)) for stride in strides}
            sections = positions(space, line, at, self.points, self.zoom_points, self.zoom)
            values = [along(pool, measure, line, at, position) for position in sections]
            for part, position, topics in zip(("whole", "section"), sections, values, strict=True):
                means = {f"{COLUMN}{size}": mean(topics, orders[0][:size]) for size in sizes}
                drawn = pd.DataFrame({**keys, "part": part, "position": position, **means})
                curves += drawn.to_dict("records")
            for stride, step in steps.items():
                variation = np.abs(np.diff(values[0][:, ::stride])).sum(axis=1).mean()
                single.append({**keys, "step": step, "total_variation": float(variation)})
            rough += [
                {**keys, "topics": size, "step": step, **roughness(curve[::stride])._asdict()}
                for size in sizes
                for order in orders[: 1 if size == sizes[-1] else None]
                for curve in [mean(values[0], order[:size])]
                for stride, step in steps.items()
            ]
        top = {"measure": str(measure), **at, "value": float(surface.means(measure, pool.positions())[best])}
        return {"best": [top], "roughness": rough, "single": single, "curves": curves}

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Make the tables ``best``, ``roughness``, ``needed``, ``single`` and ``curves``.

        ``best``: the grid point of each measure that the lines go through.
        ``curves``: a row a position, whole and in the section, with the first sample's mean for each
        number of topics. ``roughness``: the
        samples' medians by measure, line, topics and step (in lambda or in log mu), with the excess'
        10th and 90th percentiles. ``needed``: from how many topics the median excess is `smooth` or
        less at each step, interpolated between the numbers of topics on logarithmic scales, infinite
        where all of them are too few. ``single``: the mean total variation of single topics' curves.
        """
        tables = super().tables(results)
        grouped = tables["roughness"].groupby(["measure", "line", "topics", "step"], sort=False)
        summary = grouped[["total_variation", "range", "ratio", "excess", "maxima"]].median()
        summary.insert(0, "samples", grouped.size())
        for name, share in (("excess_10", 0.1), ("excess_90", 0.9)):
            summary[name] = grouped["excess"].quantile(share)
        tables["roughness"] = summary = summary.reset_index()
        needed = [
            (*keys, smooth_from(part["topics"].tolist(), part["excess"].tolist(), self.smooth))
            for keys, part in summary.groupby(["measure", "line", "step"], sort=False)
        ]
        tables["needed"] = pd.DataFrame(needed, columns=["measure", "line", "step", "topics"])
        order = ("best", "roughness", "needed", "single", "curves")
        return {name: tables[name] for name in order}

    def pictures(self, tables: Tables) -> list[Picture]:
        """Draw each measure's curves, and roughness against topics."""
        drawn, group = [], short_name(self.dataset)
        for measure in tables["needed"]["measure"].unique():
            title = parse_measure(measure).title
            wide, rough = (
                table[table["measure"] == measure] for table in (tables["curves"], tables["roughness"])
            )
            sizes = [int(name.removeprefix(COLUMN)) for name in map(str, wide) if name.startswith(COLUMN)]
            shown = {
                f"{COLUMN}{n}": f"{n:,} topics"
                for n in sorted({sizes[0], sizes[(len(sizes) - 1) // 2], sizes[-1]})
            }
            curves = stacked(wide, ["line", "part", "position"], shown).rename(columns={VALUE: title})
            curves["panel"] = [
                f"{size}, {line}{_SECTIONS[part]}"
                for size, line, part in zip(curves["panel"], curves["line"], curves["part"], strict=True)
            ]
            curves = curves.sort_values(["line", "part"], ascending=[True, False], kind="stable")
            chart = Chart("position", title, panel="panel", wide=len(shown))
            drawn.append(
                chart.draw(curves, f"curves-{file_name(measure)}", f"{title} along lambda and mu", group)
            )
            excess = f"variation of {title} beyond one hill, %"
            rough = rough.assign(
                step=rough["step"].map("step {:.2g}".format), **{excess: 100.0 * rough["excess"]}
            )
            chart = Chart("topics", excess, "step", "line", symlog=1.0, levels={"": (100.0 * self.smooth,)})
            caption = f"{title}: roughness by topics and step; {self.smooth:.0%} or less is smooth"
            drawn.append(chart.draw(rough, f"roughness-{file_name(measure)}", caption, group))
        return drawn

    def claims(self) -> Sequence[Claim]:
        """Return how many topics make each measure smooth."""
        smooth = f"{short_name(self.dataset)}, topics from which the median curve varies {self.smooth:.0%}"
        return (
            Claim(f"{smooth} more than one hill, by step", figures("needed", "measure line step", "topics")),
            Claim(
                "At the finest step, by topics",
                figures("roughness", "measure line topics", "step ratio excess maxima total_variation"),
            ),
            Claim("A single topic's curve", figures("single", "measure line", "step total_variation")),
            Claim(
                "Topics needed, as the step to the power",
                power("needed", "measure line", "step", "topics", f"{min(self.topics)} < topics < inf"),
            ),
        )


def _width(line: str) -> float:
    low, high = ParameterSpace.of().ranges[line]
    return high - low if line == LAMBDA else math.log(high / low)


def smooth_from(topics: Sequence[int], excess: Sequence[float], smooth: float) -> float:
    """Return from how many topics on the excess stays at `smooth` or below.

    Parameters
    ----------
    topics : sequence of int
        Ascending.
    excess : sequence of float
        `Roughness.excess` at each.
    smooth : float
        Above 0.

    Returns
    -------
    float
        Interpolated linearly in the logarithms of topics and excess; the first number of topics
        where all are smooth, infinity where the last is not.

    Examples
    --------
    >>> round(smooth_from([10, 100, 1000], [1.0, 0.4, 0.025], 0.1))
    316
    """
    rough = [number for number, value in enumerate(excess) if value > smooth]
    if not rough:
        return float(topics[0])
    before = rough[-1]
    if before == len(topics) - 1:
        return math.inf
    high, low = math.log(excess[before]), math.log(max(excess[before + 1], 1e-9))
    share = (high - math.log(smooth)) / (high - low)
    begin, end = math.log(topics[before]), math.log(topics[before + 1])
    return math.exp(begin + share * (end - begin))


@dataclass(frozen=True)
class Smoothness(NetExperiment):
    """Experiment.

    Smoothness: a measure against one weight of a trained net, on more and more queries.

    After Yue and Burges (2007, section 5.2, figures 2 and 3). A linear and a two-layer net are trained
    to convergence by LambdaRank on all training queries. Then one weight at a time is shifted by a percentage
    of its trained value, the others staying, and the measure's mean is taken over subsamples of the
    training queries: of the linear net the weights of the largest absolute values, of the two-layer
    net those from the hidden units to the output. The same grid of shifts serves all subsamples, so
    that the numbers for roughness (`experiments.landscape`) can be compared. A second, finer
    grid about the trained value, of the largest weight, shows the discontinuities.
    """

    name: ClassVar[str] = "smoothness"
    quick: ClassVar[Mapping[str, Any]] = {
        "data": "artificial:1000",
        "queries": (100, 300, 1000),
        "points": 201,
        "epochs": 40,
        "batch_size": 50,
    }

    data: str = option("artificial:10000", HELP)
    queries: tuple[int, ...] = option((100, 1000, 10000), "sizes of the subsamples", low=1, fewest=1)
    weights: int = option(5, "weights of the linear net", low=1)
    shift: float = option(100.0, "largest shift, percent of a weight", above=0)
    zoom: float = option(1.0, "largest shift of the section blown up, percent", above=0)
    points: int = option(401, "shifts on each grid, an odd number", low=5)
    batch_size: int = option(200, "queries a step", low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        odd("points", self.points)

    def units(self) -> list[Unit]:
        """Return one piece of work a network."""
        return [Unit(network, self.sweep, {"network": network}) for network in dict.fromkeys(self.networks)]

    def sweep(self, network: str) -> dict[str, Any]:
        """Train a network and take the measure as single weights are shifted."""
        trained, (data, _) = self.trained(network, "lambdarank")
        flat, measure, sign = trained.network, self.judged_by, self.higher
        order = np.random.default_rng([self.seed, 52]).permutation(len(data.queries))
        chosen = _weights(flat, self.weights)
        lines = [("shift", chosen[0]), ("zoom", chosen[0]), *(("shift", weight) for weight in chosen[1:])]
        curves, rough = [], []
        for count in sorted({min(count, order.size) for count in self.queries}):
            objective = NetworkMeasure(flat, data.take(np.sort(order[:count])), measure)
            for part, weight in lines:
                shifts = np.linspace(-getattr(self, part), getattr(self, part), self.points)
                # Of costs minus them: higher is better.
                values = objective.at_weight(flat.point, weight, (1.0 + shifts / 100.0) * flat.point[weight])
                key = {"network": network, "part": part, "queries": count, "weight": flat.name(weight)}
                curves += [
                    {**key, "shift": shift, "value": value}
                    for shift, value in zip(shifts.tolist(), (sign * values).tolist(), strict=True)
                ]
                numbers, best = roughness(values), int(np.argmax(values))
                # The noise is that of a shift by 1%, whatever the grid.
                noise = jump_noise(sign * values) * np.sqrt((self.points - 1) / (2 * shifts[-1]))
                rough.append(
                    {
                        **{**key, "trained": float(flat.point[weight]), "variation": numbers.ratio},
                        **{"excess": numbers.excess, "optima": numbers.maxima, "noise": float(noise)},
                        **{"range": float(np.ptp(values)), "best_shift": float(shifts[best])},
                        "gain": float(values[best] - values[self.points // 2]),
                    }
                )
        net = {
            **{"network": network, "queries": len(data.queries), "gradient": trained.gradient},
            "first_gradient": trained.first_gradient,
            "value": sign * NetworkMeasure(flat, data, measure)(flat.point),
        }
        return {"curves": curves, "roughness": rough, "nets": [net]}

    def pictures(self, tables: Tables) -> list[Picture]:
        """Draw the measure against the shifts of single weights."""
        title, largest = f"mean {self.judged_by.title}", "the largest weight"
        shift = "shift of a weight (% of its trained value)"
        curves = tables["curves"].rename(columns={"shift": shift, "value": title})
        first = tables["curves"].query("part == 'zoom'").groupby("network")["weight"].first()
        curves["line"] = curves["weight"].where(curves["weight"] != curves["network"].map(first), largest)
        curves["panel"] = [
            f"{network}, {queries:,} {'query' if queries == 1 else 'queries'}{_SECTIONS.get(part, '')}"
            for network, queries, part in zip(
                curves["network"], curves["queries"], curves["part"], strict=True
            )
        ]
        curves = curves.sort_values(["network", "part"], kind="stable")
        wide = curves["queries"].nunique()
        chart = Chart(shift, title, "line", "panel", bold=largest, wide=wide)
        return [chart.draw(curves, "smoothness", f"{title} against the shift of single weights")]

    def claims(self) -> Sequence[Claim]:
        """Return how roughness falls with the number of queries, and what is left of it."""
        whole, title = "part == 'shift'", self.judged_by.title
        return (
            Claim(
                f"{title} of nets, single weights shifted by up to {self.shift:g}%, medians by queries",
                figures("roughness", "network queries", "variation excess optima noise", "median", whole),
            ),
            Claim(
                f"Within {self.zoom:g}% of the trained value, by queries",
                figures("roughness", "network queries", "weight optima range", where="part == 'zoom'"),
            ),
            Claim(
                "The noise of jumps, as the queries to the power (independent jumps: -0.5)",
                power("roughness", "network", "queries", "noise", whole),
            ),
            Claim(
                "The best shift of a single weight, by queries",
                figures("roughness", "network queries", "gain", "max", whole, range=("range", "median")),
            ),
        )


def _weights(flat: FlatNetwork, count: int) -> list[int]:
    """Return weights that the score is linear in, the largest first; of a two-layer net all."""
    last = flat.point[flat.last]
    order = np.argsort(-np.abs(last), kind="stable") + flat.last.start
    return [int(weight) for weight in (order if flat.hidden else order[:count])]
