"""Fusion methods: score normalisations, options and fitted fusions."""

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
from lmtune.fusion.runs import (
    MINIMUM,
    POOL_DEPTH,
    ZERO,
    Columns,
    RunSet,
    Scores,
    WeightedSum,
    order_of,
    ranks,
)
from lmtune.fusion.search import WeightFit, fit_forward, fit_linear, fit_shrunk
from lmtune.fusion.spaces import SPACES, Variant
from lmtune.io.digests import read_json
from lmtune.io.rows import Qrels
from lmtune.io.runs import Ranking
from lmtune.io.term_values import topic_weights_option
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.measure import parse_measure
from lmtune.options import check, option, usual
from lmtune.progress import note, quantity

Logistic = Doubles
"""The parameters a and b of the runs' logistic functions, shape (2, runs)."""

_RRF_K = 60.0
"""The constant k that Cormack, Clarke and Büttcher (SIGIR 2009) use."""


def _per_run(normalise: Callable[[Doubles], Doubles]) -> Columns:
    """Apply a function to the scores of each run."""

    def columns(scores: Scores) -> Scores:
        out = np.full(scores.shape, np.nan)
        for row, run_scores in zip(out, scores, strict=True):
            is_retrieved = ~np.isnan(run_scores)
            if is_retrieved.any():
                row[is_retrieved] = normalise(run_scores[is_retrieved])
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
    values: Scores = (sizes - ranks(scores) + 1.0) / np.maximum(sizes, 1)
    return values


NORMALISATIONS: dict[str, Columns] = {
    "min-max": _per_run(_min_max),
    "z-score": _per_run(_z_score),
    "sum": _per_run(_sum),
    "rank": _rank,
    "none": lambda scores: scores,
}
"""Score normalisations by name.

``min-max`` maps the minimum to 0 and the maximum to 1. ``z-score`` gives mean 0 and standard deviation 1.
``sum`` gives minimum 0 and sum 1. ``rank`` maps the last of n ranks to 1/n and the first to 1. ``none``
leaves scores unchanged. If all n scores are equal, ``min-max`` and ``z-score`` return 1, ``sum`` 1/n.
"""


LOGISTIC = "logistic"
"""Name of the normalisation by a logistic function, fitted to each run by `fit_logistic`."""


