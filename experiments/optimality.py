"""Whether tuned parameters and trained networks are local optima of a measure.

One test for both (`experiments.landscape`), for a measure as a function of a retrieval model's
parameters (`MapOptimality`) and of a network's weights (`Optimality`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments import landscape
from experiments.data import COLLECTION_HELP, index_collection, load_pool, short_name
from experiments.experiment import Claim, Experiment, Statistic, Tables, Unit, figures
from experiments.lines import cost_lines, draw_cost_lines
from experiments.networks import FlatNetwork, NetExperiment, NetworkMeasure, odd
from experiments.pictures import Chart, stacked
from lmtune.candidates.pool import CandidatePool
from lmtune.datasets.folds import Fold
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure, parse_measure
from lmtune.options import option
from lmtune.reporting.figures.style import Picture
from lmtune.reranking.losses.names import loss_names
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import DIRECT, RANKNET
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.space import ParameterSpace

Vector = NDArray[np.float64]

_CONFIDENCE, _SHARE = 0.99, 0.01
_SCALE = (1.0, 1.0)
_BATCH = 250
# Two-layer nets converge so much more slowly.
_MORE = 4


def count_ascents(
    objective: MeanOnPool | NetworkMeasure,
    point: Vector,
    scale: Any,
    steps: Sequence[float],
    directions: int,
    seed: int,
    confidence: float,
) -> landscape.AscentTest:
    """Test a point by random directions, with the noise of the objective's jumps along each step."""
    line = (objective, point, scale, steps)
    noise = landscape.line_noise(*line, seed=seed).tolist()
    return landscape.ascent_test(*line, directions, seed, confidence=confidence, noise=noise)


def ascent_claim(table: str, case: str, title: str, share: float, confidence: float) -> Claim:
    """Claim that fewer than a share of all directions ascend, from each point at each step.

    Parameters
    ----------
    table : str
        The name of a table of `experiments.landscape.StepCounts`.
    case : str
        Its columns that name a point.
    title : str
        The measure's.
    share, confidence : float
        Of the test.
    """
    shown = "ascents share_at_most=bound clear_ascents clear_share_at_most=clear_bound outside largest"
    return Claim(
        f"With {confidence:g} confidence fewer than {share:g} of all directions ascend in {title}, by step",
        figures(table, f"{case} step", shown),
        lambda rows: rows["share_at_most"] < share,
    )


def draw_ascents(
    counts: pd.DataFrame, name: str, panel: str, line: str, step: str, title: str, share: float
) -> Picture:
    """Draw the share of directions that ascend by step size, and the largest ascent.

    Parameters
    ----------
    counts : pandas.DataFrame
        A row a point and step, with `experiments.landscape.StepCounts`.
    name : str
        The picture's.
    panel, line : str
        The columns of what has panels of its own, and of what lines.
    step, title : str
        The unit of steps, and the measure's title.
    share : float
        The share that is to be bounded.
    """
    inside = counts["ascents"] + counts["descents"] + counts["unchanged"]
    keys, names = [step, line, panel], ["% of directions ascend", "largest ascent, × noise of jumps"]
    counts = counts.rename(columns={"step": step}).sort_values(step, kind="stable")
    with np.errstate(divide="ignore", invalid="ignore"):
        counts[names[0]] = 100.0 * counts["ascents"] / inside
        counts[names[1]] = counts["largest"].clip(lower=0.0) / counts["noise"]
    drawn = stacked(counts, keys, dict(zip(names, names, strict=True)))
    heights = dict(zip(names, [(100.0 * share,), (landscape.CLEARLY,)], strict=True))
    levels = {f"{of}: {what}": heights[what] for of in counts[panel].unique() for what in names}
    drawn["panel"] = drawn[panel] + ": " + drawn["panel"]
    chart = Chart(step, line=line, panel="panel", levels=levels, symlog=1.0, wide=counts[panel].nunique())
    caption = f"Random directions in which mean {title} ascends; {share:.0%}, and what jumps come to, dashed"
    return chart.draw(drawn, name, caption)


def _first_steps(share: float) -> Statistic:
    """Find the step from which on fewer than a share of directions ascend; infinite for none."""

    def statistic(tables: Tables) -> pd.DataFrame:
        steps = {}
        for keys, rows in tables["directions"].groupby(["network", "loss"], sort=False):
            last = rows.loc[rows["bound"] >= share, "step"].max()
            steps[keys] = (
                rows.loc[~(rows["step"] <= last), "step"].min() if rows["step"].max() != last else math.inf
            )
        return pd.DataFrame({"step": steps})

    return statistic


