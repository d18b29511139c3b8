"""What search engines can express: their normalisations and combinations of scores, in their own arithmetic.

Each `Scale` and `Combination` is a row of data with its formula and the source that it was read from. Their
functions compute in the engine's precision and in its order of additions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lmtune.arrays import Booleans, Doubles, Floats, Singles
from lmtune.fusion.runs import Scores, ranks

Values = Floats
"""Normalised scores of a topic's documents, shape (runs, documents); NaN if a query has not returned one."""

_TINY = np.float32(2.0**-149)  # Java's Float.MIN_VALUE, from which maxima start
_FLOOR = np.float32(0.001)
_UNIT = 2.0**-24  # the largest relative error of rounding to single precision
_ONE = np.float32(1.0)
_GRID = 300  # most points of a grid of weights that are shares of 1
MOST_MIXED = 3
"""Largest number of runs for which queries have different normalisations."""


class Scale(NamedTuple):
    """A normalisation of one query's scores.

    Attributes
    ----------
    name : str
        The engine's name, followed by the values of its parameters.
    formula : str
        The formula, with s a score, min and max those of the query's scores.
    source : str
        The class, function or file that it was read from.
    compute : callable
        Maps the scores of a query, best first, to normalised scores.
    second : callable, optional
        The same for the second query, where the engine treats it in another way.
    accepts : callable
        Whether scores between two limits can be those of a query with this normalisation.
    """

    name: str
    formula: str
    source: str
    compute: Callable[[Singles], Floats]
    second: Callable[[Singles], Floats] | None = None
    accepts: Callable[[float, float], bool] = lambda _low, _high: True


class Combination(NamedTuple):
    """A combination of several queries' normalised scores, or ranks.

    Attributes
    ----------
    name : str
        The engine's name.
    formula : str
        The formula, with w a weight, s a normalised score and r a rank from 1.
    source : str
        The class, function or file that it was read from.
    combine : callable
        Returns the engine's scores from `Values`, the weights of shape (settings, runs), and the constant; in
        the engine's precision, shape (settings, documents).
    columns : callable
        Returns the columns of `linear`, by default for a weighted sum; None if the score is no such sum.
    scales : tuple of tuple of str
        Names of the normalisations. One of a group can be chosen for each query. Empty if ranks are combined.
    ranked : callable, optional
        Returns `Values` from ranks and the constant.
    constants : tuple of float
        Values of the constant that are tried.
    is_weighted : bool
        Whether the engine has weights.
    transform : callable, optional
        If a document's score is a mean over the queries in which it has a positive score: the transform of
        scores whose weighted arithmetic mean ranks alike.
    grid : callable
        Returns weights to try, shape (settings, runs), where there are no columns.
    roundings : tuple of int
        Number of roundings to single precision in a score: for each run, and others. A division by the same
        number for all documents is one; that of a mean over some runs has one for each run, too.
    """

    name: str
    formula: str
    source: str
    combine: Callable[[Values, Floats, float], Floats]
    columns: Callable[[Values], Doubles | None] = lambda values: _filled(values)
    scales: tuple[tuple[str, ...], ...] = ()
    ranked: Callable[[Doubles, float], Floats] | None = None
    constants: tuple[float, ...] = (0.0,)
    is_weighted: bool = True
    transform: Callable[[Doubles], Doubles] | None = None
    grid: Callable[[int], Doubles] = lambda runs: simplex(runs)
    roundings: tuple[int, int] = (1, 0)

    def present(self, values: Values) -> tuple[Doubles, Booleans]:
        """Return transformed scores, 0 where there is no positive score, and where there is one."""
        assert self.transform is not None
        positive: Booleans = np.nan_to_num(values, nan=0.0) > 0
        return np.where(positive, self.transform(np.where(positive, values, 1.0)), 0.0), positive

    def errors(self, columns: Doubles) -> Doubles:
        r"""Bound the engine's rounding of documents' scores by columns of the same shape (runs, documents).

        At any weights, the engine's score is that of columns which differ from `columns` by at most these,
        unless it underflows. With n roundings of unit u, the relative error of a sum of products is at most
        :math:`\gamma_n = nu / (1 - nu)` (Higham, Accuracy and Stability of Numerical Algorithms, 2002,
        section 3.1). A transformed mean has another error of u: that of the last step of its inverse. If
        columns have both signs, the errors of a topic are equal. 0.01% cover double precision.
        """
        size = np.abs(columns)
        if columns.size and columns.min() < 0.0 < columns.max():
            size[:] = size.max(axis=1, keepdims=True)
        count = self.roundings[0] * len(columns) + self.roundings[1]
        gamma = count * _UNIT / (1.0 - count * _UNIT)
        return 1.0001 * (gamma * size + (0.0 if self.transform is None else _UNIT))

    def linear(self, values: Values) -> Doubles | None:
        """Return columns, shape (runs, documents), whose weighted sum ranks as the engine does, or None.

        All weights are positive. The mean of a document with one positive score does not depend on the
        weights, so that with two runs its columns are both this score. With three runs and more there are no
        columns if a query lacks a document.
        """
        if self.transform is None or not self.is_weighted:
            return self.columns(values) if self.is_weighted else None
        out, positive = self.present(values)
        if len(values) > 2 and not positive.all():
            return None
        if len(values) == 2:
            out = np.where(positive, out, out[::-1])
        out[:, ~positive.any(axis=0)] = out.min(initial=0.0) - 1.0
        return out