def fit_logistic(scores: Doubles, relevant: Booleans) -> tuple[float, float]:
    """Fit the logistic function ``1 / (1 + exp(-(a score + b)))`` to relevance by maximum likelihood.

    Targets are smoothed as by Platt (Advances in Large Margin Classifiers, 2000), so that a and b are finite:
    with n relevant and m other documents, (n + 1) / (n + 2) for the relevant ones and 1 / (m + 2) for the
    others.

    Parameters
    ----------
    scores : numpy.ndarray of float64, shape (documents,)
        At least one score.
    relevant : numpy.ndarray of bool, shape (documents,)
        Which documents are relevant.

    Returns
    -------
    (float, float)
        a and b.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    n, centre, spread = int(relevant.sum()), float(scores.mean()), float(scores.std()) or 1.0
    target = np.where(relevant, (n + 1) / (n + 2), 1 / (scores.size - n + 2))
    x = np.stack(((scores - centre) / spread, np.ones_like(scores)))

    def cost(ab: Doubles) -> tuple[float, Doubles]:
        z = ab @ x
        return float((np.logaddexp(0.0, z) - target * z).mean()), x @ (expit(z) - target) / scores.size

    a, b = minimize(cost, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-9}).x.tolist()
    return a / spread, b - a * centre / spread


def _scale(normalise: str, fitted: Logistic | None) -> Columns:
    """Return the normalisation of this name, or the fitted logistic functions if there are any."""
    if fitted is None:
        return NORMALISATIONS[normalise]
    from scipy.special import expit

    a, b = fitted[:, :, None]
    return lambda scores: np.asarray(expit(a * scores + b))


def normalised(normalise: str, missing: str, fitted: Logistic | None = None) -> Columns:
    """Return a function that normalises scores; a missing document gets the run's minimum or 0.

    With the minimum, the minimum is subtracted from all values of a run and topic, which changes no ranking.
    If all values of a run are equal, its minimum would not separate retrieved and missing documents; the
    smaller of this value and 0 is used instead.

    Parameters
    ----------
    normalise : str
        A key of `NORMALISATIONS`; ignored if `fitted` is given.
    missing : {"minimum", "zero"}
        The value of missing documents.
    fitted : numpy.ndarray of float64, shape (2, runs), optional
        Logistic functions that normalise the runs' scores.
    """
    scale = _scale(normalise, fitted)

    def columns(scores: Scores) -> Scores:
        values = scale(scores)
        if missing == MINIMUM:
            is_retrieved = ~np.isnan(values)
            least = np.min(values, axis=1, initial=np.inf, where=is_retrieved, keepdims=True)
            most = np.max(values, axis=1, initial=-np.inf, where=is_retrieved, keepdims=True)
            values = values - np.where(least < most, least, np.minimum(most, 0.0))
        filled: Scores = np.nan_to_num(values, nan=0.0)
        return filled

    return columns


def counted_scores(normalise: str, power: float, fitted: Logistic | None = None) -> Columns:
    """Return a function that multiplies normalised scores by a power of the number of runs with the document.

    With equal weights, the sums are CombSUM (power 0), CombMNZ (1) and CombANZ (-1) of Fox and Shaw (TREC-2,
    1994). A missing document adds 0.
    """
    scale = _scale(normalise, fitted)

    def columns(scores: Scores) -> Scores:
        runs = np.maximum((~np.isnan(scores)).sum(axis=0), 1)
        values: Scores = np.nan_to_num(scale(scores), nan=0.0) * runs ** float(power)
        return values

    return columns


def reciprocal_ranks(k: float) -> Columns:
    """Return a function that maps scores to 1 / (k + rank), and missing documents to 0."""
    return lambda scores: np.nan_to_num(1.0 / (k + ranks(scores)), nan=0.0)


def borda(scores: Scores) -> Scores:
    """Return Borda points: of c documents, the first gets c points, the next c - 1 and so on.

    Documents that a run has not retrieved share the remaining points equally (Aslam and Montague, SIGIR
    2001). Their share is subtracted from all points of the run, which changes no ranking.
    """
    documents = scores.shape[1]
    retrieved = (~np.isnan(scores)).sum(axis=1, keepdims=True)
    points = documents - ranks(scores) + 1.0 - (documents - retrieved + 1.0) / 2.0
    values: Scores = np.nan_to_num(points, nan=0.0)
    return values


# Constants that tuned reciprocal rank fusion tries.
RRF_KS = (1.0, 5.0, 20.0, 60.0, 200.0)
# Powers of the number of runs with a document; CombANZ, CombSUM and CombMNZ are -1, 0 and 1.
MNZ_POWERS = (-1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
SCALES = (*NORMALISATIONS, LOGISTIC)
# Limits of values that are read from a file, so that sums and products are finite.
_LARGEST, _LARGEST_COUNT = 1e30, 2**31 - 1
SINGLE = "single"
"""Name of the method that uses a single run unchanged."""
TUNED, ENGINE_DEFAULT = "tuned", "default"
"""Names of an engine's tuned variant and of its default, with ``--engine``."""
CHOOSE = "choose"
"""Option in place of a normalisation: the best one on the training topics of each fold."""
# Line searches take hours with more runs, since they search along the weight of each run.
FEW_RUNS = 8


class FusionMethod(NamedTuple):
    """A fusion method.

    Attributes
    ----------
    columns : callable
        Returns the function from scores to columns, for `FusionOptions`, a constant, and the runs' logistic
        functions or None.
    fit : callable, optional
        Fits weights; without it, weights are equal.
    constants : tuple of float
        Constants that are tried; with several, the best one on the training topics is used.
    is_scored : bool
        Whether the method depends on the normalisation of scores.
    is_for_few_runs : bool
        Whether the method is meant for at most `FEW_RUNS` runs. It must be requested for more runs.
    is_default : bool
        Whether the method is used if no methods are requested.
    """

    columns: Callable[[FusionOptions, float, Logistic | None], Columns]
    fit: WeightFit | None = None
    constants: tuple[float, ...] = (0.0,)
    is_scored: bool = True
    is_for_few_runs: bool = False
    is_default: bool = True


