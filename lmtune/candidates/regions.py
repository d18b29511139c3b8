"""Candidates cell by cell over a range of parameters: few more than the run depth in each.

A document that K others beat throughout a box of parameters is not among the best K there.
`lmtune.candidates.region_kernels` bounds scores over boxes; the range is cut into cells, and the
bounds applied to ever smaller blocks of them.
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
"""The smallest mu or k1 that regions take: far below one token, far above where doubles end."""

# Regions take as long as about a thousand settings measured without them.
_DENSE = 2000
# Below this many times the run depth, cells can leave out too little.
_LONG = 4


@dataclass(frozen=True)
class Regions:
    """The candidates of every topic and cell of a grid over (log(1 - lambda), log mu) or (log k1, b).

    Cells are closed boxes, numbered with mu or b varying fastest. Use `build`.

    Attributes
    ----------
    pool : CandidatePool
        Whose candidates they are.
    depth : int
        Rankings are exact down to this rank.
    s_edges : numpy.ndarray of float64, shape (rows + 1,)
        Ascending bounds of the cells in log(1 - lambda) or log k1.
    u_edges : numpy.ndarray of float64, shape (columns + 1,)
        Ascending bounds of the cells in log mu or b.
    start : numpy.ndarray of int64, shape (topics, cells + 1)
        Where each cell's candidates begin in `position`, and where the last one's end.
    position : numpy.ndarray of int32
        Places among the topic's candidates in `pool`, ascending within a cell, so that they
        stay in tie order.
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
        """Cut a range of parameters into cells and find the candidates of each.

        Parameters
        ----------
        pool : CandidatePool
            The collection, scored by two-stage smoothing or BM25; best pruned by
            `lmtune.candidates.skyband.skyband` before.
        ranges : mapping of str to (float, float), optional
            Ends of some parameters' ranges by name, mu and k1 at least 1e-20; the model's own for
            the others.
        shape : tuple of int
            Cells along lambda and along mu, or along k1 and b; one where the range has no extent.
        depth : int
            The run depth K, at least 1.
        threads : int, optional
            Threads over topics; the number of cores by default.
        progress : callable, optional
            Called with (topics done, topics in all).

        Returns
        -------
        Regions

        Raises
        ------
        InputError
            For arguments outside their domain, a range or a depth that a pruned pool was not
            made for, another model, or a topic with a negative term weight.
        """
        check_choice("the proof of pruning by regions is for other models", pool.formula.bounds, _SCORED)
        if pool.negative:
            raise InputError(
                "no pruning by regions is proved for a topic with a negative term weight",
                value=pool.negative[0],
                accepted="weights of 0 or more",
            )
        ends = _ends(pool.formula, ranges or {})
        if min(shape) < 1 or depth < 1:
            raise InputError(
                "regions need a shape and a depth",
                value=(shape, depth),
                accepted="cells along both parameters, and a run depth, each 1 or more",
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
            parts[t] = position[:0]  # frees it: together they are as large as `position`
        return cls(pool, depth, s_edges, u_edges, start, position)

    @property
    def shape(self) -> tuple[int, int]:
        """Cells along lambda and along mu, or along k1 and b."""
        return self.s_edges.size - 1, self.u_edges.size - 1

    def cells(self, settings: Doubles) -> Integers:
        """Return the cell of each setting, `OUTSIDE` where it is in none.

        Parameters
        ----------
        settings : numpy.ndarray of float64, shape (settings, 2)
            Of the pool's formula.
        """
        s, u = _coordinates(self.pool.formula, settings)
        inside = (s >= self.s_edges[0]) & (s <= self.s_edges[-1])
        inside &= (u >= self.u_edges[0]) & (u <= self.u_edges[-1])
        row = np.clip(np.searchsorted(self.s_edges, s, "right") - 1, 0, self.shape[0] - 1)
        column = np.clip(np.searchsorted(self.u_edges, u, "right") - 1, 0, self.shape[1] - 1)
        return np.where(inside, row * self.shape[1] + column, OUTSIDE).astype(np.int64)

    def candidates(self, t: int, cell: int) -> Integers32:
        """Return the places of topic t's candidates in a cell, ascending."""
        return self.position[self.start[t, cell] : self.start[t, cell + 1]]

    def require(self, pool: CandidatePool, depth: int) -> None:
        """Raise unless these are a pool's own regions, deep enough.

        Raises
        ------
        InputError
            Otherwise.
        """
        if pool is not self.pool:
            raise InputError(
                "the regions were built from other candidates",
                value=self.pool.name,
                accepted="the regions of this pool itself",
            )
        if depth > self.depth:
            raise InputError(
                "the regions were built for a smaller run depth", value=depth, accepted=f"up to {self.depth}"
            )


def regions_for(pool: CandidatePool, settings: Doubles, depth: int) -> Regions | None:
    """Return regions that make measuring many settings quicker, None where they would not.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    settings : numpy.ndarray of float64, shape (settings, parameters)
        What is to be measured.
    depth : int
        Run depth.
    """
    per_topic = pool.candidates.doc.size / len(pool.topics)
    if len(settings) < _DENSE or per_topic <= _LONG * depth or pool.formula.bounds not in _SCORED:
        return None
    if pool.negative:
        return None
    ends = np.stack((settings.min(axis=0), settings.max(axis=0)))
    if np.min(_coordinates(pool.formula, ends)) < math.log(SMALLEST):
        return None
    names = [parameter.name for parameter in pool.formula.parameters]
    return Regions.build(pool, dict(zip(names, ends.T.tolist(), strict=True)), depth=depth)


def _ends(formula: Formula, ranges: Mapping[str, tuple[float, float]]) -> Doubles:
    """Return the settings at the low and the high ends."""
    whole = {p.name: (p.low, p.high) for p in formula.parameters} | dict(ranges)
    ends = as_settings(formula.parameters, [{name: side[i] for name, side in whole.items()} for i in (0, 1)])
    formula.check(ends)
    if (ends[0] > ends[1]).any() or np.min(_coordinates(formula, ends)) < math.log(SMALLEST):
        raise InputError(
            "the range of parameters is outside its domain",
            value=whole,
            accepted=f"a low end and a high one; mu and k1 from {SMALLEST:g}",
        )
    return ends


def _coordinates(formula: Formula, settings: Doubles) -> Doubles:
    """Return s and u of settings, shape (2, settings): -inf where mu or k1 is 0."""
    one, other = settings.T
    with np.errstate(divide="ignore"):
        if formula.name == TWO_STAGE.name:
            return np.stack((np.log1p(-one), np.log(other)))
        return np.stack((np.log(one), other))


def _two_stage(pool: CandidatePool, t: int, ends: Doubles) -> kernels.ScoredTopic:
    p, count = pool.value[pool.term_rows(t)], pool.count[pool.term_rows(t)]
    (_, mu_low), (lambda_high, _) = ends.tolist()
    # A factor of a score lies between (1 - lambda) mu / (mu + |D|) and 1 / P(w|C).
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
