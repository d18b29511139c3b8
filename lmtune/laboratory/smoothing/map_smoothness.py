"""How many topics make MAP, or another measure, smooth in lambda and log mu.

For one topic a measure is a step function of the parameters. Its mean over n topics has n times as
many steps, each 1/n as high, so that the total variation at the finest scale need not fall: what
topics smooth is the curve at a given step. Roughness is therefore measured at several steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lmtune.laboratory.collections import COLLECTION_HELP, index_collection, load_pool, short_name
from lmtune.laboratory.experiment import Experiment, Tables, Unit
from lmtune.laboratory.roughness import roughness
from lmtune.laboratory.smoothing.map_smoothness_pictures import COLUMN
from lmtune.laboratory.smoothing.sampled_lines import LAMBDA, MU, along, mean, positions
from lmtune.measures.measure import parse_measure, parse_measures
from lmtune.options import option
from lmtune.reporting.results_files import file_name
from lmtune.tuning.grid import Surface
from lmtune.tuning.space import ParameterSpace

if TYPE_CHECKING:
    from lmtune.reporting.figures.style import Picture


# Every so many points of a line, where they go into it.
_STRIDES = (1, 2, 5, 10, 25, 50)
_GRID = (20, 26)


@dataclass(frozen=True)
class MapSmoothness(Experiment):
    """What to measure, and how."""

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
            Unit(file_name(str(measure)), self.measure_lines, {"measure": str(measure), "sizes": sizes})
            for measure in measures
        ]

    def measure_lines(self, measure: str, sizes: Sequence[int]) -> dict[str, Any]:
        """Measure along lambda and along log mu through the best grid point of all topics.

        Parameters
        ----------
        measure : str
            What to measure.
        sizes : sequence of int
            Numbers of topics, ascending; the last is that of all topics. The samples of one number
            are nested: each holds the smaller ones.

        Returns
        -------
        dict
            ``measure``, ``topics`` (all), ``best`` (lambda, mu and value) and ``lines``, for lambda
            and mu: ``position`` and ``curves`` (the first sample's mean by number of topics), the
            same of the section as ``zoom_position`` and ``zoom_curves``, ``single`` (by stride the
            mean total variation of single topics) and ``roughness`` (dicts: topics, sample, stride
            and `Roughness`' fields).
        """
        pool = load_pool(self.dataset)
        what, space = parse_measure(measure), ParameterSpace.of()
        surface = Surface.compute(pool, [what], space=space, shape=_GRID)
        best = surface.best(what, pool.positions())[0]
        at = surface.setting(best)
        rng = np.random.default_rng(self.seed)
        orders = [rng.permutation(len(pool.topics)) for _ in range(self.samples)]
        strides = [stride for stride in _STRIDES if (self.points - 1) % stride == 0]
        lines = {}
        for line in (LAMBDA, MU):
            sections = positions(space, line, at, self.points, self.zoom_points, self.zoom)
            whole, zoomed = (along(pool, what, line, at, position) for position in sections)
            lines[line] = {
                "position": sections[0].tolist(),
                "curves": {str(size): mean(whole, orders[0][:size]).tolist() for size in sizes},
                "zoom_position": sections[1].tolist(),
                "zoom_curves": {str(size): mean(zoomed, orders[0][:size]).tolist() for size in sizes},
                "single": {
                    str(stride): float(np.abs(np.diff(whole[:, ::stride])).sum(axis=1).mean())
                    for stride in strides
                },
                "roughness": [
                    {"topics": size, "sample": sample, "stride": stride}
                    | roughness(curve[::stride])._asdict()
                    for size in sizes
                    for sample, order in enumerate(orders[: 1 if size == sizes[-1] else None])
                    for curve in [mean(whole, order[:size])]
                    for stride in strides
                ],
            }
        best_value = float(surface.means(what, pool.positions())[best])
        return {
            "measure": str(what),
            "topics": len(pool.topics),
            "best": {**at, "value": best_value},
            "lines": lines,
        }

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
        import pandas as pd

        curves, rough, single = [], [], []
        for result in results.values():
            for line, found in result["lines"].items():
                keys = {"measure": result["measure"], "line": line}
                for part, prefix in (("whole", ""), ("section", "zoom_")):
                    points = {"position": found[f"{prefix}position"]}
                    points |= {f"{COLUMN}{size}": curve for size, curve in found[f"{prefix}curves"].items()}
                    curves.append(pd.DataFrame({**keys, "part": part, **points}))
                width = _width(line) / (self.points - 1)
                own = pd.DataFrame(found["roughness"])
                rough.append(own.assign(**keys, step=own["stride"] * width))
                single += [
                    {**keys, "step": int(stride) * width, "total_variation": variation}
                    for stride, variation in found["single"].items()
                ]
        grouped = pd.concat(rough, ignore_index=True).groupby(
            ["measure", "line", "topics", "step"], sort=False
        )
        summary = grouped[["total_variation", "range", "ratio", "excess", "maxima"]].median()
        summary.insert(0, "samples", grouped.size())
        for name, share in (("excess_10", 0.1), ("excess_90", 0.9)):
            summary[name] = grouped["excess"].quantile(share)
        summary = summary.reset_index()
        needed = [
            (*keys, smooth_from(part["topics"].tolist(), part["excess"].tolist(), self.smooth))
            for keys, part in summary.groupby(["measure", "line", "step"], sort=False)
        ]
        best = [{"measure": result["measure"], **result["best"]} for result in results.values()]
        return {
            "best": pd.DataFrame(best),
            "roughness": summary,
            "needed": pd.DataFrame(needed, columns=["measure", "line", "step", "topics"]),
            "single": pd.DataFrame(single),
            "curves": pd.concat(curves, ignore_index=True),
        }

    def pictures(self, found: Tables) -> list[Picture]:
        """Draw each measure's curves, and roughness against topics."""
        from lmtune.laboratory.smoothing.map_smoothness_pictures import curves, roughness_by_topics
        from lmtune.reporting.figures.style import Picture

        drawn, group = [], short_name(self.dataset)
        for measure in found["needed"]["measure"].unique():
            title = parse_measure(measure).title
            own = {name: table[table["measure"] == measure] for name, table in found.items()}
            for kind, words, figure in (
                ("curves", "along lambda and mu, by topics", curves(own["curves"], title)),
                (
                    "roughness",
                    "roughness by topics and step",
                    roughness_by_topics(own["roughness"], title, self.smooth),
                ),
            ):
                name = f"{kind}-{file_name(measure)}"
                drawn.append(Picture(name, f"{title}: {words}", figure, group))
        return drawn

    def conclusions(self, found: Tables) -> list[str]:
        """Say how many topics make each measure smooth."""
        sentences = [
            f"{short_name(self.dataset)}: smooth is called a curve that goes up and down at most "
            f"{self.smooth:.0%} more than one hill with its ends and its maximum, in the median "
            "sample."
        ]
        rough, needed, single = (found[name] for name in ("roughness", "needed", "single"))
        for (measure, line), part in needed.groupby(["measure", "line"], sort=False):
            own = rough[(rough["measure"] == measure) & (rough["line"] == line)]
            every = int(own["topics"].max())
            said = []
            for step, topics in zip(part["step"].tolist(), part["topics"].tolist(), strict=True):
                here = own[own["step"] == step]
                if math.isinf(topics):
                    said.append(f"{step:.2g}: not with all ({here['excess'].iloc[-1]:.0%} more)")
                else:
                    most = "up to " if topics == here["topics"].iloc[0] else ""
                    said.append(f"{step:.2g}: {most}{topics:,.0f}")
            finest = own[own["step"] == own["step"].min()]
            first, last = finest.iloc[0], finest.iloc[-1]
            alone = single[(single["measure"] == measure) & (single["line"] == line)].iloc[0]
            name = parse_measure(str(measure)).title
            scale = "lambda" if line == LAMBDA else "log mu"
            sentences.append(
                f"{name} along {scale}, topics of {every:,} that make it smooth, by step: "
                f"{'; '.join(said)}. At the "
                f"finest step total variation over range is {first['ratio']:.2f} with "
                f"{first['topics']:,} topics and {last['ratio']:.2f} with {last['topics']:,}, with "
                f"{first['maxima']:,.0f} and {last['maxima']:,.0f} local maxima; a single topic's "
                f"total variation is {alone['total_variation']:.3f}, theirs "
                f"{first['total_variation']:.3f} and {last['total_variation']:.3f}."
            )
            known = part[np.isfinite(part["topics"]) & (part["topics"] > own["topics"].min())]
            if len(known) > 1:
                slope = np.polyfit(np.log(known["step"]), np.log(known["topics"]), 1)[0]
                sentences.append(
                    f"{name} along {scale}: half the step needs {2.0**-slope:.1f} times the topics "
                    f"(fitted to {len(known)} steps from {known['step'].min():.2g} to "
                    f"{known['step'].max():.2g})."
                )
        return sentences


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
    rough = [place for place, value in enumerate(excess) if value > smooth]
    if not rough:
        return float(topics[0])
    before = rough[-1]
    if before == len(topics) - 1:
        return math.inf
    high, low = math.log(excess[before]), math.log(max(excess[before + 1], 1e-9))
    share = (high - math.log(smooth)) / (high - low)
    begin, end = math.log(topics[before]), math.log(topics[before + 1])
    return math.exp(begin + share * (end - begin))