def _scores(options: FusionOptions, _: float, fitted: Logistic | None) -> Columns:
    return normalised(options.normalise, options.missing, fitted)


def _counts(options: FusionOptions, power: float, fitted: Logistic | None) -> Columns:
    return counted_scores(options.normalise, power, fitted)


def _counts_with_power(power: float) -> Callable[[FusionOptions, float, Logistic | None], Columns]:
    return lambda options, _, fitted: _counts(options, power, fitted)


def _reciprocal(_options: FusionOptions, k: float, _: Logistic | None) -> Columns:
    return reciprocal_ranks(k)


METHODS = {
    "linear": FusionMethod(_scores, fit_linear, is_for_few_runs=True),
    "shrunk": FusionMethod(_scores, fit_shrunk),
    "forward": FusionMethod(_scores, fit_forward),
    "rrf-tuned": FusionMethod(
        _reciprocal, fit_linear, constants=RRF_KS, is_scored=False, is_for_few_runs=True
    ),
    "equal": FusionMethod(_scores),
    "rrf": FusionMethod(lambda options, *_: reciprocal_ranks(options.rrf_k), is_scored=False),
    "rrf-k": FusionMethod(_reciprocal, constants=RRF_KS, is_scored=False, is_default=False),
    "combsum": FusionMethod(_counts_with_power(0.0)),
    "combmnz": FusionMethod(_counts_with_power(1.0)),
    "combmnz-tuned": FusionMethod(_counts, constants=MNZ_POWERS, is_default=False),
    "combanz": FusionMethod(_counts_with_power(-1.0)),
    "borda": FusionMethod(lambda *_: borda, is_scored=False),
}
_OF_ENGINE = FusionMethod(_scores, is_scored=False)  # its columns are not used: see `fused_pool`
_FOR_FEW_RUNS = " and ".join(name for name, method in METHODS.items() if method.is_for_few_runs)
_NOT_DEFAULT = ", ".join(name for name, method in METHODS.items() if not method.is_default)


@dataclass(frozen=True)
class FusionOptions:
    """Fusion and evaluation."""

    measure: tuple[str, ...] = usual(
        ("nDCG@10",), "Measure to maximise; repeat it for several.", flag="--measure -m", separator=None
    )
    method: tuple[str, ...] = usual(
        (),
        f"{', '.join(METHODS)}; by default all but {_NOT_DEFAULT}, and with more than {FEW_RUNS} runs also "
        f"without {_FOR_FEW_RUNS}.",
        choices=tuple(METHODS),
    )
    normalise: str = usual(
        "min-max",
        f"{', '.join(SCALES)} (fitted to training judgments), or {CHOOSE}: the best on the training topics.",
        choices=(*SCALES, CHOOSE),
    )
    engine: str | None = usual(
        None,
        f"Search only what this engine can express: {', '.join(SPACES)}.",
        choices=tuple(SPACES),
        metavar="ENGINE",
    )
    missing: str = option(
        MINIMUM,
        "Value of documents that a run lacks: its minimum for the topic, or zero.",
        choices=(MINIMUM, ZERO),
    )
    window: tuple[int, ...] = option(
        (0,),
        "First documents of each run to use, 0 for all; of several values, the best on the training topics.",
        low=0,
    )
    rrf_k: float = option(_RRF_K, "Constant k of reciprocal rank fusion.", low=0)
    restarts: int = option(0, "Additional random starts of the line searches.", low=0)
    folds: str = usual("5", "Cross-validation: number of folds, or a JSON file of folds.", metavar="N|FILE")
    topic_weights: Mapping[str, float] | None = topic_weights_option()
    train_topics: str | None = option(None, "Topics to tune on: 51-100, a list 51,52 or a file.")
    test_topics: str | None = option(None, "Topics to report on; default: all others.")
    in_sample: bool = option(False, "Tune and evaluate on the same topics, without cross-validation.")
    certify: float | None = usual(
        None,
        "Certify that no weights exceed linear's in-sample mean by more than this; with --engine, nothing "
        "that it can express exceeds tuned's.",
        low=0,
    )
    leave_out: tuple[str, ...] = option(
        (), "Leave out judgments of documents that only these runs have in their first --pool-depth ranks."
    )
    pool_depth: int | None = option(
        None, f"Depth to which runs were judged; by default {POOL_DEPTH}, a guess.", low=1
    )
    boxes: int = option(BOXES, "Maximum number of boxes of weights that a certificate bounds.", low=1)
    depth: int = option(DEPTH, "Run depth.", low=1)
    seed: int = option(0, "Seed of folds and restarts.", low=0)