@dataclass(frozen=True)
class Variant:
    """One way in which an engine fuses.

    Attributes
    ----------
    normalise : str
        Name of the normalisation; several, for queries that have different ones, are separated by commas.
        Empty if ranks are combined.
    combine : str
        Name of the combination.
    constant : float
        The constant k of rank fusion; 0 without one.
    """

    normalise: str
    combine: str
    constant: float = 0.0

    def by_query(self, runs: int) -> list[str]:
        """Return the name of each query's normalisation."""
        names = self.normalise.split(",")
        return names if len(names) > 1 else names * runs

    def __str__(self) -> str:
        constant = f"k = {self.constant:g}" if self.constant else ""
        return ", ".join(filter(None, [self.normalise.replace(",", " and "), self.combine, constant]))


class Space(NamedTuple):
    """Everything that an engine can express in a hybrid query.

    Attributes
    ----------
    title : str
        The engine's name in texts.
    version : str
        The version whose features were checked.
    source_version : str
        The version whose source the formulas were read from.
    scales : tuple of Scale
        Normalisations.
    combinations : tuple of Combination
        Combinations.
    default : Variant
        What the engine does if nothing is set.
    default_weights : tuple of float
        The weights of the default; empty if they are equal.
    queries : int
        The number of queries that it fuses; 0 for any number.
    """

    title: str
    version: str
    source_version: str
    scales: tuple[Scale, ...]
    combinations: tuple[Combination, ...]
    default: Variant
    default_weights: tuple[float, ...] = ()
    queries: int = 0

    def default_for(self, runs: int) -> tuple[float, ...]:
        """Return the default's weights for a number of runs."""
        # Qdrant's weights are no shares: they divide ranks.
        equal = 1.0 if self.combination(self.default).grid is _stretches else 1.0 / runs
        return self.default_weights or (equal,) * runs

    @property
    def name(self) -> str:
        """Title and version."""
        return f"{self.title} {self.version}".strip()

    @property
    def refused(self) -> str:
        """Why nothing bounds all variants and weights; empty if something does."""
        names = [row.name for row in self.combinations if row.grid is _stretches]
        return f"the weights of {self.title}'s {' and '.join(names)} are searched on a grid" if names else ""

    def combination(self, variant: Variant) -> Combination:
        """Return the row of a variant's combination; raise KeyError for an unknown one."""
        return {row.name: row for row in self.combinations}[variant.combine]

    def knows(self, variant: Variant, runs: int) -> bool:
        """Whether the engine can fuse this number of runs by a variant."""
        row = next((row for row in self.combinations if row.name == variant.combine), None)
        names = variant.normalise.split(",")
        return row is not None and (
            len(names) in (1, runs)
            and (any({*names} <= {*group} for group in row.scales) if row.scales else names == [""])
            and (variant.constant in row.constants or 1.0 <= variant.constant == int(variant.constant))
            and (row.constants != (0.0,) or variant.constant == 0.0)
            and self.queries in (0, runs)
        )

    def variants(self, limits: Sequence[tuple[float, float]]) -> list[Variant]:
        """Return all variants for runs with these smallest and largest scores, the default first."""
        known, every = {scale.name: scale for scale in self.scales}, [self.default]
        for row in self.combinations:
            choices: list[str] = []
            for group in row.scales:
                accepted = [[name for name in group if known[name].accepts(*ends)] for ends in limits]
                mixed = (
                    itertools.product(*accepted)
                    if len(limits) <= MOST_MIXED
                    else zip(*accepted, strict=False)
                )
                choices += [names[0] if len({*names}) == 1 else ",".join(names) for names in mixed]
            every += [
                Variant(name, row.name, k)
                for name in (choices if row.scales else [""])
                for k in row.constants
            ]
        return [*dict.fromkeys(every)]

    def normalised(self, name: str, query: int, scores: Scores, by_rank: Doubles) -> Values:
        """Normalise the scores of one query, by its number; scores and ranks have shape (documents,)."""
        scale = next(scale for scale in self.scales if scale.name == name)
        best_first = np.argsort(by_rank)[: np.count_nonzero(~np.isnan(scores))]
        values: Values = np.full(scores.shape, np.nan)
        if best_first.size:
            compute = scale.second if query and scale.second is not None else scale.compute
            values[best_first] = compute(scores[best_first].astype(np.float32))
        return values

    def values(self, scores: Scores, variant: Variant, by_rank: Doubles | None = None) -> Values:
        """Normalise a topic's scores, shape (runs, documents), with runs in the order of the queries."""
        row, by_rank = self.combination(variant), ranks(scores) if by_rank is None else by_rank
        if row.ranked is not None:
            return row.ranked(by_rank, variant.constant)
        names = enumerate(variant.by_query(len(scores)))
        return np.array([self.normalised(name, n, scores[n], by_rank[n]) for n, name in names])

    def scores(
        self, scores: Scores, variant: Variant, weights: Doubles, by_rank: Doubles | None = None
    ) -> Floats:
        """Return the engine's scores at weights of shape (settings, runs), shape (settings, documents)."""
        row = self.combination(variant)
        weights = weights if row.is_weighted else np.ones_like(weights)
        return row.combine(self.values(scores, variant, by_rank), weights, variant.constant)


