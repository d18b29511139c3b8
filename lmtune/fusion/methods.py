"""Methods of fusing runs: normalisations of scores, options, and what was chosen."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

from lmtune.arrays import Booleans, Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.errors import InputError, PathLike
from lmtune.fusion.certificate import BOXES
from lmtune.fusion.runs import MINIMUM, POOL_DEPTH, ZERO, Columns, RunSet, Scores, WeightedSum, ranks
from lmtune.fusion.search import WeightFit, fit_forward, fit_linear, fit_shrunk
from lmtune.io.digests import read_json
from lmtune.io.rows import Qrels
from lmtune.io.runs import Ranking
from lmtune.io.term_values import topic_weights_option
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.measure import parse_measure
from lmtune.options import check, option, usual
from lmtune.progress import note, quantity

Logistic = Doubles
"""Runs' a and b, shape (2, runs)."""

_RRF_K = 60.0
"""The constant of Cormack, Clarke and Büttcher (SIGIR 2009)."""


def _per_run(of: Callable[[Doubles], Doubles]) -> Columns:
    """Apply a function to each run's own scores."""

    def columns(scores: Scores) -> Scores:
        out = np.full(scores.shape, np.nan)
        for row, own in zip(out, scores, strict=True):
            held = ~np.isnan(own)
            if held.any():
                row[held] = of(own[held])
        return out

    return columns


def _min_max(s: Doubles) -> Doubles:
    return (s - s.min()) / np.ptp(s) if np.ptp(s) > 0.0 else np.ones_like(s)


def _z_score(s: Doubles) -> Doubles:
    return (s - s.mean()) / s.std() if np.ptp(s) > 0.0 else np.ones_like(s)


def _sum(s: Doubles) -> Doubles:
    return (s - s.min()) / (s - s.min()).sum() if np.ptp(s) > 0.0 else np.full_like(s, 1.0 / s.size)


def _rank(scores: Scores) -> Scores:
    sizes = (~np.isnan(scores)).sum(axis=1, keepdims=True)
    found: Scores = (sizes - ranks(scores) + 1.0) / np.maximum(sizes, 1)
    return found


NORMALISATIONS: dict[str, Columns] = {
    "min-max": _per_run(_min_max),
    "z-score": _per_run(_z_score),
    "sum": _per_run(_sum),
    "rank": _rank,
    "none": lambda scores: scores,
}
"""From the least score 0 to the greatest 1; mean 0 and standard deviation 1; least 0 and sum 1; from the
last rank 1/n to the first 1; as they are. Equal scores, such as a single document's, become 1 by the first
two and 1/n by the third."""


LOGISTIC = "logistic"
"""The normalisation by each run's own `fit_logistic`."""


def fit_logistic(scores: Doubles, relevant: Booleans) -> tuple[float, float]:
    """Fit a and b of ``1 / (1 + exp(-(a score + b)))`` to what of some documents is relevant.

    As Platt (Advances in Large Margin Classifiers, 2000) does: by likelihood, of n relevant ones each
    counts as relevant to (n + 1) / (n + 2), and the others likewise, so that a and b are always finite.

    Parameters
    ----------
    scores : numpy.ndarray of float64, shape (documents,)
        At least one.
    relevant : numpy.ndarray of bool, shape (documents,)
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    found, centre, spread = int(relevant.sum()), float(scores.mean()), float(scores.std()) or 1.0
    target = np.where(relevant, (found + 1) / (found + 2), 1 / (scores.size - found + 2))
    x = np.stack(((scores - centre) / spread, np.ones_like(scores)))

    def cost(ab: Doubles) -> tuple[float, Doubles]:
        z = ab @ x
        return float((np.logaddexp(0.0, z) - target * z).mean()), x @ (expit(z) - target) / scores.size

    a, b = minimize(cost, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-9}).x.tolist()
    return a / spread, b - a * centre / spread


def _scale(normalise: str, fitted: Logistic | None) -> Columns:
    """Return a normalisation by its name, or by runs' logistic functions, shape (2, runs)."""
    if fitted is None:
        return NORMALISATIONS[normalise]
    from scipy.special import expit

    a, b = fitted[:, :, None]
    return lambda scores: np.asarray(expit(a * scores + b))