@dataclass(frozen=True)
class Chosen:
    """A fusion with fixed method and weights, which can be applied to other topics.

    Attributes
    ----------
    method : str
        A key of `METHODS`, `SINGLE`, or with an engine `TUNED` or `ENGINE_DEFAULT`.
    weights : dict of str to float
        Weights by run; only their proportions matter, except for some engines. With the method `SINGLE`, one
        weight is positive.
    constant : float
        The k of reciprocal rank fusion or the power of CombMNZ; 0 for methods without a constant.
    normalise : str
        The normalisation if it was selected; empty if it is that of the options.
    window : int
        Number of first documents used of each run; 0 for all.
    logistic : dict of str to (float, float)
        By run, a and b of `lmtune.fusion.methods.fit_logistic`, if this is the normalisation.
    depths : dict of str to int
        By run, the largest number of documents for a topic; empty if unknown.
    engine : str
        The engine whose arithmetic is used, a key of `lmtune.fusion.spaces.SPACES`; empty without one. The
        runs are then in the order of the queries, and the normalisation has the engine's name.
    combine : str
        The engine's name of the combination.
    """

    method: str
    weights: dict[str, float]
    constant: float = 0.0
    normalise: str = ""
    window: int = 0
    logistic: dict[str, tuple[float, float]] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    engine: str = ""
    combine: str = ""

    @property
    def plan(self) -> FusionMethod:
        """The row of the method."""
        return _OF_ENGINE if self.engine else METHODS[self.method]

    @property
    def variant(self) -> Variant:
        """The engine's variant."""
        return Variant(self.normalise, self.combine, self.constant)

    @property
    def single_run(self) -> str | None:
        """The run that is used unchanged; None for a fusion of several."""
        return max(self.weights, key=self.weights.__getitem__) if self.method == SINGLE else None

    @property
    def setting(self) -> dict[str, float]:
        """The parameters of the pool's formula."""
        if self.single_run is not None:
            return {self.single_run: 1.0}
        return {self.engine: 1.0} if self.engine else self.weights

    @property
    def details(self) -> list[str]:
        """Texts of the selected parameters other than weights."""
        if self.engine:
            return [str(self.variant), *([f"the first {self.window}"] if self.window else [])]
        texts = [f"{'power' if 'mnz' in self.method else 'k'} = {self.constant:g}"] if self.constant else []
        texts += [self.normalise] if self.normalise else []
        return [*texts, f"the first {self.window}"] if self.window else texts

    def renamed(self, names: Mapping[str, str]) -> Chosen:
        """Return the fusion with other names of runs; `names` maps old names to new ones."""
        weights = {names[name]: weight for name, weight in self.weights.items()}
        logistic = {names[name]: parameters for name, parameters in self.logistic.items()}
        depths = {names[name]: depth for name, depth in self.depths.items()}
        return replace(self, weights=weights, logistic=logistic, depths=depths)

    @property
    def shares(self) -> dict[str, float]:
        """The weights, normalised to the sum 1."""
        total = sum(self.weights.values()) or 1.0
        return {name: weight / total for name, weight in self.weights.items()}


