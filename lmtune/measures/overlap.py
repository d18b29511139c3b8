"""Similarity of rankings, without judgments: rank-biased overlap, Jaccard's coefficient, Kendall's tau."""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from lmtune.arrays import Doubles
from lmtune.collections.folds import select_topics
from lmtune.errors import InputError
from lmtune.io.frames import as_run
from lmtune.io.rows import RunsLike
from lmtune.measures.judged_ranking import trec_eval_order
from lmtune.measures.significance.comparison import labelled_runs
from lmtune.options import check, option
from lmtune.progress import Progress, silent

_Item = TypeVar("_Item", bound=Hashable)


@dataclass(frozen=True)
class OverlapOptions:
    """Comparison without judgments: measures of overlap.

    Attributes
    ----------
    persistence : float
        The parameter p of RBO: the weight of depth d is proportional to p^(d - 1).
    cutoff : int
        The number of documents for Jaccard's coefficient.
    """

    persistence: float = option(0.9, "The parameter p of RBO; higher for deeper ranks.", above=0, below=1)
    cutoff: int = option(10, "Number of documents for Jaccard's coefficient.", low=1)


class TopicOverlap(NamedTuple):
    """The similarity of two rankings of a topic.

    Attributes
    ----------
    topic : str
        The topic's identifier.
    rbo, jaccard, tau : float
        See `rank_biased_overlap`, `jaccard` and `union_tau`.
    rankings : (list of str, list of str)
        The documents of baseline and run, best first as in trec_eval.
    """

    topic: str
    rbo: float
    jaccard: float
    tau: float
    rankings: tuple[list[str], list[str]]

    @property
    def is_identical(self) -> bool:
        """Whether both rankings have the same documents in the same order."""
        return self.rankings[0] == self.rankings[1]


def compare_overlap(
    runs: RunsLike,
    options: OverlapOptions | None = None,
    *,
    only: str | None = None,
    progress: Progress = silent,
) -> dict[str, list[TopicOverlap]]:
    """Compare the rankings of runs with those of a baseline.

    Parameters
    ----------
    runs : sequence, or mapping of names to runs
        As for `lmtune.measures.compare_runs`, the baseline first.
    options : OverlapOptions, optional
        Parameters of the measures.
    only : str, optional
        The topics to use, as `lmtune.collections.folds.select_topics` reads them.
    progress : Progress
        Called after each run.

    Returns
    -------
    dict of str to list of TopicOverlap
        For each run but the baseline, the topics of either, the least similar first (by RBO, then tau). A
        topic that one of them misses has an empty ranking, and all its measures are 0.

    Raises
    ------
    InputError
        If there are fewer than two runs, one cannot be read, or a run and the baseline have no common topic.
    """
    options = OverlapOptions() if options is None else options
    check(options)
    named = labelled_runs(runs)
    if len(named) < 2:
        raise InputError("nothing to compare with the baseline", accepted="one run or more")
    baseline, *others = [(name, as_run(run, name=name)) for name, run in named.items()]
    found = {}
    for number, (name, run) in enumerate(others, 1):
        if not run.keys() & baseline[1].keys():
            accepted = f"topics of {baseline[0]}, such as {next(iter(baseline[1]))}"
            raise InputError(f"{name} and {baseline[0]} have no topic in common", accepted=accepted)
        topics = [*dict.fromkeys([*baseline[1], *run])]
        topics = topics if only is None else select_topics(only, topics)
        rows = [_overlap(topic, baseline[1].get(topic, {}), run.get(topic, {}), options) for topic in topics]
        found[name] = sorted(rows, key=lambda row: (row.rbo, row.tau))
        progress("comparing runs", number, len(others), name)
    return found


def _overlap(
    topic: str, first: Mapping[str, float], second: Mapping[str, float], options: OverlapOptions
) -> TopicOverlap:
    rankings = tuple(trec_eval_order([*own], [*own.values()]) for own in (first, second))
    ranks = tied_ranks(first), tied_ranks(second)
    return TopicOverlap(
        topic,
        rank_biased_overlap(*ranks, options.persistence),
        jaccard(rankings[0][: options.cutoff], rankings[1][: options.cutoff]),
        union_tau(*ranks),
        (rankings[0], rankings[1]),
    )


def tied_ranks(scores: Mapping[_Item, float]) -> dict[_Item, int]:
    """Return ranks from 1, best first; items with equal 32-bit scores share the first of their ranks.

    Examples
    --------
    >>> tied_ranks({"a": 2.0, "b": 3.0, "c": 2.0, "d": 1.0})
    {'a': 2, 'b': 1, 'c': 2, 'd': 4}
    """
    kept = array("f", scores.values()).tolist()
    first: dict[float, int] = {}
    for rank, score in enumerate(sorted(kept, reverse=True), 1):
        first.setdefault(score, rank)
    return {item: first[score] for item, score in zip(scores, kept, strict=True)}