def normalised(normalise: str, missing: str, fitted: Logistic | None = None) -> Columns:
    """Return normalised scores; a missing document gets the topic's minimum, or 0.

    With the minimum, all values of a topic are less by it: that changes no order. Where all values of a run
    are equal, its minimum would put retrieved and missing documents on a level: missing ones get 0 if that
    is less. Where runs' logistic functions are fitted, these normalise.
    """
    scale = _scale(normalise, fitted)

    def columns(scores: Scores) -> Scores:
        values = scale(scores)
        if missing == MINIMUM:
            held = ~np.isnan(values)
            least = np.min(values, axis=1, initial=np.inf, where=held, keepdims=True)
            most = np.max(values, axis=1, initial=-np.inf, where=held, keepdims=True)
            values = values - np.where(least < most, least, np.minimum(most, 0.0))
        filled: Scores = np.nan_to_num(values, nan=0.0)
        return filled

    return columns


def counted_scores(normalise: str, power: float, fitted: Logistic | None = None) -> Columns:
    """Return normalised scores times a power of the number of runs that retrieved the document.

    With equal weights they add up to CombSUM (power 0), CombMNZ (1) and CombANZ (-1) of Fox and Shaw
    (TREC-2, 1994); a missing document adds 0.
    """
    scale = _scale(normalise, fitted)

    def columns(scores: Scores) -> Scores:
        runs = np.maximum((~np.isnan(scores)).sum(axis=0), 1)
        found: Scores = np.nan_to_num(scale(scores), nan=0.0) * runs ** float(power)
        return found

    return columns


def reciprocal_ranks(k: float) -> Columns:
    """Return 1 / (k + rank)."""
    return lambda scores: np.nan_to_num(1.0 / (k + ranks(scores)), nan=0.0)


def borda(scores: Scores) -> Scores:
    """Return Borda's points: with c documents in all, c for the first, one less for each next.

    Documents that a run has not retrieved share what is left (Aslam and Montague, SIGIR 2001); as no
    order changes, all points of a run are less by that.
    """
    documents = scores.shape[1]
    retrieved = (~np.isnan(scores)).sum(axis=1, keepdims=True)
    points = documents - ranks(scores) + 1.0 - (documents - retrieved + 1.0) / 2.0
    found: Scores = np.nan_to_num(points, nan=0.0)
    return found