def rankings(
    runs: RunSet, chosen: Chosen, options: FusionOptions, hits: int | None = None
) -> Sequence[Ranking]:
    """Apply a fusion to all topics of runs; the fusion's weights have the names of these runs.

    Each topic has at most `hits` documents, by default the run depth of the options.
    """
    hits = options.depth if hits is None else hits
    ranked = rank(fused_pool(runs, chosen, options), chosen.setting, hits=hits)
    if not chosen.engine:
        return ranked
    part = runs.first(chosen.window)
    return [
        one._replace(
            scores=-np.sort(-_engine_scores(part, chosen, part.scores[one.topic]))[: len(one.docnos)]
        )
        for one in ranked
    ]


def tie_spans(runs: RunSet, chosen: Chosen) -> dict[str, dict[str, float]]:
    """Return, by topic and docno, how far an engine's scores depend on the order of ties inside the runs.

    Empty unless the engine combines ranks.
    """
    if not chosen.engine or SPACES[chosen.engine].combination(chosen.variant).ranked is None:
        return {}
    part, spans = runs.first(chosen.window), {}
    for topic, table in part.scores.items():
        falling = np.sort(-table, axis=1)  # missing documents are last
        pairs = [*zip(falling, -table, strict=True)]
        first = np.array([np.searchsorted(own, row, "left") + 1.0 for own, row in pairs])
        last = np.array([np.searchsorted(own, row, "right") for own, row in pairs])
        most, least = (
            _engine_scores(part, chosen, table, np.where(np.isnan(table), np.nan, by_rank))
            for by_rank in (first, last)
        )
        docnos = [part.docnos[doc] for doc in part.docs[topic]]
        spans[topic] = dict(zip(docnos, (most - least).tolist(), strict=True))
    return spans


def _engine_scores(runs: RunSet, chosen: Chosen, scores: Scores, by_rank: Doubles | None = None) -> Doubles:
    """Return the engine's scores of a topic's documents; ranks are by default trec_eval's."""
    order = [runs.names.index(name) for name in chosen.weights]
    weights = np.array([[*chosen.weights.values()]])
    ordered = None if by_rank is None else by_rank[order]
    [fused] = SPACES[chosen.engine].scores(scores[order], chosen.variant, weights, ordered)
    doubles: Doubles = fused.astype(np.float64)
    return doubles


def fused_pool(
    runs: RunSet,
    chosen: Chosen,
    options: FusionOptions,
    qrels: Qrels | None = None,
    topics: Sequence[str] | None = None,
) -> CandidatePool:
    """Return the candidate pool on which the fusion's weights are the setting; see `RunSet.pool`."""
    if chosen.single_run is not None:
        return runs.only(chosen.single_run).pool(_points_by_rank, qrels, topics)
    method, runs = chosen.plan, runs.first(chosen.window)
    if chosen.engine:
        fused = replace(runs, names=(chosen.engine,), input_order=(chosen.engine,))
        return fused.pool(lambda scores: order_of(_engine_scores(runs, chosen, scores))[None], qrels, topics)
    if chosen.normalise:
        options = replace(options, normalise=chosen.normalise)
    fitted = np.array([chosen.logistic[name] for name in runs.names]).T if chosen.logistic else None
    return runs.pool(method.columns(options, chosen.constant, fitted), qrels, topics)


def _points_by_rank(scores: Doubles) -> Doubles:
    """Return c - rank + 1 for the ranks of a single run with c documents."""
    points: Doubles = scores.shape[1] - ranks(scores) + 1.0
    return points


