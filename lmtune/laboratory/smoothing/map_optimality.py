"""Whether RankNet's lambda and mu are a local optimum of MAP, beside Direct's.

Metzler (SIGIR 2007) minimises the RankNet cost in place of a measure. Here the measure is examined
at RankNet's choice as Yue and Burges (2007) examine NDCG at LambdaRank's weights: along each
parameter, and by random directions in (logit lambda, log mu), where RankNet searched. Direct's
choice is the control.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.datasets.folds import Fold
from lmtune.laboratory.collections import COLLECTION_HELP, index_collection, load_pool, short_name
from lmtune.laboratory.directions import ascent_test, directions_needed, line_noise, random_directions
from lmtune.laboratory.experiment import Experiment, Tables, Unit
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure, parse_measure
from lmtune.options import option
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.profiles import measure_profiles
from lmtune.tuning.experiment.result import DIRECT, RANKNET
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.space import ParameterSpace

if TYPE_CHECKING:
    from lmtune.reporting.figures.style import Picture

_CONFIDENCE, _SHARE = 0.99, 0.01
_SCALE = (1.0, 1.0)
_BATCH = 250

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class MapOptimality(Experiment):
    """What to examine, and how."""

    name: ClassVar[str] = "map-optimality"
    quick: ClassVar[Mapping[str, Any]] = {"topics": 200, "steps": (0.01, 0.1, 1.0)}

    dataset: str = option("pydocs", COLLECTION_HELP)
    topics: int = option(0, "how many topics, drawn by the seed; 0 for all", low=0)
    measure: str = option("AP", "AP, P@k, Bpref, nDCG@k ")
    directions: int = option(
        directions_needed(_CONFIDENCE, _SHARE), "random directions from each choice", low=1
    )
    steps: tuple[float, ...] = option(
        (0.01, 0.03, 0.1, 0.3, 1.0), "step sizes in (logit lambda, log mu)", above=0, fewest=1
    )
    seed: int = option(0, "of topics, directions and the methods' starts", low=0)

    def units(self) -> list[Unit]:
        """Return a unit a choice."""
        parse_measure(self.measure)
        index_collection(self.dataset, topics=self.topics)
        return [Unit(method.lower(), self.examine, {"method": method}) for method in (RANKNET, DIRECT)]

    def examine(self, method: str) -> dict[str, Any]:
        """Tune on all topics, then look for ascents of the measure from a method's choice.

        Parameters
        ----------
        method : {"RankNet", "Direct"}
            Whose choice.

        Returns
        -------
        dict
            ``point`` (method, lambda, mu, value, at_edge, evaluations), ``ascents`` (`StepCounts`),
            ``notes`` of the tuning, and for RankNet ``lines``, by column.
        """
        pool = load_pool(self.dataset, topics=self.topics, seed=self.seed)
        measure, steps = parse_measure(self.measure), sorted(self.steps)
        plan = Plan((measure,), approx=False, final=False, seed=self.seed)
        result = run_experiment(pool, [Fold(pool.topics, pool.topics)], plan)
        [fit] = next(row.fits for row in result.rows if row.method == method)
        mean = MeanOnPool(pool, measure, plan.space, plan.depth)
        at = plan.space.to_unbounded(plan.space.vector(fit.params))
        sizes = np.array(steps)[:, None]
        ways = random_directions(self.directions, _SCALE, seed=self.seed)
        mean.remember(np.concatenate([at + sizes * way for way in ways]))
        noise = line_noise(mean, at, _SCALE, steps, seed=self.seed, along=mean.along)
        test = ascent_test(
            mean,
            at,
            _SCALE,
            steps,
            self.directions,
            self.seed,
            confidence=_CONFIDENCE,
            noise=noise.tolist(),
            along=mean.along,
        )
        found: dict[str, Any] = {
            "point": {
                "method": method,
                **fit.params,
                "value": test.value,
                "at_edge": ", ".join(fit.at_edge),
                "evaluations": fit.evaluations,
            },
            "ascents": [{"method": method, **asdict(counts)} for counts in test.steps],
            "notes": list(result.notes),
        }
        if method == RANKNET:
            [lines] = measure_profiles(pool, result, plan).values()
            # There are no test topics here.
            found["lines"] = lines.drop(columns="test").to_dict("list")
        return found

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Make the tables ``points``, ``ascents``, ``lines`` and ``notes``.

        ``ascents`` holds `StepCounts` by method and step; ``lines`` is one of
        `lmtune.tuning.experiment.profiles.measure_profiles`, with the measure as ``train``.
        """
        import pandas as pd

        by_ranknet = results[RANKNET.lower()]
        ascents = pd.DataFrame([row for result in results.values() for row in result["ascents"]])
        inside = ascents["ascents"] + ascents["descents"] + ascents["unchanged"]
        ascents.insert(2, "inside", inside)
        return {
            "points": pd.DataFrame([result["point"] for result in results.values()]),
            "ascents": ascents,
            "lines": pd.DataFrame(by_ranknet["lines"]),
            "notes": pd.DataFrame({"note": by_ranknet["notes"]}),
        }

    def pictures(self, found: Tables) -> list[Picture]:
        """Draw cost and measure along lines, and the share of ascending directions by step."""
        from lmtune.laboratory.smoothing.map_optimality_pictures import ascending
        from lmtune.reporting.figures.profiles import cost_and_measure
        from lmtune.reporting.figures.style import Picture

        name = parse_measure(self.measure).title
        lines = cost_and_measure(found["lines"], measure=name)
        group = short_name(self.dataset)
        shares = ascending(found["ascents"], measure=name)
        return [
            Picture(
                "lines", f"{name} and the RankNet cost along lines through RankNet's choice", lines, group
            ),
            Picture("ascents", f"Directions in which {name} ascends", shares, group),
        ]

    def conclusions(self, found: Tables) -> list[str]:
        """Say whether either choice is a local optimum of the measure."""
        name = parse_measure(self.measure).title
        points = {row["method"]: row for row in found["points"].to_dict("records")}
        ranknet, direct = points[RANKNET], points[DIRECT]
        loss = 1.0 - ranknet["value"] / direct["value"] if direct["value"] > 0.0 else 0.0
        sentences = [
            f"{short_name(self.dataset)}: {name} is {ranknet['value']:.4f} at RankNet's choice ("
            f"{_setting(ranknet)}) and {direct['value']:.4f} at Direct's ({_setting(direct)}): "
            f"RankNet loses {loss:.2%} on the topics that both were fitted to."
        ]
        ascents = found["ascents"]
        for method in (RANKNET, DIRECT):
            own = ascents[ascents["method"] == method].to_dict("records")
            counts = "; ".join(
                f"{row['step']:g}: {row['ascents']} of {row['inside']}"
                + (f" ({row['outside']} leave the range)" if row["outside"] else "")
                + f", {row['clear_ascents']} clearly, at most {row['largest']:+.2g}"
                for row in own
            )
            sentences.append(f"{method}'s choice, directions that ascend in {name} by step: {counts}.")
            sentences.append(_verdict(method, name, own))
        return sentences


