"""Extract pruned candidates some topics at a time: the memory of all candidates is not needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np

from lmtune.candidates.columns import Columns, starts
from lmtune.candidates.pool import CandidatePool, Pruning
from lmtune.candidates.skyband import Exactness, skyband
from lmtune.indexing.index import Index
from lmtune.models.formula import Formula
from lmtune.models.model import Model
from lmtune.models.two_stage import TWO_STAGE

_TOPICS_AT_A_TIME = 16


def extract_pruned(
    index: Index,
    topics: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]] | None = None,
    *,
    name: str | None = None,
    model: str | Model | Formula = TWO_STAGE,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **exactness: Unpack[Exactness],
) -> CandidatePool:
    """Build a pool and prune it, holding few topics' whole candidates at a time.

    Equal to ``skyband(CandidatePool.build(index, topics, qrels), ...)``.

    Parameters
    ----------
    index, topics, qrels, name, model
        As for `CandidatePool.build`.
    threads, exactness
        As for `lmtune.candidates.skyband.skyband`.
    progress : callable, optional
        Called with (topics done, topics in all).

    Returns
    -------
    CandidatePool

    Raises
    ------
    InputError
        As both functions.
    """
    parts = [
        skyband(part, threads=threads, **exactness)
        for part in CandidatePool.build_in_parts(
            index, topics, _TOPICS_AT_A_TIME, name=name, model=model, progress=progress
        )
    ]
    return _join(parts).with_judgements(qrels or {})


def _join(pools: Sequence[CandidatePool]) -> CandidatePool:
    """Put the topics of pools without judgements one after another."""
    terms = tuple(term for pool in pools for term in pool.terms)
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
        count=np.concatenate([pool.count for pool in pools]),
        group=np.concatenate([pool.group for pool in pools]),
        candidates=_join_columns([pool.candidates for pool in pools]),
        unknown_terms=unknown,
        pruning=_join_pruning([pool.pruning for pool in pools if pool.pruning is not None]),
    )


def _join_columns(parts: Sequence[Columns]) -> Columns:
    sizes = np.concatenate([np.diff(part.start) for part in parts])
    tf_sizes = np.concatenate([np.diff(part.tf_start) for part in parts])
    return Columns(
        start=np.concatenate(([0], np.cumsum(sizes))),
        tf_start=np.concatenate(([0], np.cumsum(tf_sizes))),
        doc=np.concatenate([part.doc for part in parts]),
        length=np.concatenate([part.length for part in parts]),
        gain=np.concatenate([part.gain for part in parts]),
        tf=np.concatenate([part.tf for part in parts]),
    )


def _join_pruning(parts: Sequence[Pruning]) -> Pruning:
    return replace(
        parts[0],
        lambda_high=min(part.lambda_high for part in parts),
        mu_high=min(part.mu_high for part in parts),
        factor_low=max(part.factor_low for part in parts),
        by_e=np.concatenate([part.by_e for part in parts]),
    )
