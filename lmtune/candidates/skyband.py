"""The K-skyband: the candidates that can be among the best K at some parameter setting.

A document that K others beat at every setting is never retrieved. Leaving it out changes no
ranking down to K, whatever the setting; `lmtune.candidates.dominance` says when one document
beats another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Integers
from lmtune.candidates import skyband_kernels as kernels
from lmtune.candidates.dominance import (
    Pruning,
    dominance_ranks,
    e_is_finite,
    e_is_safe,
    margin,
    polynomials,
    smallest_factor,
)
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError, check_choice, check_least
from lmtune.models.formula import Formula
from lmtune.models.two_stage import require_two_stage
from lmtune.progress import Count
from lmtune.threads import over_places

Margins: TypeAlias = tuple[float, float]
MODES = ("auto", "e", "tf")
SKYBAND_VERSION = 2
"""Raised whenever other documents may be kept than before."""


class Exactness(TypedDict, total=False):
    """What a pruned pool shall be exact for; `skyband` says what each means."""

    depth: int
    mode: str
    lambda_high: float
    mu_low: float
    mu_high: float


DEFAULT_EXACTNESS: Exactness = {
    "depth": 1000,
    "mode": "auto",
    "lambda_high": 0.9999,
    "mu_low": 1e-6,
    "mu_high": 1e6,
}
"""What pruned pools are exact for unless told otherwise."""


def exactness_in(depth: int, ranges: Mapping[str, tuple[float, float]]) -> Exactness:
    """Widen what pruned pools are exact for to some parameters' ranges."""
    _, lambda_high = ranges.get("lambda", (0.0, 0.0))
    mu_low, mu_high = ranges.get("mu", (0.0, 0.0))
    return {
        "depth": depth,
        "lambda_high": max(DEFAULT_EXACTNESS["lambda_high"], lambda_high),
        # Jelinek-Mercer's mu = 0 needs no low mu: its lambda keeps factors from 0.
        "mu_low": min(DEFAULT_EXACTNESS["mu_low"], mu_low or DEFAULT_EXACTNESS["mu_low"]),
        "mu_high": max(DEFAULT_EXACTNESS["mu_high"], mu_high),
    }


# Comparisons per topic, about half a second; only queries of very many words take that long.
_BUDGET = 5_000_000_000


def skyband(
    pool: CandidatePool,
    *,
    threads: int | None = None,
    progress: Count | None = None,
    **exactness: Unpack[Exactness],
) -> CandidatePool:
    """Drop the candidates that cannot be among the best `depth` at any parameter setting.

    The best `depth` documents stay the same to the last tie. A topic with a negative term weight keeps all
    of its candidates: with it, no dominance is proved. Judged documents and the counts of
    judgments stay whole: relevant documents that are dropped can never be retrieved, and count.

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
        `mu_low` to `mu_high`, by default 0.9999, 1e-6 and 1e6. A lambda_high of 1 or an infinite
        mu_high give ``"tf"``.

    Returns
    -------
    CandidatePool
        The same topics and judgments; `CandidatePool.pruning` says what it is exact for, and
        measuring or ranking refuses anything else.

    Raises
    ------
    InputError
        For a mode or a depth outside its domain; for ``mode="e"`` where it cannot be computed or
        does not hold.
    """
    wanted = check_exactness(pool.formula, exactness)
    depth = wanted["depth"]
    if pool.pruning is not None and depth > pool.pruning.depth:
        raise InputError(
            "the candidates were pruned for a smaller depth already",
            value=depth,
            accepted=f"up to {pool.pruning.depth}",
        )
    margins = [_margins_of(pool, t, wanted) for t in range(len(pool.topics))]
    kept = pruned(pool, Undominated(depth, dict(zip(pool.topics, margins, strict=True))), threads, progress)
    return replace(kept, pruning=pruning_of(pool, wanted, margins))


def check_exactness(formula: Formula, exactness: Exactness) -> Exactness:
    """Return what pruned pools of a formula shall be exact for, with defaults; raise as `skyband`."""
    wanted = DEFAULT_EXACTNESS | exactness
    depth, mode = wanted["depth"], wanted["mode"]
    lambda_high, mu_low, mu_high = wanted["lambda_high"], wanted["mu_low"], wanted["mu_high"]
    check_choice("unknown mode of pruning", mode, MODES)
    check_least("pruning needs a depth", depth, 1)
    if not (0.0 <= lambda_high <= 1.0 and 0.0 < mu_low <= mu_high):
        raise InputError(
            "the range of parameters is outside its domain",
            value=(lambda_high, mu_low, mu_high),
            accepted="0 <= lambda_high <= 1 and 0 < mu_low <= mu_high",
        )
    if mode == "e":
        require_two_stage(formula, "e-dominance")
    if formula.dominance is None:
        raise InputError(
            "nothing is known of which documents this model may drop",
            value=formula.name,
            accepted="a formula with `dominance`",
        )
    return wanted


class Keep(Protocol):
    """Chooses candidates, topic by topic."""

    def __call__(self, pool: CandidatePool, t: int) -> Integers:
        """Return the places of topic t's candidates to keep, ascending."""
        ...