def simplex(runs: int) -> Doubles:
    """Return weights whose sum is 1, on a grid of at most 300 points; shape (settings, runs)."""
    steps = 20
    while steps > 1 and math.comb(steps + runs - 1, runs - 1) > _GRID:
        steps -= 1
    places = itertools.combinations(range(steps + runs - 1), runs - 1)
    edges = np.array([(-1, *cut, steps + runs - 1) for cut in places])
    return (np.diff(edges, axis=1) - 1.0) / steps


def _stretches(runs: int) -> Doubles:
    """Return weights from 1/16 to 1024, each run's on its own: about 300 points, shape (settings, runs)."""
    powers = np.linspace(-4.0, 10.0, max(2, int((_GRID + 0.5) ** (1.0 / runs))))
    return np.array([*itertools.product(2.0**powers, repeat=runs)], np.float64)


# --- OpenSearch and Elasticsearch: single precision


def _opensearch_min_max(mode: str = "", bound: float = 0.0) -> Callable[[Singles], Floats]:
    lowest = np.float32(bound)

    def compute(s: Singles) -> Floats:
        least, most = s.min(), max(s.max(), _TINY)
        if least == most:
            return np.ones_like(s)
        low = np.full_like(s, least)
        if mode == "apply":
            low[(most > lowest) & (s > lowest)] = lowest
        if mode == "clip":
            low[:] = least if most < lowest else lowest
        span = most - low
        with np.errstate(over="ignore"):  # as in Java, if all scores are negative
            value = np.where(span == 0, _ONE, (s - low) / np.where(span == 0, _ONE, span))
        value[(value == 0) | ((mode == "clip") & (s < low))] = _FLOOR
        return value

    return compute


def _opensearch_l2(s: Singles) -> Floats:
    # The sum of squares is in single precision, best first.
    norm = np.sqrt(np.float64(np.add.accumulate(s * s, dtype=np.float32)[-1])).astype(np.float32)
    return np.zeros_like(s) if norm == 0 else s / norm


def _opensearch_z_score(s: Singles) -> Floats:
    exact = s.astype(np.float64)
    mean = np.float32(exact.mean())
    deviation = np.float32(exact.std(ddof=1)) if s.size > 1 else np.float32(0.0)
    if deviation == 0:
        return np.full_like(s, s.max() if s[0] == mean else s.min())
    value = (s - mean) / deviation
    return np.where(s == mean, s.max(), np.where(value <= 0, _FLOOR, value))