# Constants of reciprocal rank fusion among which its tuned row chooses.
RRF_KS = (1.0, 5.0, 20.0, 60.0, 200.0)
# Powers of the number of runs that retrieved a document; CombANZ, CombSUM and CombMNZ are among them.
MNZ_POWERS = (-1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
SCALES = (*NORMALISATIONS, LOGISTIC)
# Of what is read from a file, so that sums and products stay finite.
_LARGEST, _LARGEST_COUNT = 1e30, 2**31 - 1
SINGLE = "single"
"""The method of a run that is used as it is."""
CHOOSE = "choose"
"""In place of a normalisation: the best on each fold's training topics."""
# Line searches look at each run's weight by itself, which takes hours where there are many runs.
FEW = 8


class FusionMethod(NamedTuple):
    """How runs are fused.

    Attributes
    ----------
    columns : callable
        Makes columns, given `FusionOptions`, a constant, and runs' logistic functions where these normalise.
    fit : callable, optional
        Chooses weights on topics of a pool, and says what that took; without it they are equal.
    constants : tuple of float
        Those among which a tuned method chooses.
    is_scored : bool
        Whether it depends on the normalisation of scores.
    of_few : bool
        Whether it is made for `FEW` runs at most, and of more only used where it is asked for.
    is_usual : bool
        Whether it is used where no method is asked for.
    """

    columns: Callable[[FusionOptions, float, Logistic | None], Columns]
    fit: WeightFit | None = None
    constants: tuple[float, ...] = (0.0,)
    is_scored: bool = True
    of_few: bool = False
    is_usual: bool = True


def _scores(own: FusionOptions, _: float, fitted: Logistic | None) -> Columns:
    return normalised(own.normalise, own.missing, fitted)


def _counts(own: FusionOptions, power: float, fitted: Logistic | None) -> Columns:
    return counted_scores(own.normalise, power, fitted)


def _to_the(power: float) -> Callable[[FusionOptions, float, Logistic | None], Columns]:
    return lambda own, _, fitted: _counts(own, power, fitted)


def _reciprocal(_own: FusionOptions, k: float, _: Logistic | None) -> Columns:
    return reciprocal_ranks(k)


METHODS = {
    "linear": FusionMethod(_scores, fit_linear, of_few=True),
    "shrunk": FusionMethod(_scores, fit_shrunk),
    "forward": FusionMethod(_scores, fit_forward),
    "rrf-tuned": FusionMethod(_reciprocal, fit_linear, constants=RRF_KS, is_scored=False, of_few=True),
    "equal": FusionMethod(_scores),
    "rrf": FusionMethod(lambda own, *_: reciprocal_ranks(own.rrf_k), is_scored=False),
    "rrf-k": FusionMethod(_reciprocal, constants=RRF_KS, is_scored=False, is_usual=False),
    "combsum": FusionMethod(_to_the(0.0)),
    "combmnz": FusionMethod(_to_the(1.0)),
    "combmnz-tuned": FusionMethod(_counts, constants=MNZ_POWERS, is_usual=False),
    "combanz": FusionMethod(_to_the(-1.0)),
    "borda": FusionMethod(lambda *_: borda, is_scored=False),
}
_SEARCHED = " and ".join(name for name, method in METHODS.items() if method.of_few)
_UNUSUAL = ", ".join(name for name, method in METHODS.items() if not method.is_usual)


@dataclass(frozen=True)
class FusionOptions:
    """How runs are fused and judged."""

    measure: tuple[str, ...] = usual(
        ("nDCG@10",), "What to maximise; repeat it for several.", flag="--measure -m", separator=None
    )
    method: tuple[str, ...] = usual(
        (),
        f"{', '.join(METHODS)}; by default all but {_UNUSUAL}, and of more than {FEW} runs {_SEARCHED}.",
        choices=tuple(METHODS),
    )
    normalise: str = usual(
        "min-max",
        f"{', '.join(SCALES)} (fitted to judgments in training), or {CHOOSE}: the best in training.",
        choices=(*SCALES, CHOOSE),
    )
    missing: str = option(
        MINIMUM,
        "What a document gets that a run lacks: the topic's minimum, or zero.",
        choices=(MINIMUM, ZERO),
    )
    window: tuple[int, ...] = option(
        (0,), "How many first documents of a run count, 0 for all; of several, the best in training.", low=0
    )
    rrf_k: float = option(_RRF_K, "The constant of reciprocal rank fusion.", low=0)
    restarts: int = option(0, "Further starts of the line searches, drawn at random.", low=0)
    folds: str = usual("5", "Cross-validation: how many folds, or a JSON file of them.", metavar="N|FILE")
    topic_weights: Mapping[str, float] | None = topic_weights_option()
    train_topics: str | None = option(None, "Choose on these: 51-100, a list 51,52 or a file.")
    test_topics: str | None = option(None, "Report on these; default: all others.")
    in_sample: bool = option(False, "No cross-validation.")
    bootstrap: int = option(100, "Resamples of topics for the weights' intervals; 0 for none.", low=0)
    certify: float | None = usual(
        None, "Prove that no weights do better in sample than linear's by more than this.", low=0
    )
    leave_out: tuple[str, ...] = option(
        (), "Leave out of the judgments what these runs alone have among their first --pool-depth."
    )
    pool_depth: int | None = option(None, f"How deep runs were judged; else a guess, {POOL_DEPTH}.", low=1)
    boxes: int = option(BOXES, "How many boxes of weights a proof may bound.", low=1)
    depth: int = option(DEPTH, "Run depth.", low=1)
    seed: int = option(0, "Of folds, restarts and resamples.", low=0)


@dataclass(frozen=True)
class Chosen:
    """What fuses runs: all that is needed for other topics.

    Attributes
    ----------
    method : str
        Of `METHODS`; or `SINGLE`.
    weights : dict of str to float
        By run; only their proportions count. Of a single run, those of others are 0.
    constant : float
        Reciprocal rank fusion's k, CombMNZ's power; 0 where there is none.
    normalise : str
        The normalisation, where it was chosen; else that of the options.
    window : int
        How many of each run's first documents count; 0 for all.
    logistic : dict of str to (float, float)
        By run, a and b of `lmtune.fusion.methods.fit_logistic`, where that normalises.
    depths : dict of str to int
        By run, the most documents that it had for a topic; empty where that is not known.
    """

    method: str
    weights: dict[str, float]
    constant: float = 0.0
    normalise: str = ""
    window: int = 0
    logistic: dict[str, tuple[float, float]] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)

    @property
    def single_run(self) -> str | None:
        """The run that is used as it is; None for a fusion."""
        return max(self.weights, key=self.weights.__getitem__) if self.method == SINGLE else None

    @property
    def setting(self) -> dict[str, float]:
        """The parameters of the sum."""
        if self.single_run is not None:
            return {self.single_run: 1.0}
        return self.weights

    @property
    def said(self) -> list[str]:
        """What was chosen besides weights, in words."""
        said = [f"{'power' if 'mnz' in self.method else 'k'} = {self.constant:g}"] if self.constant else []
        said += [self.normalise] if self.normalise else []
        return [*said, f"the first {self.window}"] if self.window else said

    def renamed(self, names: Mapping[str, str]) -> Chosen:
        """Return the same for runs of other names, given these by the old ones."""
        weights = {names[name]: weight for name, weight in self.weights.items()}
        logistic = {names[name]: own for name, own in self.logistic.items()}
        depths = {names[name]: depth for name, depth in self.depths.items()}
        return replace(self, weights=weights, logistic=logistic, depths=depths)

    @property
    def shares(self) -> dict[str, float]:
        """The weights, adding up to 1."""
        total = sum(self.weights.values()) or 1.0
        return {name: weight / total for name, weight in self.weights.items()}


