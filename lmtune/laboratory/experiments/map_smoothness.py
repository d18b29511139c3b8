"""How many topics make MAP, or another measure, smooth in lambda and log mu.

For one topic a measure is a step function of the parameters. Its mean over n topics has n times as
many steps, each 1/n as high, so that the total variation at the finest scale need not fall: what
topics smooth is the curve at a given step. Roughness is therefore measured at several steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.laboratory.collections import index_collection, load_pool, short_name
from lmtune.laboratory.experiment import Experiment, Tables, Unit, option
from lmtune.laboratory.roughness import roughness
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure, parse_measure, parse_measures
from lmtune.reporting.results import file_name
from lmtune.tuning.grid import Surface
from lmtune.tuning.space import ParameterSpace

if TYPE_CHECKING:
    import pandas as pd

    from lmtune.reporting.figures.style import Picture

LAMBDA, MU = "lambda", "mu"
COLUMN = "topics_"
"""What columns of the table ``curves`` begin with; the number of topics follows."""

# Every so many points of a line, where they go into it.
_STRIDES = (1, 2, 5, 10, 25, 50)
_GRID = (20, 26)


@dataclass(frozen=True)
class Settings:
    """Options of `EXPERIMENT`."""

    dataset: str = option("pydocs", "pydocs, a folder, irds:ID, synthetic:NAME.")
    measures: tuple[str, ...] = option(("AP", "Bpref", "P@10"), "AP, P@k, Bpref, nDCG@k ...")
    topics: tuple[int, ...] = option(
        (10, 30, 100, 300, 1000), "Numbers of topics; all of them are always among them."
    )
    samples: int = option(20, "Samples of each number of topics.")
    points: int = option(951, "Points along each parameter; 951 are steps of .001 in lambda.")
    zoom_points: int = option(301, "Points of the blown-up section.")
    zoom: float = option(0.02, "How much of the range is blown up.")
    smooth: float = option(0.1, "Called smooth: up and down by this share more than one hill.")
    seed: int = option(0, "Of the samples.")


def units(settings: Settings) -> list[Unit]:
    """Make a unit a measure."""
    measures = parse_measures(settings.measures)
    for name, least in (("samples", 1), ("points", 3), ("zoom_points", 3), ("seed", 0)):
        if getattr(settings, name) < least:
            raise InputError(
                f"bad {name}", value=getattr(settings, name), accepted=f"{least} or more"
            )
    for name in ("zoom", "smooth"):
        if not 0.0 < getattr(settings, name) <= 1.0:
            raise InputError(
                f"bad {name}", value=getattr(settings, name), accepted="above 0, up to 1"
            )
    if not settings.topics or min(settings.topics) < 1:
        raise InputError("bad topics", value=settings.topics, accepted="numbers from 1")
    available = index_collection(settings.dataset)
    sizes = sorted({size for size in settings.topics if size < available})
    return [
        Unit(
            key=file_name(str(measure)),
            function=measure_lines,
            arguments={
                "dataset": settings.dataset,
                "measure": str(measure),
                "sizes": (*sizes, available),
                "samples": settings.samples,
                "points": settings.points,
                "zoom_points": settings.zoom_points,
                "zoom": settings.zoom,
                "seed": settings.seed,
            },
        )
        for measure in measures
    ]


def measure_lines(
    *,
    dataset: str,
    measure: str,
    sizes: Sequence[int],
    samples: int,
    points: int,
    zoom_points: int,
    zoom: float,
    seed: int,
) -> dict[str, Any]:
    """Measure along lambda and along log mu through the best grid point of all topics.

    Parameters
    ----------
    dataset
        See `lmtune.laboratory.collections.load_pool`.
    measure : str
        What to measure.
    sizes : sequence of int
        Numbers of topics, ascending; the last is that of all topics.
    samples : int
        Samples of each size but the last. The samples of one number are nested: each holds the
        smaller ones.
    points, zoom_points, zoom
        See `Settings`.
    seed : int
        Of the samples.

    Returns
    -------
    dict
        ``measure``, ``topics`` (all), ``best`` (lambda, mu and value) and ``lines``, for lambda and
        mu: ``position`` and ``curves`` (the first sample's mean by number of topics), the same of
        the section as ``zoom_position`` and ``zoom_curves``, ``single`` (by stride the mean total
        variation of single topics) and ``roughness`` (dicts: topics, sample, stride and
        `Roughness`' fields).
    """
    pool = load_pool(dataset)
    what, space = parse_measure(measure), ParameterSpace()
    surface = Surface.compute(pool, [what], space=space, shape=_GRID)
    best = surface.best(what, pool.positions())[0]
    at = float(surface.lambdas[best]), float(surface.mus[best])
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(pool.topics)) for _ in range(samples)]
    lines = {}
    for line in (LAMBDA, MU):
        position, section = _positions(space, line, at, points, zoom_points, zoom)
        values = _along(pool, what, line, at, position)
        zoomed = _along(pool, what, line, at, section)
        lines[line] = {
            "position": position.tolist(),
            "curves": _first_curves(values, sizes, orders[0]),
            "zoom_position": section.tolist(),
            "zoom_curves": _first_curves(zoomed, sizes, orders[0]),
            "single": {
                str(stride): float(np.abs(np.diff(values[:, ::stride])).sum(axis=1).mean())
                for stride in _strides(points)
            },
            "roughness": [
                {"topics": size, "sample": sample, "stride": stride}
                | roughness(curve[::stride])._asdict()
                for size in sizes
                for sample, order in enumerate(orders[: 1 if size == sizes[-1] else None])
                for curve in [_mean(values, order[:size])]
                for stride in _strides(points)
            ],
        }
    best_value = float(surface.means(what, pool.positions())[best])
    return {
        "measure": str(what),
        "topics": len(pool.topics),
        "best": {"lambda": at[0], "mu": at[1], "value": best_value},
        "lines": lines,
    }


def _strides(points: int) -> list[int]:
    return [stride for stride in _STRIDES if (points - 1) % stride == 0]


def _mean(values: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    # In the pool's order, so that equal sets of topics give equal bits.
    mean: NDArray[np.float64] = values[np.sort(places)].mean(axis=0)
    return mean


def _first_curves(
    values: NDArray[np.float64], sizes: Sequence[int], order: NDArray[np.int64]
) -> dict[str, list[float]]:
    return {str(size): _mean(values, order[:size]).tolist() for size in sizes}


def _positions(
    space: ParameterSpace, line: str, at: tuple[float, float], points: int, inside: int, zoom: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a line's positions, evenly spaced in lambda or log mu, and a section's."""
    low, high, here = (
        (space.lambda_low, space.lambda_high, at[0])
        if line == LAMBDA
        else (np.log(space.mu_low), np.log(space.mu_high), np.log(at[1]))
    )
    whole = np.linspace(low, high, points)
    half = 0.5 * zoom * (high - low)
    begin = min(max(here - half, low), high - 2.0 * half)
    section = np.linspace(begin, begin + 2.0 * half, inside)
    if line == LAMBDA:
        return whole.clip(space.lambda_low, space.lambda_high), section
    return (
        np.exp(whole).clip(space.mu_low, space.mu_high),
        np.exp(section).clip(space.mu_low, space.mu_high),
    )


def _along(
    pool: CandidatePool,
    measure: Measure,
    line: str,
    at: tuple[float, float],
    position: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Measure every topic along a line, shape (topics, positions)."""
    fixed = np.full(position.size, at[1] if line == LAMBDA else at[0])
    setting = (position, fixed) if line == LAMBDA else (fixed, position)
    return measure_settings(pool, setting[0], setting[1], [measure])[:, :, 0]


def tables(settings: Settings, results: Mapping[str, Any]) -> Tables:
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
        measure = result["measure"]
        for line, found in result["lines"].items():
            for part, prefix in (("whole", ""), ("section", "zoom_")):
                by_topics = found[f"{prefix}curves"].items()
                keys = {"measure": measure, "line": line, "part": part}
                points = {"position": found[f"{prefix}position"]}
                points |= {f"{COLUMN}{topics}": curve for topics, curve in by_topics}
                curves.append(pd.DataFrame(points).assign(**keys)[[*keys, *points]])
            width = _width(line) / (settings.points - 1)
            own = pd.DataFrame(found["roughness"])
            own.insert(0, "line", line)
            own.insert(0, "measure", measure)
            rough.append(own.assign(step=own["stride"] * width))
            single += [
                (measure, line, int(stride) * width, variation)
                for stride, variation in found["single"].items()
            ]
    grouped = pd.concat(rough, ignore_index=True).groupby(
        ["measure", "line", "topics", "step"], sort=False
    )
    figures = ["total_variation", "range", "ratio", "excess", "maxima"]
    summary = grouped[figures].median()
    summary.insert(0, "samples", grouped.size())
    for name, share in (("excess_10", 0.1), ("excess_90", 0.9)):
        summary[name] = grouped["excess"].quantile(share)
    summary = summary.reset_index()
    best = [{"measure": result["measure"], **result["best"]} for result in results.values()]
    return {
        "best": pd.DataFrame(best),
        "roughness": summary,
        "needed": _needed(summary, settings.smooth),
        "single": pd.DataFrame(single, columns=["measure", "line", "step", "total_variation"]),
        "curves": pd.concat(curves, ignore_index=True),
    }


def _width(line: str) -> float:
    space = ParameterSpace()
    if line == LAMBDA:
        return space.lambda_high - space.lambda_low
    return math.log(space.mu_high / space.mu_low)


def _needed(summary: pd.DataFrame, smooth: float) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for (measure, line), own in summary.groupby(["measure", "line"], sort=False):
        for step in own["step"].unique().tolist():
            part = own[own["step"] == step]
            topics = smooth_from(part["topics"].tolist(), part["excess"].tolist(), smooth)
            rows.append((measure, line, step, topics))
    return pd.DataFrame(rows, columns=["measure", "line", "step", "topics"])


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


def conclusions(settings: Settings, found: Tables) -> list[str]:
    """Say how many topics make each measure smooth."""
    sentences = [
        f"{short_name(settings.dataset)}: smooth is called a curve that goes up and down at most "
        f"{settings.smooth:.0%} more than one hill with its ends and its maximum, in the median "
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


def pictures(settings: Settings, found: Tables) -> list[Picture]:
    """Draw each measure's curves, and roughness against topics."""
    from lmtune.laboratory.pictures.map_smoothness import curves, roughness_by_topics
    from lmtune.reporting.figures.style import Picture, alt_text

    drawn, group = [], short_name(settings.dataset)
    for measure in found["needed"]["measure"].unique():
        what = parse_measure(measure)
        own = {name: table[table["measure"] == measure] for name, table in found.items()}
        for kind, title, figure in (
            ("curves", "along lambda and mu, by topics", curves(own["curves"], what.title)),
            (
                "roughness",
                "roughness by topics and step",
                roughness_by_topics(own["roughness"], what.title, settings.smooth),
            ),
        ):
            name = f"{kind}-{file_name(measure)}"
            drawn.append(Picture(name, f"{what.title}: {title}", figure, alt_text(figure), group))
    return drawn


EXPERIMENT = Experiment(
    name="map-smoothness",
    summary="How many topics make MAP smooth in lambda and mu?",
    settings=Settings,
    quick={
        "measures": ("AP",),
        "topics": (10, 100, 1000),
        "samples": 5,
        "points": 191,
        "zoom_points": 101,
    },
    units=units,
    tables=tables,
    pictures=pictures,
    conclusions=conclusions,
)