def read_fusion(
    path: PathLike, *, measure: str | None = None, method: str | None = None
) -> tuple[Chosen, FusionOptions]:
    """Read a fusion and its options from the JSON output of `lmtune fuse`.

    Parameters
    ----------
    path : path-like
        A file with the output of ``lmtune fuse --format json``.
    measure, method : str, optional
        The row of the fusion; by default the recommended one, or the only one that was requested.

    Raises
    ------
    InputError
        For any other file, or if there is no such row.
    """
    accepted = "the JSON output of lmtune fuse (--format json)"
    content = read_json(path, {"output": dict, "options": dict}, accepted=accepted)
    wanted = None if measure is None else str(parse_measure(measure))
    stored, others = content["options"], ""
    # Files of versions up to 0.3 also have powers, which are empty unless weights depend on the query.
    output = {name: value for name, value in content["output"].items() if name != "powers" or value}
    try:
        if not (measure is None and method is None):
            output, others = _output_of_row(content, wanted, method)
    except (KeyError, TypeError, AttributeError, IndexError):
        raise InputError("not a fusion", file=path, accepted=accepted) from None
    if others:
        row = " ".join(filter(None, [wanted, method]))
        raise InputError("no fusion with this measure and method", file=path, value=row, accepted=others)
    try:
        options = FusionOptions(**{name: stored[name] for name in ("normalise", "missing", "rrf_k", "depth")})
        check(options)
        return _checked(Chosen(**output), options), options
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InputError("not a fusion", file=path, accepted=accepted) from None


def _checked(chosen: Chosen, options: FusionOptions) -> Chosen:
    """Return a fusion with values of the right types; raise ValueError or TypeError for invalid values."""
    weights = {str(name): float(value) for name, value in chosen.weights.items()}
    depths = {str(name): operator.index(depth) for name, depth in chosen.depths.items()}
    logistic = {str(name): (float(a), float(b)) for name, (a, b) in chosen.logistic.items()}
    scored = chosen.method != SINGLE and chosen.plan.is_scored
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
        not chosen.engine or SPACES[chosen.engine].knows(chosen.variant, len(weights)),
    )
    if not all(valid):
        raise ValueError
    return replace(chosen, weights=weights, logistic=logistic, depths=depths)


def _output_of_row(
    content: Mapping[str, Any], measure: str | None, method: str | None
) -> tuple[dict[str, Any], str]:
    """Return the fusion of a row, by default the recommended row of the first measure.

    If there is no such row, return the measures and methods of all rows as the second value.
    """
    rows = content["rows"]
    measure = rows[0]["measure"] if measure is None else measure
    for row in rows:
        is_named = row["recommended"] if method is None else row["method"] == method.lower()
        if row["measure"] == measure and is_named:
            output = {entry.name: row[entry.name] for entry in fields(Chosen) if row.get(entry.name)}
            weights = {run: row["weights"].get(run, 0.0) for run in content["runs"]}
            return output | {"weights": weights, "depths": content["output"].get("depths", {})}, ""
    return {}, ", ".join(dict.fromkeys(f"{row['measure']} {row['method']}" for row in rows))


def match_runs(chosen: Chosen, runs: RunSet) -> Chosen:
    """Return a fusion for these runs, matched by name, or in their order with a note if names differ.

    Raises
    ------
    InputError
        For a different number of runs.
    """
    weights = chosen.weights
    if len(runs.names) != len(weights):
        accepted = f"{len(weights)} runs: {', '.join(weights)}"
        raise InputError("wrong number of runs", value=list(runs.input_order), accepted=accepted)
    if set(runs.names) != set(weights):
        pairs = [f"{run} for {name}" for run, name in zip(runs.input_order, weights, strict=True)]
        note(f"the runs have other names than those of the fusion; matched by order: {', '.join(pairs)}")
        chosen = chosen.renamed(dict(zip(weights, runs.input_order, strict=True)))
    return chosen


def count_ties(pool: CandidatePool) -> int:
    """Return the number of unequal scores that rounding made equal in a pool of runs."""
    assert isinstance(pool.formula, WeightedSum)
    return pool.formula.tied


def note_ties(tied: int) -> None:
    """Print a note if rounding made unequal scores equal."""
    if tied:
        note(
            f"rounding made {quantity(tied, 'score')} equal to a neighbour: they differed by less than 2^-30 "
            "of their run's largest score in the topic"
        )