def rankings(runs: RunSet, chosen: Chosen, options: FusionOptions) -> Sequence[Ranking]:
    """Rank all topics of runs with what was chosen, which names these runs."""
    return rank(fused_pool(runs, chosen, options), chosen.setting, hits=options.depth)


def fused_pool(
    runs: RunSet,
    chosen: Chosen,
    options: FusionOptions,
    qrels: Qrels | None = None,
    topics: Sequence[str] | None = None,
) -> CandidatePool:
    """Return the pool on which a choice's weights add runs up; see `RunSet.pool`."""
    if chosen.single_run is not None:
        return runs.only(chosen.single_run).pool(_points_by_rank, qrels, topics)
    method, runs = METHODS[chosen.method], runs.first(chosen.window)
    if chosen.normalise:
        options = replace(options, normalise=chosen.normalise)
    fitted = np.array([chosen.logistic[name] for name in runs.names]).T if chosen.logistic else None
    return runs.pool(method.columns(options, chosen.constant, fitted), qrels, topics)


def _points_by_rank(scores: Doubles) -> Doubles:
    """Return points that fall with the rank; the last retrieved has as many as documents were retrieved."""
    points: Doubles = scores.shape[1] - ranks(scores) + 1.0
    return points


def kept_fusion(
    path: PathLike, *, measure: str | None = None, method: str | None = None
) -> tuple[Chosen, FusionOptions]:
    """Read what `lmtune fuse --format json` printed: what was chosen, and the options that it depends on.

    Parameters
    ----------
    path : path-like
        The file.
    measure, method : str, optional
        Which row to take; by default the fusion that was recommended, or the only one asked for.

    Raises
    ------
    InputError
        For a file that is anything else, or without such a row.
    """
    accepted = "what lmtune fuse --format json printed"
    content = read_json(path, {"output": dict, "options": dict}, accepted=accepted)
    wanted = None if measure is None else str(parse_measure(measure))
    kept, others = content["options"], ""
    # Up to version 0.3 there were also powers, empty unless weights depended on the query.
    output = {name: own for name, own in content["output"].items() if name != "powers" or own}
    try:
        if not (measure is None and method is None):
            output, others = _output_of_row(content, wanted, method)
    except (KeyError, TypeError, AttributeError, IndexError):
        raise InputError("not a fusion", file=path, accepted=accepted) from None
    if others:
        named = " ".join(filter(None, [wanted, method]))
        raise InputError("no fusion by this measure and method", file=path, value=named, accepted=others)
    try:
        options = FusionOptions(**{name: kept[name] for name in ("normalise", "missing", "rrf_k", "depth")})
        check(options)
        return _checked(Chosen(**output), options), options
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InputError("not a fusion", file=path, accepted=accepted) from None