def _elastic_minmax(s: Singles) -> Floats:
    least, most = s.min(), max(s.max(), _TINY)
    return np.ones_like(s) if abs(least - most) < np.float32(1e-6) else (s - least) / (most - least)


def _elastic_l2(s: Singles) -> Floats:
    norm = np.sqrt((s * s).astype(np.float64).sum())
    return s if norm < np.float32(1e-6) else (s / norm).astype(np.float32)


def _unchanged(s: Singles) -> Floats:
    return s


def _by_setting(values: Values, weights: Floats) -> Any:
    """Yield each run's scores, 0 where missing, and its weights as a column; both in single precision."""
    filled = np.nan_to_num(values, nan=0.0).astype(np.float32)
    return zip(filled, weights.astype(np.float32).T[:, :, None], strict=True)


def _single_sum(values: Values, weights: Floats, _: float) -> Floats:
    total = np.zeros((len(weights), values.shape[1]), np.float32)
    for own, weight in _by_setting(values, weights):
        total = total + weight * own
    return total


def _opensearch_mean(values: Values, weights: Floats, _: float) -> Floats:
    total = np.zeros((len(weights), values.shape[1]), np.float32)
    weighted = np.zeros_like(total)
    for own, weight in _by_setting(values, weights):
        counts = own >= 0
        total = np.where(counts, total + own * weight, total)
        weighted = np.where(counts, weighted + weight, weighted)
    return np.where(weighted == 0, np.float32(0), total / np.where(weighted == 0, _ONE, weighted))


def _opensearch_geometric(values: Values, weights: Floats, _: float) -> Floats:
    total = np.zeros((len(weights), values.shape[1]), np.float32)
    weighted = np.zeros_like(total)
    for own, weight in _by_setting(values, weights):
        counts = own > 0
        logs = np.log(np.where(counts, own, _ONE).astype(np.float64))
        total = np.where(counts, (total + weight * logs).astype(np.float32), total)
        weighted = np.where(counts, weighted + weight, weighted)
    mean = (total / np.where(weighted == 0, _ONE, weighted)).astype(np.float64)
    return np.where(weighted == 0, np.float32(0), np.exp(mean).astype(np.float32))


def _opensearch_harmonic(values: Values, weights: Floats, _: float) -> Floats:
    total = np.zeros((len(weights), values.shape[1]), np.float32)
    weighted = np.zeros_like(total)
    for own, weight in _by_setting(values, weights):
        counts = own > 0
        total = np.where(counts, total + weight / np.where(counts, own, _ONE), total)
        weighted = np.where(counts, weighted + weight, weighted)
    return np.where(total > 0, weighted / np.where(total > 0, total, _ONE), np.float32(0))


def _filled(values: Values) -> Doubles:
    """Return the columns of a weighted sum: missing documents add 0."""
    return np.nan_to_num(values, nan=0.0).astype(np.float64)


def _opensearch_reciprocal(by_rank: Doubles, k: float) -> Floats:
    # OpenSearch divides with ten decimals, rounded half up.
    return (np.floor(1e10 / (k + by_rank) + 0.5) / 1e10).astype(np.float32)


def _single_reciprocal(by_rank: Doubles, k: float) -> Floats:
    return _ONE / (k + by_rank).astype(np.float32)


# --- Qdrant


def _distribution(s: Singles) -> Floats:
    """Map the mean minus and plus three standard deviations to 0 and 1 (Welford's mean and variance)."""
    mean = aggregate = np.float32(0.0)
    for count, score in enumerate(s, 1):
        before = score - mean
        mean = mean + before / np.float32(count)
        aggregate = aggregate + before * (score - mean)
    deviation = np.sqrt(aggregate / np.float32(s.size - 1)) if s.size > 1 else np.float32(0.0)
    low, high = mean - np.float32(3.0) * deviation, mean + np.float32(3.0) * deviation
    return np.full_like(s, 0.5) if low == high else (s - low) / (high - low)


