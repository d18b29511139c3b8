"""Extraction of pruned candidates, a few topics at a time to save memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

import numpy as np

from lmtune.arrays import Doubles, Integers
from lmtune.candidates.columns import join_columns, starts
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.shards import ColumnCounts, extract_from_shards
from lmtune.candidates.skyband import (
    Exactness,
    Undominated,
    check_exactness,
    pruned,
    pruning_of,
    skyband,
    topic_margins,
)
from lmtune.index.protocol import Index
from lmtune.index.sharded import ShardedIndex
from lmtune.models.formula import Formula
from lmtune.models.model import Model, find_model
from lmtune.models.parameter import as_settings
from lmtune.models.two_stage import TWO_STAGE
from lmtune.progress import Count

_TOPICS_AT_A_TIME = 16


def extract_pruned(
    index: Index,
    topics: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]] | None = None,
    *,
    name: str | None = None,
    model: str | Model | Formula = TWO_STAGE,
    exclude_self: bool = False,
    threads: int | None = None,
    progress: Count | None = None,
    **exactness: Unpack[Exactness],
) -> CandidatePool:
    """Build a pruned pool, with all candidates of only a few topics in memory at a time.

    The result equals ``skyband(CandidatePool.build(index, topics, qrels), ...)``.

    Parameters
    ----------
    index, topics, qrels, name, model, exclude_self
        As for `CandidatePool.build`.
    threads, exactness
        As for `lmtune.candidates.skyband.skyband`.
    progress : callable, optional
        Called with (topics done, number of topics).

    Returns
    -------
    CandidatePool

    Raises
    ------
    InputError
        As these two functions.
    """
    formula = find_model(model).formula
    how: dict[str, Any] = {"name": name, "exclude_self": exclude_self, "progress": progress}
    if isinstance(index, ShardedIndex):
        return _pruned_from_shards(index, topics, formula, exactness, **how).with_judgments(qrels or {})
    parts = CandidatePool.build_in_parts(index, topics, _TOPICS_AT_A_TIME, model=formula, **how)
    return _join([skyband(part, threads=threads, **exactness) for part in parts]).with_judgments(qrels or {})


def extract_best(
    index: Index,
    topics: Mapping[str, str],
    model: str | Model | Formula,
    setting: Mapping[str, float],
    hits: int,
    *,
    name: str | None = None,
    exclude_self: bool = False,
    progress: Count | None = None,
) -> CandidatePool:
    """Build a pool of each topic's best documents at one setting, a few topics at a time.

    Parameters
    ----------
    index, topics, model, name, exclude_self, progress
        As for `CandidatePool.build`.
    setting : mapping of str to float
        The parameters by name.
    hits : int
        Largest number of documents per topic.

    Returns
    -------
    CandidatePool
        A pool for ranking at this setting only.

    Raises
    ------
    InputError
        As `CandidatePool.build` and `lmtune.candidates.ranking.rank`.
    """
    formula = find_model(model).formula
    [vector] = as_settings(formula.parameters, setting)
    keep, formula = BestAtSetting(vector, hits), formula.with_first_search(vector)
    how: dict[str, Any] = {"name": name, "exclude_self": exclude_self, "progress": progress}
    if isinstance(index, ShardedIndex):
        return _join(extract_from_shards(index, topics, formula, lambda *_: keep, **how).pools)
    parts = CandidatePool.build_in_parts(index, topics, _TOPICS_AT_A_TIME, model=formula, **how)
    return _join([pruned(part, keep) for part in parts])


class BestAtSetting(NamedTuple):
    """Selects the best candidates at one setting.

    Attributes
    ----------
    setting : numpy.ndarray of float64, shape (parameters,)
        The parameters.
    hits : int
        Largest number of candidates per topic.
    """

    setting: Doubles
    hits: int

    def __call__(self, pool: CandidatePool, t: int) -> Integers:
        """Return the positions of topic t's best candidates, ascending."""
        return np.sort(pool.top(t, self.setting, self.hits))


def _pruned_from_shards(
    index: ShardedIndex, topics: Mapping[str, str], formula: Formula, exactness: Exactness, **how: Any
) -> CandidatePool:
    wanted = check_exactness(formula, exactness)

    def make_keep(outlines: list[CandidatePool], counts: list[ColumnCounts]) -> Undominated:
        # The number of postings is an upper bound of the number of candidates.
        margins = {
            outline.topics[0]: topic_margins(outline, 0, count.most, int(count.df.sum()), wanted)
            for outline, count in zip(outlines, counts, strict=True)
        }
        return Undominated(wanted["depth"], margins)

    pools, counts, docs = extract_from_shards(index, topics, formula, make_keep, **how)
    pool = _join(pools)
    margins = [
        topic_margins(pool, t, count.most, size, wanted)
        for t, (count, size) in enumerate(zip(counts, docs.tolist(), strict=True))
    ]
    return replace(pool, pruning=pruning_of(pool, wanted, margins))


def _join(pools: Sequence[CandidatePool]) -> CandidatePool:
    """Concatenate the topics of pools without judgments."""
    terms = tuple(term for pool in pools for term in pool.terms)
    pruning, *others = [pool.pruning for pool in pools]
    if pruning is not None:
        known = [other for other in others if other is not None]
        by_e = np.concatenate([each.by_e for each in (pruning, *known)])
        pruning = pruning.intersect(known, by_e)
    unknown: dict[str, int] = {}
    for pool in pools:
        for term, topics in pool.unknown_terms.items():
            unknown[term] = unknown.get(term, 0) + topics
    return replace(
        pools[0],
        topics=tuple(topic for pool in pools for topic in pool.topics),
        terms=terms,
        term_start=starts(terms),
        value=np.concatenate([pool.value for pool in pools]),
        count=np.concatenate([pool.count for pool in pools], axis=-1),
        group=np.concatenate([pool.group for pool in pools]),
        candidates=join_columns([pool.candidates for pool in pools]),
        unknown_terms=unknown,
        pruning=pruning,
    )