def _checked(chosen: Chosen, options: FusionOptions) -> Chosen:
    """Return a choice with numbers of the right kinds; raise ValueError or TypeError for any other."""
    weights = {str(name): float(value) for name, value in chosen.weights.items()}
    depths = {str(name): operator.index(depth) for name, depth in chosen.depths.items()}
    logistic = {str(name): (float(a), float(b)) for name, (a, b) in chosen.logistic.items()}
    scored = chosen.method != SINGLE and METHODS[chosen.method].is_scored
    scale = chosen.normalise or options.normalise
    numbers = [*itertools.chain(*logistic.values()), float(chosen.constant)]
    counts = [1, *depths.values(), operator.index(options.depth)]
    valid = (
        all(abs(number) <= _LARGEST for number in (*numbers, options.rrf_k)),
        all(0.0 <= weight <= _LARGEST for weight in weights.values()),
        0 <= operator.index(chosen.window) <= _LARGEST_COUNT,
        depths.keys() <= weights.keys() and 0 < min(counts) <= max(counts) <= _LARGEST_COUNT,
        not scored or scale in SCALES,
        logistic.keys() == (weights.keys() if scored and scale == LOGISTIC else set()),
    )
    if not all(valid):
        raise ValueError
    return replace(chosen, weights=weights, logistic=logistic, depths=depths)


def _output_of_row(
    content: Mapping[str, Any], measure: str | None, method: str | None
) -> tuple[dict[str, Any], str]:
    """Return what a row chose, by default that of the first measure and the recommended one.

    Without such a row, return the measures and methods that there are.
    """
    rows = content["rows"]
    measure = rows[0]["measure"] if measure is None else measure
    for row in rows:
        is_named = row["recommended"] if method is None else row["method"] == method.lower()
        if row["measure"] == measure and is_named:
            output = {one.name: row[one.name] for one in fields(Chosen) if row.get(one.name)}
            weights = {run: row["weights"].get(run, 0.0) for run in content["runs"]}
            return output | {"weights": weights, "depths": content["output"].get("depths", {})}, ""
    return {}, ", ".join(dict.fromkeys(f"{row['measure']} {row['method']}" for row in rows))


def for_runs(chosen: Chosen, runs: RunSet) -> Chosen:
    """Return what was chosen for other runs, told by their names or else, which a note says, by their order.

    Raises
    ------
    InputError
        For another number of runs.
    """
    weights = chosen.weights
    if len(runs.names) != len(weights):
        raise InputError("another number of runs", value=list(runs.given), accepted=", ".join(weights))
    if set(runs.names) != set(weights):
        pairs = [f"{run} for {name}" for run, name in zip(runs.given, weights, strict=True)]
        note(f"runs of other names, taken in their order: {', '.join(pairs)}")
        chosen = chosen.renamed(dict(zip(weights, runs.given, strict=True)))
    return chosen


def ties_of(pool: CandidatePool) -> int:
    """Return how many unequal scores rounding made equal in a pool of runs."""
    assert isinstance(pool.formula, WeightedSum)
    return pool.formula.tied


def note_ties(tied: int) -> None:
    """Say how many unequal scores rounding made equal."""
    if tied:
        note(
            f"{quantity(tied, 'score')} of a run and topic, less than 2^-30 of the largest from the next, "
            "added up as equal to it"
        )
