"""The K-skyband: the candidates that can be among the best K at some parameter setting.

A document that K others outrank at every setting is never among the best K. Leaving it out changes no ranking
down to rank K, at any setting. `lmtune.candidates.dominance` defines when a document dominates another.
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
from lmtune.threads import map_range

Margins: TypeAlias = tuple[float, float]
MODES = ("auto", "e", "tf")
SKYBAND_VERSION = 2
"""Version of the pruning; increment it with each change of the kept documents."""


class Exactness(TypedDict, total=False):
    """The depth, mode and ranges for which a pruned pool must be exact; `skyband` describes the keys."""

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
"""Defaults of `Exactness`."""


def exactness_in(depth: int, ranges: Mapping[str, tuple[float, float]]) -> Exactness:
    """Return the default exactness, extended to ranges of parameters."""
    _, lambda_high = ranges.get("lambda", (0.0, 0.0))
    mu_low, mu_high = ranges.get("mu", (0.0, 0.0))
    return {
        "depth": depth,
        "lambda_high": max(DEFAULT_EXACTNESS["lambda_high"], lambda_high),
        # mu = 0 (Jelinek-Mercer) does not extend the range, because lambda keeps factors away from 0.
        "mu_low": min(DEFAULT_EXACTNESS["mu_low"], mu_low or DEFAULT_EXACTNESS["mu_low"]),
        "mu_high": max(DEFAULT_EXACTNESS["mu_high"], mu_high),
    }


# Largest number of comparisons per topic, about half a second; only very long queries reach it.
_BUDGET = 5_000_000_000


def skyband(
    pool: CandidatePool,
    *,
    threads: int | None = None,
    progress: Count | None = None,
    **exactness: Unpack[Exactness],
) -> CandidatePool:
    """Remove the candidates that cannot be among the best `depth` at any parameter setting.

    The best `depth` documents stay the same, including ties. A topic with a negative term weight keeps all of
    its candidates, because dominance is not valid for it. Judged documents and the numbers of judgments stay
    complete: removed relevant documents cannot be retrieved, but still count as relevant.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    threads : int, optional
        Threads over topics; the number of cores by default.
    progress : callable, optional
        Called with (topics done, number of topics).
    depth : int
        The run depth K, at least 1; 1000 by default.
    mode : {"auto", "e", "tf"}
        ``"tf"`` removes a document if K others have no smaller frequency of any term and no greater length,
        in each field if the formula uses fields. It is valid at every setting. ``"e"`` compares the
        elementary symmetric polynomials of tf / P(w|C). It removes several times more documents, and is valid
        up to `lambda_high` and `mu_high`. ``"auto"`` chooses e for each topic unless

        - the margin for rounding errors would keep documents that tf removes (lambda_high near 1),
        - the products of a long query could leave the range of a double, or
        - the model is not two-stage smoothing; lucene-dirichlet has a floor, for which e is not valid.
    lambda_high, mu_low, mu_high : float
        The range of settings for the pool: lambda up to `lambda_high`, and mu from `mu_low` to `mu_high`, by
        default 0.9999, 1e-6 and 1e6. A lambda_high of 1 or an infinite mu_high implies ``"tf"``.

    Returns
    -------
    CandidatePool
        The same topics and judgments. `CandidatePool.pruning` has the settings for which the pool is exact.
        Measuring or ranking at other settings raises `InputError`.

    Raises
    ------
    InputError
        If the mode or the depth is outside its domain, or ``mode="e"`` cannot be computed or is not valid.
    """
    wanted = check_exactness(pool.formula, exactness)
    depth = wanted["depth"]
    if pool.pruning is not None and depth > pool.pruning.depth:
        raise InputError(
            "the candidates were already pruned for a smaller depth",
            value=depth,
            accepted=f"up to {pool.pruning.depth}",
        )
    margins = [_margins_of(pool, t, wanted) for t in range(len(pool.topics))]
    kept = pruned(pool, Undominated(depth, dict(zip(pool.topics, margins, strict=True))), threads, progress)
    return replace(kept, pruning=pruning_of(pool, wanted, margins))


def check_exactness(formula: Formula, exactness: Exactness) -> Exactness:
    """Return an exactness with defaults, checked for a formula; raise `InputError` as `skyband`."""
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
            "pruning is not available for this model",
            value=formula.name,
            accepted="a formula with `dominance`",
        )
    return wanted


class Keep(Protocol):
    """A function that selects candidates of a topic."""

    def __call__(self, pool: CandidatePool, t: int) -> Integers:
        """Return the positions of topic t's candidates to keep, ascending."""
        ...


def pruned(
    pool: CandidatePool, keep: Keep, threads: int | None = None, progress: Count | None = None
) -> CandidatePool:
    """Return a pool with only the selected candidates."""
    kept = map_range(partial(keep, pool), len(pool.topics), threads=threads, progress=progress)
    return replace(pool, candidates=pool.candidates.take(kept))


class Undominated(NamedTuple):
    """Selects the candidates that fewer than `depth` others dominate.

    Attributes
    ----------
    depth : int
        The run depth K.
    margins : mapping of str to (float, float) or None
        Margins of e-dominance by topic; None for tf-dominance.
    """

    depth: int
    margins: Mapping[str, Margins | None]

    def __call__(self, pool: CandidatePool, t: int) -> Integers:
        """Return the positions of topic t's candidates to keep, ascending."""
        rows, terms = pool.candidates.rows(t), pool.term_rows(t)
        docs = rows.stop - rows.start
        if docs <= self.depth or pool.topics[t] in pool.negative:
            return np.arange(docs)
        tf = pool.tf_block(pool.candidates, t)
        lengths = pool.formula.field_lengths(pool.index, pool.candidates.doc[rows])
        if lengths.size:
            # The difference from the longest field length: like a frequency, greater is better.
            tf = np.concatenate((tf, lengths.max(axis=1, keepdims=True) - lengths))
        group = np.empty(docs, np.int32)
        first = np.empty(docs, np.int32)
        groups = kernels.group_equal(tf, group, first)
        vectors = np.ascontiguousarray(tf[:, first[:groups]])
        margins = self.margins[pool.topics[t]]
        if margins is not None:
            y = vectors * (1.0 / pool.value[terms])[:, None]
            has, needs = dominance_ranks(polynomials(y, pool.count[terms]), *margins)
            # Among documents of equal length, a dominator has a greater e_1, or an equal one and comes first.
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
    """Return the margins of e-dominance for a topic, or None for tf-dominance.

    Parameters
    ----------
    pool : CandidatePool
        A pool with the topic's terms; its candidates are not used.
    t : int
        The topic.
    most : numpy.ndarray of int, shape (terms,)
        Greatest frequency of each term in a candidate of the collection.
    docs : int
        Number of candidates in the collection.
    wanted : Exactness
        Depth, mode and ranges, from `check_exactness`.

    Raises
    ------
    InputError
        If the mode is ``"e"`` and e-dominance overflows.
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
    """Return the settings for which a pool is exact after pruning with the topics' margins."""
    by_e = np.array([each is not None for each in margins], np.bool_)
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
        return pruning.intersect([pool.pruning], by_e | pool.pruning.by_e)
    return pruning