def _stretched_ranks(values: Values, weights: Floats, k: float) -> Floats:
    total = np.zeros((len(weights), values.shape[1]), np.float32)
    for by_rank, weight in zip(values, weights.astype(np.float32).T[:, :, None], strict=True):
        stretched = by_rank.astype(np.float32) / np.where(weight > 0, weight, _ONE)
        added = _ONE / (stretched + np.float32(k) - _ONE)
        total = np.where(np.isnan(by_rank) | (weight <= 0), total, total + added)
    return total


def _double_sum(values: Values, weights: Floats, _: float) -> Floats:
    filled = np.nan_to_num(values.astype(np.float64), nan=0.0)
    total = np.zeros((len(weights), values.shape[1]))
    for own, weight in zip(filled, weights.T[:, :, None], strict=True):
        total = total + weight * own
    return total.astype(np.float32)


# --- Weaviate, Milvus, Vespa, LanceDB


def _relative(s: Singles) -> Floats:
    return np.ones_like(s) if s.min() == s.max() else (s - s.min()) / (s.max() - s.min())


def _ranked_fusion(values: Values, weights: Floats, _: float) -> Floats:
    total = np.zeros((len(weights), values.shape[1]), np.float32)
    for by_rank, weight in zip(values, weights.T[:, :, None], strict=True):
        added = (weight / (by_rank + 59.0)).astype(np.float32)
        total = np.where(np.isnan(by_rank), total, total + added)
    return total


def _is_cosine(low: float, high: float) -> bool:
    return low >= -1.0 and high <= 1.0


def _atan(s: Singles) -> Singles:
    return np.arctan(s.astype(np.float64)).astype(np.float32)


def _linear(s: Singles) -> Floats:
    exact = s.astype(np.float64)
    least, most = exact.min(), exact.max()
    value: Doubles = 0.5 + (exact - 0.5 * (least + most)) * (1.0 / (most - least) if most > least else 0.0)
    return value


def _lance_score(s: Singles) -> Floats:
    value: Singles = s - s.min()
    return value if s.min() == s.max() else value / (s.max() - s.min())


def _lance_distance(s: Singles) -> Floats:
    return 1.0 - _lance_score(-s).astype(np.float64)


def _descending(s: Singles) -> Singles:
    return np.arange(s.size, 0, -1, dtype=np.float32)


RANK_CONSTANTS = (60.0, 1.0, 5.0, 20.0, 200.0)
"""Values of k that are tried where an engine has a constant of reciprocal rank fusion."""

RANKS_BY_WEIGHTS = "rrf with k = 1"
"""Qdrant's rank fusion with k = 1, in which a weight multiplies a reciprocal rank."""

_OPENSEARCH = "processor/"
_NONNEGATIVE: Any = {"accepts": lambda low, _: low >= 0.0}
_MIN_MAXES = ("min_max", "min_max apply 0", "min_max clip 0")
_ELASTIC = "x-pack/plugin/rank-rrf, "
_EQUAL_WEIGHTS: Any = {"is_weighted": False}

