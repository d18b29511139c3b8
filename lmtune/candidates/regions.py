"""Candidates cell by cell over a range of parameters: few more than the run depth in each.

A document that K others beat throughout a box of parameters is not among the best K there.
`lmtune.candidates.region_kernels` bounds scores over boxes; the range is cut into cells, and the
bounds applied to ever smaller blocks of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates import region_kernels as kernels
from lmtune.candidates.dominance import LARGEST_LOG, rounding
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.models.kernels import Documents
from lmtune.models.two_stage import TWO_STAGE, require_two_stage
from lmtune.threads import over_slices

OUTSIDE = -1
"""The cell of a setting outside the range."""

SMALLEST_MU = 1e-20
"""The smallest mu that regions take: far below one token, far above where doubles end."""

# Regions take as long as about a thousand settings measured without them.
_DENSE = 2000
# Below this many times the run depth, cells can leave out too little.
_LONG = 4


@dataclass(frozen=True)
class Regions:
    """The candidates of every topic and cell of a grid over (log(1 - lambda), log mu).

    Cells are closed boxes, numbered with mu varying fastest. Use `build`.

    Attributes
    ----------
    pool : CandidatePool
        Whose candidates they are.
    depth : int
        Rankings are exact down to this rank.
    s_edges : numpy.ndarray of float64, shape (rows + 1,)
        Ascending bounds of the cells in log(1 - lambda).
    u_edges : numpy.ndarray of float64, shape (columns + 1,)
        Ascending bounds of the cells in log mu.
    start : numpy.ndarray of int64, shape (topics, cells + 1)
        Where each cell's candidates begin in `position`, and where the last one's end.
    position : numpy.ndarray of int32
        Places among the topic's candidates in `pool`, ascending within a cell, so that they
        stay in tie order.
    """

    pool: CandidatePool = field(repr=False)
    depth: int
    s_edges: NDArray[np.float64] = field(repr=False)
    u_edges: NDArray[np.float64] = field(repr=False)
    start: NDArray[np.int64] = field(repr=False)
    position: NDArray[np.int32] = field(repr=False)

    @classmethod
    def build(
        cls,
        pool: CandidatePool,
        *,
        lambda_low: float = 0.0,
        lambda_high: float = 0.95,
        mu_low: float = 1.0,
        mu_high: float = 100_000.0,
        shape: tuple[int, int] = (16, 16),
        depth: int = 1000,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Regions:
        """Cut a range of parameters into cells and find the candidates of each.

        Parameters
        ----------
        pool : CandidatePool
            The collection; best pruned by `lmtune.candidates.skyband.skyband` before.
        lambda_low, lambda_high : float
            0 <= lambda_low <= lambda_high < 1.
        mu_low, mu_high : float
            1e-20 <= mu_low <= mu_high, in tokens.
        shape : tuple of int
            Cells along lambda and along mu; one where the range has no extent.
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
            made for, or a model other than two-stage smoothing.
        """
        if not (0.0 <= lambda_low <= lambda_high < 1.0 and SMALLEST_MU <= mu_low <= mu_high < np.inf):
            raise InputError(
                "the range of parameters is outside its domain",
                value=(lambda_low, lambda_high, mu_low, mu_high),
                accepted=f"0 <= lambda_low <= lambda_high < 1, {SMALLEST_MU:g} <= mu_low <= mu_high",
            )
        if min(shape) < 1 or depth < 1:
            raise InputError(
                "regions need a shape and a depth",
                value=(shape, depth),
                accepted="cells along lambda and mu, and a run depth, each 1 or more",
            )
        require_two_stage(pool.formula, "pruning by regions")
        pool.require(np.array([(lambda_low, mu_low), (lambda_high, mu_high)]), depth)
        s_edges = _edges(math.log1p(-lambda_high), math.log1p(-lambda_low), shape[0])
        u_edges = _edges(math.log(mu_low), math.log(mu_high), shape[1])
        factors = [1]
        while 4 * factors[0] < max(s_edges.size, u_edges.size) - 1:
            factors.insert(0, 2 * factors[0])
        cells = (s_edges.size - 1) * (u_edges.size - 1)
        # A factor of a score lies between (1 - lambda) mu / (mu + |D|) and 1 / P(w|C).
        smallest_log = -math.log((1.0 - lambda_high) * mu_low / (mu_low + pool.longest))
        start = np.zeros((len(pool.topics), cells + 1), np.int64)
        parts: list[NDArray[np.int32]] = [np.empty(0, np.int32)] * len(pool.topics)

        def work(chunk: slice) -> None:
            for t in range(chunk.start, chunk.stop):
                rows, terms = pool.candidates.rows(t), pool.term_rows(t)
                if rows.stop == rows.start:
                    continue
                p, count = pool.value[terms], pool.count[terms]
                weight = int(count.sum())
                largest_log = max(smallest_log, -math.log(p.min()))
                y = pool.tf_block(pool.candidates, t) * (1.0 / p)[:, None]
                lengths = pool.candidates.length[rows].astype(np.float64)
                topic = kernels.ScoredTopic(y, lengths, count, weight * largest_log < LARGEST_LOG)
                slack = 4.0 * rounding(weight, largest_log)
                start[t], parts[t] = kernels.prune_cells(
                    topic, s_edges, u_edges, np.array(factors), depth, slack
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
        """Cells along lambda and along mu."""
        return self.s_edges.size - 1, self.u_edges.size - 1

    def cells(self, settings: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the cell of each setting, `OUTSIDE` where it is in none.

        Parameters
        ----------
        settings : numpy.ndarray of float64, shape (settings, 2)
            Lambdas and mus.
        """
        lambdas, mus = settings.T
        s = np.log1p(-lambdas)
        u = np.log(np.where(mus > 0.0, mus, 1.0))
        inside = (s >= self.s_edges[0]) & (s <= self.s_edges[-1]) & (mus > 0.0)
        inside &= (u >= self.u_edges[0]) & (u <= self.u_edges[-1])
        row = np.clip(np.searchsorted(self.s_edges, s, "right") - 1, 0, self.shape[0] - 1)
        column = np.clip(np.searchsorted(self.u_edges, u, "right") - 1, 0, self.shape[1] - 1)
        return np.where(inside, row * self.shape[1] + column, OUTSIDE).astype(np.int64)

    def gather(self, topics: NDArray[np.int64], cell: int) -> tuple[Documents, NDArray[np.int32]]:
        """Return the candidates of some topics in a cell, in tie order, and their gains."""
        whole = self.pool.documents(self.pool.candidates).of(topics)
        places = self.start[topics, cell]
        ends = np.cumsum(self.start[topics, cell + 1] - places)
        docs = np.stack((np.append(0, ends[:-1]), ends), axis=1)
        tf_ends = np.cumsum((docs[:, 1] - docs[:, 0]) * (whole.terms[:, 1] - whole.terms[:, 0]))
        gathered = whole._replace(
            docs=docs,
            tfs=np.stack((np.append(0, tf_ends[:-1]), tf_ends), axis=1),
            length=np.empty(ends[-1], np.int32),
            tf=np.empty(tf_ends[-1], np.int32),
        )
        gain = np.empty(ends[-1], np.int32)
        kernels.gather(whole, self.pool.candidates.gain, self.position, places, gathered, gain)
        return gathered, gain

    def candidates(self, t: int, cell: int) -> NDArray[np.int32]:
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


def regions_for(pool: CandidatePool, settings: NDArray[np.float64], depth: int) -> Regions | None:
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
    if len(settings) < _DENSE or per_topic <= _LONG * depth or pool.formula.name != TWO_STAGE.name:
        return None
    (lambda_low, mu_low), (lambda_high, mu_high) = settings.min(axis=0), settings.max(axis=0)
    if mu_low < SMALLEST_MU:
        return None
    return Regions.build(
        pool, lambda_low=lambda_low, lambda_high=lambda_high, mu_low=mu_low, mu_high=mu_high, depth=depth
    )


def _edges(low: float, high: float, cells: int) -> NDArray[np.float64]:
    if low == high:
        return np.array([low, high])
    edges = np.linspace(low, high, cells + 1)
    edges[0], edges[-1] = low, high
    return edges