def pruned(
    pool: CandidatePool, keep: Keep, threads: int | None = None, progress: Count | None = None
) -> CandidatePool:
    """Return a pool with the candidates that are kept; see `skyband` for the others."""
    kept = over_places(partial(keep, pool), len(pool.topics), threads=threads, progress=progress)
    return replace(pool, candidates=pool.candidates.take(kept))


class Undominated(NamedTuple):
    """Keeps the candidates that fewer than `depth` others dominate.

    Attributes
    ----------
    depth : int
        The run depth K.
    margins : mapping of str to (float, float) or None
        By topic, e-dominance's; None for tf-dominance.
    """

    depth: int
    margins: Mapping[str, Margins | None]

    def __call__(self, pool: CandidatePool, t: int) -> Integers:
        """Return the places of topic t's candidates to keep, ascending."""
        rows, terms = pool.candidates.rows(t), pool.term_rows(t)
        docs = rows.stop - rows.start
        if docs <= self.depth or pool.topics[t] in pool.negative:
            return np.arange(docs)
        tf = pool.tf_block(pool.candidates, t)
        lengths = pool.formula.field_lengths(pool.index, pool.candidates.doc[rows])
        if lengths.size:
            # What a field lacks of the longest is better greater, as a frequency is.
            tf = np.concatenate((tf, lengths.max(axis=1, keepdims=True) - lengths))
        group = np.empty(docs, np.int32)
        first = np.empty(docs, np.int32)
        groups = kernels.group_equal(tf, group, first)
        vectors = np.ascontiguousarray(tf[:, first[:groups]])
        margins = self.margins[pool.topics[t]]
        if margins is not None:
            y = vectors * (1.0 / pool.value[terms])[:, None]
            has, needs = dominance_ranks(polynomials(y, pool.count[terms]), *margins)
            # Of documents of one length, a dominator has the greater e_1, or is equal and earlier.
            key = (groups - 1 - has[0])[group]
            order = kernels.order_within_lengths(
                pool.candidates.length[rows], np.ascontiguousarray(key), groups - 1
            )
        else:
            has = needs = vectors
            order = np.arange(docs, dtype=np.int32)
        keep = np.zeros(docs, np.bool_)
        kernels.count_dominators(order, group, has, needs, margins is None, self.depth, _BUDGET, keep)
        return np.flatnonzero(keep)


def _margins_of(pool: CandidatePool, t: int, wanted: Exactness) -> Margins | None:
    docs = int(pool.candidates.start[t + 1] - pool.candidates.start[t])
    most = pool.tf_block(pool.candidates, t).max(axis=1, initial=0)
    return topic_margins(pool, t, most, docs, wanted)


def topic_margins(
    pool: CandidatePool, t: int, most: NDArray[np.integer], docs: int, wanted: Exactness
) -> Margins | None:
    """Return e-dominance's margins for a topic, None where tf-dominance is to be taken.

    Parameters
    ----------
    pool : CandidatePool
        Its terms are looked at, not its candidates.
    t : int
        The topic.
    most : numpy.ndarray of int, shape (terms,)
        Each term's greatest frequency in all of the collection's candidates.
    docs : int
        How many these are.
    wanted : Exactness
        From `check_exactness`.

    Raises
    ------
    InputError
        For the mode ``"e"`` where e-dominance overflows.
    """
    lambda_high, mu_low, mu_high = wanted["lambda_high"], wanted["mu_low"], wanted["mu_high"]
    possible = wanted["mode"] != "tf" and lambda_high < 1.0 and mu_high < np.inf
    counts = pool.count[..., pool.term_rows(t)]
    possible = possible and pool.formula.dominance == "e" and counts.dtype.kind == "i"
    possible = possible and not (counts < 0).any()
    if docs <= wanted["depth"] or not possible:
        return None
    p, weight = pool.value[pool.term_rows(t)], int(counts.sum())
    margins, y_max = margin(weight, pool.longest, lambda_high, mu_high), float((most * (1.0 / p)).max())
    if wanted["mode"] == "e":
        if not e_is_finite(weight, y_max):
            raise InputError("e-dominance overflows on this topic", value=pool.topics[t], accepted="mode tf")
        return margins
    is_safe = e_is_safe(weight, y_max, float(p.max()), *margins)
    return margins if is_safe and smallest_factor(weight) <= mu_low / (mu_low + pool.longest) else None


def pruning_of(pool: CandidatePool, wanted: Exactness, margins: Sequence[Margins | None]) -> Pruning:
    """Return what a pool is exact for, pruned with each topic's margins."""
    by_e = np.array([own is not None for own in margins], np.bool_)
    pruning = Pruning(wanted["mode"], wanted["depth"], 1.0, np.inf, 0.0, by_e)
    if by_e.any():
        weights = np.diff(np.append(0, np.cumsum(pool.count))[pool.term_start])[by_e]
        pruning = replace(
            pruning,
            lambda_high=wanted["lambda_high"],
            mu_high=wanted["mu_high"],
            factor_low=smallest_factor(int(weights.max())),
        )
    if pool.pruning is not None:
        return pruning.also([pool.pruning], by_e | pool.pruning.by_e)
    return pruning