SPACES = {
    "opensearch": Space(
        "OpenSearch",
        "3.1",
        "neural-search 3.8",
        (
            Scale(
                "min_max",
                "(s - min) / (max - min); 0.001 instead of 0; 1 if max = min",
                f"{_OPENSEARCH}normalization/MinMaxScoreNormalizationTechnique",
                _opensearch_min_max(),
            ),
            Scale(
                "min_max apply 0",
                "s / max for s > 0, else as min_max",
                f"{_OPENSEARCH}normalization/bounds/LowerBound",
                _opensearch_min_max("apply"),
            ),
            Scale(
                "min_max clip 0",
                "s / max; 0.001 for s <= 0",
                f"{_OPENSEARCH}normalization/bounds/LowerBound",
                _opensearch_min_max("clip"),
            ),
            Scale(
                "l2",
                "s / sqrt(sum of s^2)",
                f"{_OPENSEARCH}normalization/L2ScoreNormalizationTechnique",
                _opensearch_l2,
                **_NONNEGATIVE,
            ),
            Scale(
                "z_score",
                "(s - mean) / sd, at least 0.001; max if s = mean",
                f"{_OPENSEARCH}normalization/ZScoreNormalizationTechnique",
                _opensearch_z_score,
                **_NONNEGATIVE,
            ),
        ),
        (
            Combination(
                "arithmetic_mean",
                "sum of w s / sum of w; a missing document has s = 0",
                f"{_OPENSEARCH}combination/ArithmeticMeanScoreCombinationTechnique",
                _opensearch_mean,
                scales=(_MIN_MAXES, ("l2",), ("z_score",)),
                roundings=(1, 1),
            ),
            Combination(
                "geometric_mean",
                "exp(sum of w log s / sum of w) over the queries with s > 0",
                f"{_OPENSEARCH}combination/GeometricMeanScoreCombinationTechnique",
                _opensearch_geometric,
                scales=(_MIN_MAXES, ("l2",)),
                transform=np.log,
                roundings=(2, 0),
            ),
            Combination(
                "harmonic_mean",
                "sum of w / sum of w / s over the queries with s > 0",
                f"{_OPENSEARCH}combination/HarmonicMeanScoreCombinationTechnique",
                _opensearch_harmonic,
                scales=(_MIN_MAXES, ("l2",)),
                transform=lambda s: -1.0 / s,
                roundings=(2, 0),
            ),
            Combination(
                "rrf",
                "sum of w / (k + r), 1 / (k + r) with ten decimals",
                f"{_OPENSEARCH}combination/RRFScoreCombinationTechnique",
                _single_sum,
                ranked=_opensearch_reciprocal,
                constants=RANK_CONSTANTS,
            ),
        ),
        Variant("min_max", "arithmetic_mean"),
    ),
    "elasticsearch": Space(
        "Elasticsearch",
        "9.2",
        "Elasticsearch 9.2",
        (
            Scale(
                "minmax",
                "(s - min) / (max - min); 1 if max - min < 0.000001",
                f"{_ELASTIC}linear/MinMaxScoreNormalizer",
                _elastic_minmax,
            ),
            Scale("l2_norm", "s / sqrt(sum of s^2)", f"{_ELASTIC}linear/L2ScoreNormalizer", _elastic_l2),
            Scale("none", "s", f"{_ELASTIC}linear/IdentityScoreNormalizer", _unchanged),
        ),
        (
            Combination(
                "linear",
                "sum of w s",
                f"{_ELASTIC}linear/LinearRetrieverBuilder",
                _single_sum,
                scales=(("minmax", "l2_norm", "none"),),
            ),
            Combination(
                "rrf",
                "sum of w / (k + r)",
                f"{_ELASTIC}rrf/RRFRetrieverBuilder",
                _single_sum,
                ranked=_single_reciprocal,
                constants=RANK_CONSTANTS,
            ),
        ),
        Variant("", "rrf", 60.0),
    ),
    "qdrant": Space(
        "Qdrant",
        "1.17",
        "Qdrant 1.17",
        (
            Scale(
                "distribution",
                "(s - mean + 3 sd) / (6 sd); 0.5 if sd = 0",
                "lib/segment/src/common/score_fusion.rs",
                _distribution,
            ),
            Scale("none", "s", "formula queries", _unchanged),
        ),
        (
            Combination(
                "rrf",
                "sum of 1 / (r / w + k - 1)",
                "lib/segment/src/common/reciprocal_rank_fusion.rs",
                _stretched_ranks,
                lambda _: None,
                ranked=lambda by_rank, _: by_rank,
                constants=(2.0,),
                grid=_stretches,
            ),
            Combination(
                RANKS_BY_WEIGHTS,
                "sum of w / r",
                "lib/segment/src/common/reciprocal_rank_fusion.rs",
                lambda values, weights, _: _stretched_ranks(1.0 / values, weights, 1.0),
                ranked=lambda by_rank, _: 1.0 / by_rank,
            ),
            Combination(
                "formula",
                "sum of w s",
                "lib/segment/src/index/query_optimization/rescore_formula",
                _double_sum,
                scales=(("none",),),
            ),
            Combination(
                "dbsf",
                "sum of s",
                "lib/segment/src/common/score_fusion.rs",
                _single_sum,
                scales=(("distribution",),),
                **_EQUAL_WEIGHTS,
            ),
        ),
        Variant("", "rrf", 2.0),
    ),
    "weaviate": Space(
        "Weaviate",
        "1.24",
        "Weaviate (version not recorded)",
        (
            Scale(
                "relative",
                "(s - min) / (max - min); 1 if max = min",
                "usecases/traverser/hybrid/hybrid_fusion.go",
                _relative,
            ),
        ),
        (
            Combination(
                "relativeScoreFusion",
                "sum of w s",
                "usecases/traverser/hybrid/hybrid_fusion.go",
                _single_sum,
                scales=(("relative",),),
            ),
            Combination(
                "rankedFusion",
                "sum of w / (59 + r)",
                "usecases/traverser/hybrid/hybrid_fusion.go",
                _ranked_fusion,
                lambda values: _filled(1.0 / (values + 59.0)),
                ranked=lambda by_rank, _: by_rank,
            ),
        ),
        Variant("relative", "relativeScoreFusion"),
        (0.25, 0.75),
        2,
    ),
    "milvus": Space(
        "Milvus",
        "2.6",
        "Milvus 2.6",
        (
            Scale("none", "s", "internal/util/function/rerank/util.go", _unchanged),
            Scale(
                "COSINE",
                "(1 + s) / 2",
                "internal/util/function/rerank/util.go",
                lambda s: (_ONE + s) * np.float32(0.5),
                accepts=_is_cosine,
            ),
            Scale(
                "BM25",
                "2 atan(s) / pi",
                "internal/util/function/rerank/util.go",
                lambda s: np.float32(2.0) * _atan(s) / np.float32(np.pi),
                accepts=lambda low, high: low >= 0.0 and not _is_cosine(low, high),
            ),
            Scale(
                "IP",
                "0.5 + atan(s) / pi",
                "internal/util/function/rerank/util.go",
                lambda s: np.float32(0.5) + _atan(s) / np.float32(np.pi),
                accepts=lambda low, high: low < 0.0 and not _is_cosine(low, high),
            ),
        ),
        (
            Combination(
                "weighted",
                "sum of w s",
                "internal/util/function/rerank/weighted_function.go",
                _single_sum,
                scales=(("none",), ("COSINE", "BM25", "IP")),
            ),
            Combination(
                "rrf",
                "sum of 1 / (k + r)",
                "internal/util/function/rerank/rrf_function.go",
                _single_sum,
                ranked=_single_reciprocal,
                constants=RANK_CONSTANTS,
                **_EQUAL_WEIGHTS,
            ),
        ),
        Variant("", "rrf", 60.0),
    ),
    "vespa": Space(
        "Vespa",
        "8",
        "Vespa 8",
        (
            Scale(
                "normalize_linear",
                "(s - min) / (max - min); 0.5 if max = min",
                "com.yahoo.search.ranking.LinearNormalizer",
                _linear,
            ),
        ),
        (
            Combination(
                "sum of normalize_linear",
                "sum of w s",
                "com.yahoo.search.ranking.HitRescorer",
                _double_sum,
                scales=(("normalize_linear",),),
            ),
            Combination(
                "sum of reciprocal_rank",
                "sum of w / (k + r)",
                "com.yahoo.search.ranking.ReciprocalRankNormalizer",
                _double_sum,
                ranked=lambda by_rank, k: 1.0 / (k + by_rank),
                constants=RANK_CONSTANTS,
            ),
        ),
        Variant("", "sum of reciprocal_rank", 60.0),
    ),
    "lancedb": Space(
        "LanceDB",
        "0.40",
        "LanceDB 0.40",
        (
            Scale(
                "score",
                "(s - min) / (max - min); if max = min, 0 for texts and 1 for vectors",
                "query.py, LanceHybridQueryBuilder._normalize_scores",
                _lance_score,
                _lance_distance,
            ),
            Scale(
                "rank",
                "(n - r) / (n - 1)",
                "query.py, LanceHybridQueryBuilder._rank",
                lambda s: _lance_score(_descending(s)),
                lambda s: _lance_distance(_descending(s)),
            ),
        ),
        (
            Combination(
                "LinearCombinationReranker",
                "sum of w s, with fill = 1",
                "rerankers/linear_combination.py",
                _double_sum,
                scales=(("score",), ("rank",)),
            ),
            Combination(
                "RRFReranker",
                "sum of 1 / (k + r)",
                "rerankers/rrf.py",
                _double_sum,
                ranked=lambda by_rank, k: 1.0 / (k + by_rank),
                constants=RANK_CONSTANTS,
                **_EQUAL_WEIGHTS,
            ),
        ),
        Variant("", "RRFReranker", 60.0),
        queries=2,
    ),
}
"""The engines by name, as in the options ``--engine`` and ``--to``."""