@dataclass(frozen=True)
class MeanOnPool:
    """A measure's mean over a pool's topics, at a point (logit lambda, log mu).

    Attributes
    ----------
    pool : CandidatePool
        The collection.
    measure : Measure
        What is measured.
    space : ParameterSpace
        The domain: NaN outside its `unbounded_box`.
    depth : int
        Run depth.
    known : dict
        Values by a point's bytes.
    """

    pool: CandidatePool
    measure: Measure
    space: ParameterSpace
    depth: int
    known: dict[bytes, float] = field(default_factory=dict)

    def __call__(self, point: Vector) -> float:
        """Return the mean at a point."""
        return float(self._means(point[None])[0])

    def along(self, point: Vector, direction: Vector, steps: Vector) -> Vector:
        """Return the means at ``point + step * direction``, shape (steps,)."""
        return self._means(point + steps[:, None] * direction)

    def remember(self, points: Vector) -> None:
        """Measure points, shape (points, 2), for later: many at once take half the time."""
        for first in range(0, len(points), _BATCH):
            self._means(points[first : first + _BATCH])

    def _means(self, points: Vector) -> Vector:
        low, high = np.array(self.space.unbounded_box).T
        inside = ((points >= low) & (points <= high)).all(axis=1)
        new = [point for point in points[inside] if point.tobytes() not in self.known]
        if new:
            settings = np.array([self.space.from_unbounded(point) for point in new])
            values = measure_settings(self.pool, settings, [self.measure], depth=self.depth)
            # A row a setting, so that its sum does not depend on how many there are.
            means = np.ascontiguousarray(values[:, :, 0].T).mean(axis=1)
            for point, mean in zip(new, means.tolist(), strict=True):
                self.known[point.tobytes()] = mean
        found = [self.known.get(point.tobytes(), math.nan) for point in points]
        return np.array(found, np.float64)


def _setting(point: Mapping[Any, Any]) -> str:
    edge = f", on the edge of the range: {point['at_edge']}" if point["at_edge"] else ""
    return f"lambda {point['lambda']:.4f}, mu {point['mu']:.4g}{edge}"


def _verdict(method: str, name: str, rows: Sequence[Mapping[Any, Any]]) -> str:
    """Say at which steps a choice is a local optimum: fewer than 1% of directions ascend."""
    tried = [row for row in rows if row["inside"]]
    kept, clear = (
        [f"{row['step']:g}" for row in tried if row[bound] < _SHARE] for bound in ("bound", "clear_bound")
    )
    return (
        f"With {_CONFIDENCE:.0%} confidence fewer than {_SHARE:.0%} of the directions that stay in "
        f"the range ascend from {method}'s choice at {_steps(kept, len(tried))}; fewer than "
        f"{_SHARE:.0%} ascend clearly, by more than jumps of {name} come to by chance, at "
        f"{_steps(clear, len(tried))}."
    )


def _steps(steps: Sequence[str], tried: int) -> str:
    if not steps:
        return f"none of {tried} step sizes"
    if len(steps) == tried:
        return f"all {tried} step sizes"
    return f"{len(steps)} of {tried} step sizes ({', '.join(steps)})"