@dataclass(frozen=True)
class MapOptimality(Experiment):
    """Experiment.

    Whether RankNet's lambda and mu are a local optimum of MAP, beside Direct's.

    Metzler (SIGIR 2007) minimises the RankNet cost in place of a measure. Here the measure is examined
    at RankNet's choice as Yue and Burges (2007) examine NDCG at LambdaRank's weights: along each
    parameter, and by random directions in (logit lambda, log mu), where RankNet searched. Direct's
    choice is the control.
    """

    name: ClassVar[str] = "map-optimality"
    quick: ClassVar[Mapping[str, Any]] = {"topics": 200, "steps": (0.01, 0.1, 1.0)}

    dataset: str = option("pydocs", COLLECTION_HELP)
    topics: int = option(0, "how many topics, drawn by the seed; 0 for all", low=0)
    measure: str = option("AP", "AP, P@k, Bpref, nDCG@k ")
    directions: int = option(
        landscape.directions_needed(_CONFIDENCE, _SHARE), "random directions from each choice", low=1
    )
    steps: tuple[float, ...] = option(
        (0.01, 0.03, 0.1, 0.3, 1.0), "step sizes in (logit lambda, log mu)", above=0, fewest=1
    )
    seed: int = option(0, "of topics, directions and the methods' starts", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_measure(self.measure)

    @cached_property
    def judged_by(self) -> Measure:
        """The measure."""
        return parse_measure(self.measure)

    def units(self) -> list[Unit]:
        """Return a unit a choice."""
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
            Rows of tables: ``points``, the choice; ``ascents``, `StepCounts` by step; and for RankNet
            ``lines`` of `experiments.lines.cost_lines`,
            and ``notes`` of the tuning.
        """
        pool = load_pool(self.dataset, topics=self.topics, seed=self.seed)
        measure, steps = self.judged_by, sorted(self.steps)
        plan = Plan((measure,), approx=False, final=False, seed=self.seed)
        result = run_experiment(pool, [Fold(pool.topics, pool.topics)], plan)
        [fit] = next(row.fits for row in result.rows if row.method == method)
        mean = MeanOnPool(pool, measure, plan.space, plan.depth)
        at = plan.space.to_unbounded(plan.space.vector(fit.params))
        directions = landscape.random_directions(self.directions, _SCALE, seed=self.seed)
        mean.remember(np.concatenate([at + np.array(steps)[:, None] * direction for direction in directions]))
        test = count_ascents(mean, at, _SCALE, steps, self.directions, self.seed, _CONFIDENCE)
        point = {"method": method, **fit.params, "value": test.value, "at_edge": ", ".join(fit.at_edge)}
        rows = [
            {"method": method, "step": step["step"], "inside": self.directions - step["outside"], **step}
            for step in map(asdict, test.steps)
        ]
        record: dict[str, Any] = {"points": [point | {"evaluations": fit.evaluations}], "ascents": rows}
        if method == RANKNET:
            direct = next(row.fits[0].params for row in result.rows if row.method == DIRECT)
            record["lines"] = cost_lines(pool, plan, measure, fit.params, direct).to_dict("records")
            record["notes"] = [{"note": note} for note in result.notes]
        return record

    def pictures(self, tables: Tables) -> list[Picture]:
        """Draw cost and measure along lines, and the share of ascending directions by step."""
        title, group = self.judged_by.title, short_name(self.dataset)
        caption = f"{title} and the RankNet cost along lines through RankNet's choice"
        lines = Picture("lines", caption, draw_cost_lines(tables["lines"], measure=title), group)
        counts = tables["ascents"].assign(collection=group)
        step = "step in (logit λ, log μ)"
        return [lines, draw_ascents(counts, "ascents", "collection", "method", step, title, _SHARE)]

    def claims(self) -> Sequence[Claim]:
        """Claim that either choice is a local optimum of the measure."""
        title = self.judged_by.title
        choices = figures("points", "method", "value lambda mu at_edge")
        return (
            Claim(f"{short_name(self.dataset)}, {title} at the methods' choices", choices),
            ascent_claim("ascents", "method", title, _SHARE, _CONFIDENCE),
        )


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
        means_at = [self.known.get(point.tobytes(), math.nan) for point in points]
        return np.array(means_at, np.float64)


@dataclass(frozen=True)
class Optimality(NetExperiment):
    """Experiment.

    Optimality: is a trained net at a local optimum of a measure? Random directions say.

    After Yue and Burges (2007, section 5.3), who find LambdaRank at a local optimum of NDCG. Linear and
    two-layer nets are trained to convergence by several losses, in full, on all training queries. On the same
    queries the measure is then taken

    - at points a step away in random directions, at steps from a thousandth of the weights' norm to
      all of it: the one-sided Monte Carlo test of `experiments.landscape`, with the directions
      of `experiments.networks.FlatNetwork.scale`;
    - with one weight at a time shifted by a percentage of its trained value.

    LambdaRank has the measure's cutoff as its truncation, for it is to follow that measure.
    """

    name: ClassVar[str] = "optimality"
    quick: ClassVar[Mapping[str, Any]] = {
        "data": "artificial:300",
        "losses": ("lambdarank", "ranknet"),
        "steps": (0.01, 0.1, 1.0),
        "shifts": 11,
        "weights": 10,
        "epochs": 40,
        "batch_size": 60,
    }

    losses: tuple[str, ...] = option(
        ("lambdarank", "ranknet", "approxndcg", "song"), "what to train by", choices=loss_names(), fewest=1
    )
    confidence: float = option(0.99, "of the bounds on the share of ascending directions", above=0, below=1)
    share: float = option(
        0.01, "the share to bound, which makes how many directions are needed", above=0, below=1
    )
    steps: tuple[float, ...] = option(
        (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0), "steps, relative to the weights' norm", above=0, fewest=1
    )
    shift: float = option(50.0, "largest shift of a single weight, percent", above=0)
    shifts: int = option(21, "shifts of a single weight, an odd number", low=3)
    weights: int = option(50, "single weights a net, the largest of each layer first", low=1)
    epochs: int = option(100, "passes over the training queries, by a two-layer net four times that", low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        odd("shifts", self.shifts)

    def units(self) -> list[Unit]:
        """Return one piece of work a network and loss."""
        return [
            Unit(f"{network}-{loss}", self.examine, {"network": network, "loss": loss})
            for network in dict.fromkeys(self.networks)
            for loss in dict.fromkeys(self.losses)
        ]

    def examine(self, network: str, loss: str) -> dict[str, Any]:
        """Train a network by a loss, count ascending directions and shift single weights."""
        times = 1 if network == "linear" else _MORE
        trained, (train, held_out) = self.trained(network, loss, times)
        measure, sign = self.judged_by, self.higher
        flat, objective = trained.network, NetworkMeasure(trained.network, train, measure)
        directions = landscape.directions_needed(self.confidence, self.share)
        test = count_ascents(
            objective, flat.point, flat.scale(), self.steps, directions, self.seed, self.confidence
        )
        shifts = np.linspace(-self.shift, self.shift, self.shifts)
        # Gains, so that more is better for costs as well.
        gains = {
            flat.name(weight): objective.at_weight(flat.point, weight, values) - test.value
            for weight in _largest(flat, self.weights)
            for values in [(1 + shifts / 100) * flat.point[weight]]
        }
        top = max(gains, key=lambda name: gains[name].max())
        key = {"network": network, "loss": loss}
        net = key | {
            **{"weights": flat.point.size, "train": sign * test.value},
            "test": sign * NetworkMeasure(flat, held_out, measure)(flat.point),
            **{"gradient": trained.gradient, "first_gradient": trained.first_gradient},
            **{"directions": test.directions, "swept": len(gains)},
            "best_as_trained": sum(bool((gain <= 0.0).all()) for gain in gains.values()),
            **{"best_shifted": top, "best_shift": float(shifts[np.argmax(gains[top])])},
            "best_gain": float(gains[top].max()),
        }
        counts = [
            {**key, "directions": test.directions, **step}
            | {"fewer": step["bound"] < self.share, "clearly_fewer": step["clear_bound"] < self.share}
            for step in map(asdict, test.steps)
        ]
        sweeps = [
            {**key, "weight": name, "shift": shift, "gain": value}
            for name, gain in gains.items()
            for shift, value in zip(shifts.tolist(), gain.tolist(), strict=True)
        ]
        return {"nets": [net], "directions": counts, "sweeps": sweeps}

    def pictures(self, tables: Tables) -> list[Picture]:
        """Draw the share of directions that ascend by step size, and the gains of single weights."""
        title = self.judged_by.title
        step = "step, relative to the weights' norm"
        shift, gain = "shift of one weight (% of its trained value)", f"change of mean {title}"
        sweeps = tables["sweeps"].assign(panel=lambda rows: rows["network"] + ", " + rows["loss"])
        highest = sweeps.groupby(["panel", "shift"], sort=False)["gain"].max().reset_index()
        highest["weight"] = "the highest of all"
        both = pd.concat([sweeps, highest]).rename(columns={"shift": shift, "gain": gain})
        chart = Chart(shift, gain, "weight", "panel", bold="the highest of all", levels={"": (0.0,)})
        chart = replace(chart, wide=sweeps["loss"].nunique())
        caption = f"{title} through trained weights, one at a time"
        return [
            draw_ascents(tables["directions"], "directions", "network", "loss", step, title, self.share),
            chart.draw(both, "sweeps", caption),
        ]

    def claims(self) -> Sequence[Claim]:
        """Claim for each net that it is at a local optimum, and tell from which step on."""
        title = self.judged_by.title
        shifted = "weights=swept best_as_trained best_shifted best_shift best_gain"
        return (
            Claim(
                f"{title}, and the gradient's norm",
                figures("nets", "network loss", "train test first_gradient gradient"),
            ),
            ascent_claim("directions", "network loss", title, self.share, self.confidence),
            Claim(
                f"Steps from which fewer than {self.share:.4g} of directions ascend", _first_steps(self.share)
            ),
            Claim(
                f"Single weights shifted by up to {self.shift:g}%", figures("nets", "network loss", shifted)
            ),
        )


def _largest(flat: FlatNetwork, count: int) -> list[int]:
    """Return weights: those to the score first, then the others, the largest of each first."""
    inner = np.arange(flat.point.size) < flat.last.start
    order = np.lexsort((-np.abs(flat.point), inner))
    return [int(weight) for weight in order[:count]]
