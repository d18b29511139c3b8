"""The K-skyband: the candidates that can be among the best K at some parameter setting.

A document that K others beat at every setting is never retrieved. Leaving it out changes no
ranking down to K, whatever the setting; `lmtune.candidates.dominance` says when one document
beats another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates import skyband_kernels as kernels
from lmtune.candidates.dominance import e_is_finite, e_is_safe, margin, polynomials, ranked, smallest_factor
from lmtune.candidates.pool import CandidatePool, Pruning
from lmtune.errors import InputError
from lmtune.models.two_stage import require_two_stage
from lmtune.threads import over_slices

MODES = ("auto", "e", "tf")
VERSION = 1
"""Raised whenever other documents may be kept than before."""


class Exactness(TypedDict, total=False):
    """What a pruned pool shall be exact for; `skyband` says what each means."""

    depth: int
    mode: str
    lambda_high: float
    mu_low: float
    mu_high: float


DEFAULT: Exactness = {"depth": 1000, "mode": "auto", "lambda_high": 0.9999, "mu_low": 1e-6, "mu_high": 1e6}
"""What pruned pools are exact for unless told otherwise."""

# Comparisons per topic, about half a second; only queries of very many words take that long.
_BUDGET = 5_000_000_000


def skyband(
    pool: CandidatePool,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **exactness: Unpack[Exactness],
) -> CandidatePool:
    """Drop the candidates that cannot be among the best `depth` at any parameter setting.

    The best `depth` documents stay the same to the last tie. Judged documents and the counts of
    judgements stay whole: relevant documents that are dropped can never be retrieved, and count.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    threads : int, optional
        Threads over topics; the number of cores by default.
    progress : callable, optional
        Called with (topics done, topics in all).
    depth : int
        The run depth K, at least 1; 1000 by default.
    mode : {"auto", "e", "tf"}
        ``"tf"`` drops documents that K others match or exceed in every term at no greater
        length, of each field where the formula takes these; that holds at every setting. ``"e"``
        compares the elementary symmetric polynomials of tf / P(w|C), which drops several times
        more, and holds up to `lambda_high` and `mu_high`. ``"auto"`` decides for each topic: tf
        where the margin that rounding asks of e-dominance would keep documents that tf-dominance
        drops (lambda_high near 1), or where the products of a long query could leave the range of a
        double; and tf for the model lucene-dirichlet, whose floor e-dominance does not know, and
        for others.
    lambda_high, mu_low, mu_high : float
        The parameters that the pool will be asked for: lambda up to `lambda_high`, and mu from
        `mu_low` to `mu_high`, by default .9999, 1e-6 and 1e6. A lambda_high of 1 or an infinite
        mu_high give ``"tf"``.

    Returns
    -------
    CandidatePool
        The same topics and judgements; `CandidatePool.pruning` says what it is exact for, and
        measuring or ranking refuses anything else.

    Raises
    ------
    InputError
        For a mode or a depth outside its domain; for ``mode="e"`` where it cannot be computed or
        does not hold.
    """
    wanted = DEFAULT | exactness
    depth, mode = wanted["depth"], wanted["mode"]
    lambda_high, mu_low, mu_high = wanted["lambda_high"], wanted["mu_low"], wanted["mu_high"]
    if mode not in MODES:
        raise InputError("unknown mode of pruning", value=mode, accepted=", ".join(MODES))
    if depth < 1:
        raise InputError("pruning needs a depth", value=depth, accepted="1 or more")
    if not (0.0 <= lambda_high <= 1.0 and 0.0 < mu_low <= mu_high):
        raise InputError(
            "the range of parameters is outside its domain",
            value=(lambda_high, mu_low, mu_high),
            accepted="0 <= lambda_high <= 1 and 0 < mu_low <= mu_high",
        )
    if pool.pruning is not None and depth > pool.pruning.depth:
        raise InputError(
            "the candidates were pruned for a smaller depth already",
            value=depth,
            accepted=f"up to {pool.pruning.depth}",
        )
    if mode == "e":
        require_two_stage(pool.formula, "e-dominance")
    if pool.formula.dominance is None:
        raise InputError(
            "nothing is known of which documents this model may drop",
            value=pool.formula.name,
            accepted="a formula with `dominance`",
        )
    kept: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(pool.topics)
    by_e = np.zeros(len(pool.topics), np.bool_)

    def work(chunk: slice) -> None:
        for t in range(chunk.start, chunk.stop):
            kept[t], by_e[t] = _topic(pool, t, depth, mode, lambda_high, mu_low, mu_high)

    over_slices(work, len(pool.topics), threads=threads, progress=progress)
    pruning = Pruning(mode, depth, 1.0, np.inf, 0.0, by_e)
    if by_e.any():
        weights = np.diff(np.append(0, np.cumsum(pool.count))[pool.term_start])[by_e]
        pruning = replace(
            pruning, lambda_high=lambda_high, mu_high=mu_high, factor_low=smallest_factor(int(weights.max()))
        )
    if pool.pruning is not None:
        pruning = replace(
            pruning,
            lambda_high=min(pruning.lambda_high, pool.pruning.lambda_high),
            mu_high=min(pruning.mu_high, pool.pruning.mu_high),
            factor_low=max(pruning.factor_low, pool.pruning.factor_low),
            by_e=by_e | pool.pruning.by_e,
        )
    return replace(pool, candidates=pool.candidates.take(kept), pruning=pruning)


def _topic(
    pool: CandidatePool, t: int, depth: int, mode: str, lambda_high: float, mu_low: float, mu_high: float
) -> tuple[NDArray[np.int64], bool]:
    """Return the places of the candidates to keep, ascending, and whether e-dominance said so."""
    rows, terms = pool.candidates.rows(t), pool.term_rows(t)
    docs = rows.stop - rows.start
    if docs <= depth:
        return np.arange(docs), False
    tf = pool.tf_block(pool.candidates, t)
    lengths = pool.formula.field_lengths(pool.index, pool.candidates.doc[rows])
    if lengths.size:
        # What a field lacks of the longest is better greater, as a frequency is.
        tf = np.concatenate((tf, lengths.max(axis=1, keepdims=True) - lengths))
    p, count = pool.value[terms], pool.count[terms]
    group = np.empty(docs, np.int32)
    first = np.empty(docs, np.int32)
    groups = kernels.group_equal(tf, group, first)
    vectors = np.ascontiguousarray(tf[:, first[:groups]])
    by_e = mode != "tf" and lambda_high < 1.0 and mu_high < np.inf and pool.formula.dominance == "e"
    if by_e:
        y = vectors * (1.0 / p)[:, None]
        weight = int(count.sum())
        margins = margin(weight, pool.longest, lambda_high, mu_high)
        by_e = e_is_safe(weight, float(y.max()), float(p.max()), *margins)
        by_e &= smallest_factor(weight) <= mu_low / (mu_low + pool.longest)
        if mode == "e":
            by_e = e_is_finite(weight, float(y.max()))
            if not by_e:
                raise InputError(
                    "e-dominance overflows on this topic", value=pool.topics[t], accepted="mode tf"
                )
    if by_e:
        has, needs = ranked(polynomials(y, count), *margins)
        # Of documents of one length, a dominator has the greater e_1, or is equal and earlier.
        key = (groups - 1 - has[0])[group]
        order = kernels.order_within_lengths(
            pool.candidates.length[rows], np.ascontiguousarray(key), groups - 1
        )
    else:
        has = needs = vectors
        order = np.arange(docs, dtype=np.int32)
    keep = np.zeros(docs, np.bool_)
    kernels.count_dominators(order, group, has, needs, not by_e, depth, _BUDGET, keep)
    return np.flatnonzero(keep), by_e