def rank_biased_overlap(
    first: Mapping[_Item, int], second: Mapping[_Item, int], persistence: float = 0.9
) -> float:
    """Compute extrapolated rank-biased overlap, of rankings of any lengths and with ties.

    The agreement at depth d is A_d = 2 X_d / (|S_d| + |L_d|), where S_d and L_d are the items with ranks up
    to d and X_d is the number of common ones. Beyond the end s of the shorter ranking S, its unseen items are
    expected to agree as those above: X_d is increased by (d - s) A_s, and |S_d| is d. Beyond the end l of the
    longer one the agreement stays A_l. RBO is (1 - p) / p times the sum of A_d p^d up to l, plus A_l p^l.
    Source: equation 32, and the section on ties, of Webber, Moffat and Zobel, A similarity measure for
    indefinite rankings, ACM Transactions on Information Systems 28, 2010.

    Parameters
    ----------
    first, second : mapping of item to int
        Ranks from `tied_ranks`.
    persistence : float
        The parameter p, between 0 and 1.

    Returns
    -------
    float
        In [0, 1]; 0 if one ranking is empty.

    Examples
    --------
    >>> round(rank_biased_overlap({"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 2, "d": 3}), 4)
    0.685
    """
    shorter, longer = sorted((first, second), key=len)
    if not shorter:
        return 0.0
    depth = np.arange(1, len(longer) + 1)

    def counted(depths: Sequence[int]) -> Doubles:
        """Return how many of these depths are at most d, for each d."""
        return np.cumsum(np.bincount(depths, minlength=depth.size + 1)[1:]).astype(np.float64)

    shared = counted([max(first[item], second[item]) for item in first.keys() & second.keys()])
    beyond = np.maximum(depth - len(shorter), 0)
    sizes = np.where(beyond > 0, depth, counted([*shorter.values()])) + counted([*longer.values()])
    agreement = 2.0 * shared / sizes
    agreement += 2.0 * beyond * agreement[len(shorter) - 1] / sizes
    weights = (1.0 - persistence) * persistence ** (depth - 1.0)
    return float(weights @ agreement + agreement[-1] * persistence**depth.size)


def jaccard(first: Sequence[_Item], second: Sequence[_Item]) -> float:
    """Return the number of common items over that of all items; 0 without items.

    Examples
    --------
    >>> jaccard("abc", "bcd")
    0.5
    """
    union = len({*first} | {*second})
    return len({*first} & {*second}) / union if union else 0.0


def union_tau(first: Mapping[_Item, int], second: Mapping[_Item, int]) -> float:
    """Compute Kendall's tau on the union of two rankings.

    Items that a ranking misses are tied below its last item. tau is 1 - 2 K / N with N pairs of items; K
    counts pairs in opposite order as 1, and pairs tied in one ranking only as 1/2. This is K^(p) with the
    neutral p = 1/2 of Fagin, Kumar and Sivakumar (Comparing top k lists, SIAM Journal on Discrete Mathematics
    17, 2003). tau is 1 for identical rankings, and 0 if one is empty. It is above -1 for disjoint rankings,
    as pairs within each of them count 1/2.

    Parameters
    ----------
    first, second : mapping of item to int
        Ranks from `tied_ranks`.

    Examples
    --------
    >>> union_tau({"a": 1, "b": 2, "c": 3}, {"c": 1, "b": 2, "a": 3})
    -1.0
    >>> union_tau({"a": 1, "b": 2}, {"b": 1})
    -1.0
    """
    if not first or not second:
        return 0.0
    last = len(first) + 1, len(second) + 1
    pairs = sorted((first.get(item, last[0]), second.get(item, last[1])) for item in {**first, **second})
    above: list[int] = []
    opposite = 0
    for _, rank in pairs:
        opposite += len(above) - bisect_right(above, rank)
        insort(above, rank)
    ties = [_pairs_within(side) for side in (*zip(*pairs, strict=True), pairs)]
    total = len(pairs) * (len(pairs) - 1) // 2
    return 1.0 - (2 * opposite + ties[0] + ties[1] - 2 * ties[2]) / total if total else 1.0


def _pairs_within(values: Sequence[Hashable]) -> int:
    """Return the number of pairs of equal values."""
    return sum(count * (count - 1) // 2 for count in Counter(values).values())
