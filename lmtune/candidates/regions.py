"""Regions: the range of parameters in cells, with the few candidates that matter in each.

A document with a lower score than K others throughout a box of parameters is not among the best K there.
`lmtune.candidates.region_kernels` bounds scores over boxes. The range is divided into cells, and the bounds
are applied to successively smaller blocks of cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from lmtune.arrays import Doubles, Integers, Integers32
from lmtune.candidates import region_kernels as kernels
from lmtune.candidates.dominance import LARGEST_LOG, rounding
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError, check_choice
from lmtune.models.formula import Formula
from lmtune.models.parameter import as_settings
from lmtune.models.taylor_kernels import slack_of
from lmtune.models.two_stage import TWO_STAGE
from lmtune.progress import Count
from lmtune.threads import over_slices

OUTSIDE = -1
"""The cell of a setting outside the range."""

SMALLEST = 1e-20
"""The smallest mu or k1 of regions: far below one token, and far above the smallest double."""

# Building regions takes as long as measuring about a thousand settings without them.
_MANY_SETTINGS = 2000
# With fewer candidates per topic than this multiple of the run depth, regions leave out too little.
_MANY_CANDIDATES = 4


@dataclass(frozen=True)
class Regions:
    """The candidates of every topic and cell of a grid over (log(1 - lambda), log mu) or (log k1, b).

    Cells are closed boxes, numbered with mu or b varying fastest. Use `build`.

    Attributes
    ----------
    pool : CandidatePool
        The pool of the candidates.
    depth : int
        Rankings are exact down to this rank.
    s_edges : numpy.ndarray of float64, shape (rows + 1,)
        Ascending bounds of the cells in log(1 - lambda) or log k1.
    u_edges : numpy.ndarray of float64, shape (columns + 1,)
        Ascending bounds of the cells in log mu or b.
    start : numpy.ndarray of int64, shape (topics, cells + 1)
        Offset of each cell's candidates in `position`, and the end of the last cell's.
    position : numpy.ndarray of int32
        Positions among the topic's candidates in `pool`, ascending within a cell, so that they are in tie
        order.
    """

    pool: CandidatePool = field(repr=False)
    depth: int
    s_edges: Doubles = field(repr=False)
    u_edges: Doubles = field(repr=False)
    start: Integers = field(repr=False)
    position: Integers32 = field(repr=False)

    @classmethod
    def build(
        cls,
        pool: CandidatePool,
        ranges: Mapping[str, tuple[float, float]] | None = None,
        *,
        shape: tuple[int, int] = (16, 16),
        depth: int = 1000,
        threads: int | None = None,
        progress: Count | None = None,
    ) -> Regions:
        """Divide a range of parameters into cells and compute the candidates of each.

        Parameters
        ----------
        pool : CandidatePool
            The collection, with two-stage smoothing or BM25; ideally pruned by
            `lmtune.candidates.skyband.skyband`.
        ranges : mapping of str to (float, float), optional
            Ranges of parameters by name, mu and k1 at least 1e-20; by default those of the model.
        shape : tuple of int
            Cells along lambda and along mu, or along k1 and b; one cell if the range is a single value.
        depth : int
            The run depth K, at least 1.
        threads : int, optional
            Threads over topics; the number of cores by default.
        progress : callable, optional
            Called with (topics done, number of topics).

        Returns
        -------
        Regions

        Raises
        ------
        InputError
            If arguments are outside their domain, the pool was pruned for another range or a smaller depth,
            the model has no regions, or a topic has a negative term weight.
        """
        check_choice("regions are not available for this model", pool.formula.bounds, _SCORED)
        if pool.negative:
            raise InputError(
                "regions are not valid for a topic with a negative term weight",
                value=pool.negative[0],
                accepted="weights of 0 or more",
            )
        ends = _ends(pool.formula, ranges or {})
        if min(shape) < 1 or depth < 1:
            raise InputError(
                "bad shape or depth of regions",
                value=(shape, depth),
                accepted="1 or more cells along each parameter, and a run depth of 1 or more",
            )
        pool.require(ends, depth)
        s_edges, u_edges = (
            _edges(along.min(), along.max(), cells)
            for along, cells in zip(_coordinates(pool.formula, ends), shape, strict=True)
        )
        factors = [1]
        while 4 * factors[0] < max(s_edges.size, u_edges.size) - 1:
            factors.insert(0, 2 * factors[0])
        cells = (s_edges.size - 1) * (u_edges.size - 1)
        start = np.zeros((len(pool.topics), cells + 1), np.int64)
        parts: list[Integers32] = [np.empty(0, np.int32)] * len(pool.topics)

        def work(chunk: slice) -> None:
            for t in range(chunk.start, chunk.stop):
                rows = pool.candidates.rows(t)
                if rows.stop > rows.start:
                    topic = _SCORED[pool.formula.bounds](pool, t, ends)
                    start[t], parts[t] = kernels.prune_cells(
                        topic, s_edges, u_edges, np.array(factors), depth
                    )

        over_slices(work, len(pool.topics), threads=threads, progress=progress)
        sizes = start[:, -1].copy()
        start += (np.cumsum(sizes) - sizes)[:, None]
        position = np.empty(int(sizes.sum()), np.int32)
        for t in range(len(parts)):
            position[start[t, 0] : start[t, -1]] = parts[t]
            parts[t] = position[:0]  # frees the part; all parts are as large as `position`
        return cls(pool, depth, s_edges, u_edges, start, position)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of cells along lambda and mu, or along k1 and b."""
        return self.s_edges.size - 1, self.u_edges.size - 1

    def cells(self, settings: Doubles) -> Integers:
        """Return the cell of each setting, `OUTSIDE` if it is in none.

        Parameters
        ----------
        settings : numpy.ndarray of float64, shape (settings, 2)
            Parameters of the pool's formula.
        """
        s, u = _coordinates(self.pool.formula, settings)
        inside = (s >= self.s_edges[0]) & (s <= self.s_edges[-1])
        inside &= (u >= self.u_edges[0]) & (u <= self.u_edges[-1])
        row = np.clip(np.searchsorted(self.s_edges, s, "right") - 1, 0, self.shape[0] - 1)
        column = np.clip(np.searchsorted(self.u_edges, u, "right") - 1, 0, self.shape[1] - 1)
        return np.where(inside, row * self.shape[1] + column, OUTSIDE).astype(np.int64)

    def candidates(self, t: int, cell: int) -> Integers32:
        """Return the positions of topic t's candidates in a cell, ascending."""
        return self.position[self.start[t, cell] : self.start[t, cell + 1]]

    def require(self, pool: CandidatePool, depth: int) -> None:
        """Raise `InputError` unless these are the regions of a pool, for at least a run depth.

        Raises
        ------
        InputError
            If the regions are those of another pool or for a smaller depth.
        """
        if pool is not self.pool:
            raise InputError(
                "the regions were built from another pool",
                value=self.pool.name,
                accepted="regions of this pool",
            )
        if depth > self.depth:
            raise InputError(
                "the regions were built for a smaller run depth", value=depth, accepted=f"up to {self.depth}"
            )


def regions_for(pool: CandidatePool, settings: Doubles, depth: int) -> Regions | None:
    """Return regions if they make measuring many settings faster, else None.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    settings : numpy.ndarray of float64, shape (settings, parameters)
        The settings to measure.
    depth : int
        Run depth.
    """
    per_topic = pool.candidates.doc.size / len(pool.topics)
    if len(settings) < _MANY_SETTINGS or per_topic <= _MANY_CANDIDATES * depth:
        return None
    if pool.formula.bounds not in _SCORED or pool.negative:
        return None
    ends = np.stack((settings.min(axis=0), settings.max(axis=0)))
    if np.min(_coordinates(pool.formula, ends)) < math.log(SMALLEST):
        return None
    names = [parameter.name for parameter in pool.formula.parameters]
    return Regions.build(pool, dict(zip(names, ends.T.tolist(), strict=True)), depth=depth)


def _ends(formula: Formula, ranges: Mapping[str, tuple[float, float]]) -> Doubles:
    """Return the settings at the low and the high ends of the ranges, shape (2, parameters)."""
    whole = {p.name: (p.low, p.high) for p in formula.parameters} | dict(ranges)
    ends = as_settings(formula.parameters, [{name: side[i] for name, side in whole.items()} for i in (0, 1)])
    formula.check(ends)
    if (ends[0] > ends[1]).any() or np.min(_coordinates(formula, ends)) < math.log(SMALLEST):
        raise InputError(
            "the range of parameters is outside its domain",
            value=whole,
            accepted=f"LOW <= HIGH; mu and k1 at least {SMALLEST:g}",
        )
    return ends


def _coordinates(formula: Formula, settings: Doubles) -> Doubles:
    """Return s and u of settings, shape (2, settings); the logarithm of 0 is -inf."""
    one, other = settings.T
    with np.errstate(divide="ignore"):
        if formula.name == TWO_STAGE.name:
            return np.stack((np.log1p(-one), np.log(other)))
        return np.stack((np.log(one), other))


def _two_stage(pool: CandidatePool, t: int, ends: Doubles) -> kernels.ScoredTopic:
    p, count = pool.value[pool.term_rows(t)], pool.count[pool.term_rows(t)]
    (_, mu_low), (lambda_high, _) = ends.tolist()
    # Bounds of a factor of a score: (1 - lambda) mu / (mu + |D|) and 1 / P(w|C).
    smallest_log = -math.log((1.0 - lambda_high) * mu_low / (mu_low + pool.longest))
    largest_log = max(smallest_log, -math.log(p.min()))
    weight = int(count.sum())
    return kernels.ScoredTopic(
        bm25=False,
        y=pool.tf_block(pool.candidates, t) * (1.0 / p)[:, None],
        length=pool.candidates.length[pool.candidates.rows(t)].astype(np.float64),
        occurrences=count,
        weight=count.astype(np.float64),
        product=weight * largest_log < LARGEST_LOG,
        slack=4.0 * rounding(weight, largest_log),
    )


def _bm25(pool: CandidatePool, t: int, ends: Doubles) -> kernels.ScoredTopic:  # noqa: ARG001
    count = pool.count[pool.term_rows(t)]
    weight = pool.value[pool.term_rows(t)] * count
    return kernels.ScoredTopic(
        bm25=True,
        y=pool.tf_block(pool.candidates, t).astype(np.float64),
        length=pool.candidates.length[pool.candidates.rows(t)] / pool.mean_length,
        occurrences=count,
        weight=weight,
        product=False,
        slack=slack_of(weight),
    )


_SCORED: dict[str, Callable[[CandidatePool, int, Doubles], kernels.ScoredTopic]] = {
    "two-stage": _two_stage,
    "bm25": _bm25,
}


def _edges(low: float, high: float, cells: int) -> Doubles:
    if low == high:
        return np.array([low, high])
    edges = np.linspace(low, high, cells + 1)
    edges[0], edges[-1] = low, high
    return edges
