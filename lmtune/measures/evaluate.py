"""Measure many parameter settings on a candidate pool, without sorting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Doubles, Integers
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.regions import OUTSIDE, Regions
from lmtune.errors import InputError, check_least
from lmtune.measures import kernels
from lmtune.measures.ir_measures_bridge import values_by_topic
from lmtune.measures.judged_ranking import JudgedRanking
from lmtune.measures.kernels import SCORES, Cells, measure_cells
from lmtune.measures.kinds import EXPONENTIAL, Code
from lmtune.measures.measure import ACCEPTED, Measure, MeasuresLike, parse_measures
from lmtune.measures.trec_measures import interpolated_precision
from lmtune.models.bm25 import BM25
from lmtune.models.formula import Formula
from lmtune.models.kernels import Documents
from lmtune.models.parameter import Setting, as_settings
from lmtune.models.two_stage import LuceneDirichlet, TwoStage
from lmtune.progress import Count
from lmtune.showing import data_frame
from lmtune.threads import over_slices

if TYPE_CHECKING:
    import pandas as pd


DEPTH = 1000
"""The default run depth; documents ranked below it count as not retrieved."""

_LARGEST_EXPONENT = 500
_NO_CUTOFF = np.iinfo(np.int64).max
# Settings per batch of topics: the topics' scores for so many settings should fit in the cache.
_SETTINGS = 64
_SECONDS = 7e-9  # time per document and setting of the fastest formula
# Formulas that the compiled loop scores itself, with its argument `floored`; others compute their scores.
_FLOORED = {TwoStage: False, LuceneDirichlet: True, BM25: None}


def measure_settings(
    pool: CandidatePool,
    settings: Setting | Sequence[Setting] | Doubles,
    measures: Sequence[Measure],
    *,
    topics: Integers | None = None,
    depth: int = DEPTH,
    regions: Regions | None = None,
    threads: int | None = None,
    progress: Count | None = None,
) -> Doubles:
    """Compute measures for every topic and setting.

    Documents are ranked by score, then by length ascending, summed term frequency descending and docno
    descending. Runs that lmtune writes have this order in trec_eval, too.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    settings : mapping, sequence of mappings, or numpy.ndarray, shape (settings, parameters)
        Parameters of the pool's formula, by name or in the formula's order.
    measures : sequence of Measure
        The measures to compute.
    topics : numpy.ndarray of int64, optional
        Positions of topics in the pool, from `CandidatePool.positions`; all by default.
    depth : int
        Run depth; documents ranked below it are not retrieved.
    regions : Regions, optional
        The pool's candidates by cell, which make measuring several times faster with the same values.
        Settings outside all cells are measured on all candidates.
    threads : int, optional
        Number of threads over topics; by default the number of cores. It does not change the values.
    progress : callable, optional
        Called with (topics done, number of topics).

    Returns
    -------
    numpy.ndarray of float64, shape (topics, settings, measures)
        Values in [0, 1], except for some measures of ir_measures; 0 for a topic without relevant
        documents.

    Raises
    ------
    InputError
        If a setting is outside the formula's domain, the candidates or the regions do not support a
        setting, or a gain is too large for exponential DCG.
    """
    settings = as_settings(pool.formula.parameters, settings)
    if not measures:
        raise InputError("no measures", accepted=ACCEPTED)
    check_least("bad run depth", depth, 1)
    pool.require(settings, depth)
    topics = pool.positions() if topics is None else np.asarray(topics, np.int64)
    out = np.zeros((topics.size, len(settings), len(measures)))
    slow = [m for m, measure in enumerate(measures) if measure.is_slow]
    fast = [m for m, measure in enumerate(measures) if not measure.is_slow]
    if slow:
        out[:, :, slow] = _from_rankings(pool, settings, [measures[m] for m in slow], topics, depth, progress)
    if not fast:
        return out
    targets = _targets_of(pool, tuple(measures[m] for m in fast), depth)
    order, cells = _by_cell(pool, settings, regions, depth)
    ordered = settings[order]
    whole = pool.documents(pool.candidates)
    judged = _judged_of(pool)
    kind = type(pool.formula)

    def work(chunk: slice) -> None:
        some = topics[chunk]
        known = whole.of(some), judged.of(some), targets.of(some)
        values = np.empty((some.size, len(settings), len(fast)))
        scores = np.empty(max(SCORES, known[1].docs.max()))
        if kind in _FLOORED:
            floored = _FLOORED[kind]
            mean_length = pool.mean_length if floored is None else None
            measure_cells(floored, mean_length, *known, cells.of(some), ordered, scores, values)
        else:
            _measure(pool.formula, *known, ordered, scores, values)
        out[chunk, order[:, None], fast] = values

    seconds = _SECONDS * len(settings) * int(np.diff(pool.candidates.start)[topics].sum())
    over_slices(work, topics.size, threads=threads, seconds=seconds, progress=None if slow else progress)
    return out


def _by_cell(
    pool: CandidatePool, settings: Doubles, regions: Regions | None, depth: int
) -> tuple[Integers, Cells]:
    """Return an order that groups settings by cell, and the cells."""
    start, position = np.zeros((len(pool.topics), 1), np.int64), np.empty(0, np.int32)
    cell = np.full(len(settings), OUTSIDE)
    if regions is not None:
        regions.require(pool, depth)
        start, position, cell = regions.start, regions.position, regions.cells(settings)
    order = np.argsort(cell, kind="stable")
    cell, first = np.unique(cell[order], return_index=True)
    return order, Cells(cell, np.append(first, len(settings)), start, position)


def _from_rankings(
    pool: CandidatePool,
    settings: Doubles,
    measures: Sequence[Measure],
    topics: Integers,
    depth: int,
    progress: Count | None,
) -> Doubles:
    """Compute measures from full rankings of every topic and setting, with lmtune or ir_measures.

    A negative gain is not a judgment. The value is 0 where ir_measures returns none, such as for a topic
    without ranked documents.
    """
    out = np.zeros((topics.size, len(settings), len(measures)))
    declared = [
        (m, measure, value) for m, measure in enumerate(measures) if (value := measure.declared.value)
    ]
    others = [m for m, measure in enumerate(measures) if measure.declared.value is None]
    for i, t in enumerate(topics.tolist()):
        tops = [pool.top(t, setting, depth) for setting in settings]
        for s, top in enumerate(tops if declared else ()):
            ranking = _judged_ranking(pool, t, top)
            for m, measure, value in declared:
                out[i, s, m] = value(ranking.at_level(measure.rel), measure)
        if others:
            out[i, :, others] = _by_ir_measures(pool, t, tops, [measures[m] for m in others]).T
        if progress is not None:
            progress(i + 1, topics.size)
    return out


def _judged_ranking(pool: CandidatePool, t: int, top: Integers, rel: int = 1) -> JudgedRanking:
    """Look up the judgments of a topic's ranking, given as positions among its candidates."""
    gains = pool.candidates.gain[pool.candidates.rows(t)][top]
    places = np.flatnonzero(gains >= 0)
    judged = Counter(pool.judgments[pool.judgment_start[t] : pool.judgment_start[t + 1]].tolist())
    largest = int(pool.judgments.max(initial=0))
    return JudgedRanking.of(len(top), places.tolist(), gains[places].tolist(), judged, rel, largest=largest)


def _by_ir_measures(
    pool: CandidatePool, t: int, tops: Sequence[Integers], measures: Sequence[Measure]
) -> Doubles:
    """Measure a topic's rankings, given as positions among its candidates, shape (rankings, measures)."""
    columns = {str(measure): m for m, measure in enumerate(measures)}
    out = np.zeros((len(tops), len(measures)))
    # Each ranking is passed as a topic of its own, so that one call measures all.
    qrels = dict.fromkeys(map(str, range(len(tops))), _judgments(pool, t))
    docnos = pool.index.docnos(pool.candidates.doc[pool.candidates.rows(t)])
    run = {str(s): [docnos[place] for place in top] for s, top in enumerate(tops)}
    for s, name, value in values_by_topic(list(columns), qrels, run):
        out[int(s), columns[name]] = value
    return out


def _judgments(pool: CandidatePool, t: int) -> dict[str, int]:
    """Return a topic's gains by docno, with placeholder docnos for documents that are not indexed."""
    rows = pool.judged.rows(t)
    gains = pool.judged.gain[rows].tolist()
    judged = dict(zip(pool.index.docnos(pool.judged.doc[rows]), gains, strict=True))
    everything = pool.judgments[pool.judgment_start[t] : pool.judgment_start[t + 1]].tolist()
    missing = (Counter(everything) - Counter(gains)).elements()
    return judged | {f"not in the index {number}": gain for number, gain in enumerate(missing)}


def _measure(
    formula: Formula,
    documents: Documents,
    judged: kernels.Judged,
    targets: kernels.Targets,
    settings: Doubles,
    scores: Doubles,
    out: Doubles,
) -> None:
    """Measure settings in batches of topics and settings whose scores fit in a core's cache."""
    sizes = judged.docs.tolist()
    batch = min(len(settings), _SETTINGS)
    first = 0
    while first < len(sizes):
        docs, end = sizes[first], first + 1
        while end < len(sizes) and (docs + sizes[end]) * batch <= SCORES:
            docs, end = docs + sizes[end], end + 1
        topics = slice(first, end)
        some = documents.of(topics)
        step = max(1, SCORES // max(docs, 1))
        for begin in range(0, len(settings), step):
            part = settings[begin : begin + step]
            values = np.empty((end - first, len(part), targets.kind.size))
            formula.rank_scores(some, part, scores)
            kernels.measure_scores(scores, judged, targets, first, values)
            out[topics, begin : begin + step] = values
        first = end


def measure(
    pool: CandidatePool,
    setting: Setting,
    *,
    measures: MeasuresLike = ("AP", "Bpref", "P@10"),
    topics: Sequence[str] | None = None,
    depth: int = DEPTH,
) -> pd.DataFrame:
    """Compute measures of one parameter setting, topic by topic.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    setting : mapping of str to float
        Parameters by name, such as ``{"lambda": 0.4, "mu": 2500}``; others have their defaults.
    measures : str, Measure, MeasureKind, an object of ir_measures, or an iterable of these
        Measures or their names in ir_measures or trec_eval; see `parse_measure`.
    topics : sequence of str, optional
        Topic identifiers; by default all judged topics, as in trec_eval.
    depth : int
        Run depth.

    Returns
    -------
    pandas.DataFrame
        One row per topic, indexed by identifier; one column per measure, named as in ir_measures.
        The value is 0 for a topic without relevant documents, and counts in means, as in trec_eval 9.

    Raises
    ------
    InputError
        If a measure, topic or parameter is unknown, or a parameter is outside its domain.
    """
    parsed = parse_measures(measures)
    places = pool.judged_positions(topics)
    values = measure_settings(pool, setting, parsed, topics=places, depth=depth)
    names = [pool.topics[place] for place in places]
    columns = dict(zip(map(str, parsed), values[:, 0, :].T, strict=True))
    return data_frame(columns, index=names).rename_axis("topic")


def lacks_nonrelevant(pool: CandidatePool, measure: Measure) -> bool:
    """Return whether a measure needs judged non-relevant documents that the pool does not have."""
    return measure.declared.needs_nonrelevant and not pool.judged_counts(measure.rel)[1].any()


def _judged_of(pool: CandidatePool) -> kernels.Judged:
    """Return a pool's judged candidates as kernel input, cached in the pool."""
    if None not in pool.targets:
        docs = pool.documents(pool.candidates).docs
        pool.targets[None] = kernels.Judged.at(pool.judged_candidates, docs, pool.candidates.gain)
    known: kernels.Judged = pool.targets[None]
    return known


def _targets_of(pool: CandidatePool, measures: tuple[Measure, ...], depth: int) -> kernels.Targets:
    """Return the kernels' targets for measures of a pool, cached in the pool."""
    if (measures, depth) not in pool.targets:
        counts = [pool.judged_counts(m.rel) for m in measures]
        pool.targets[measures, depth] = kernels.Targets(
            kind=np.array([_kind_code(m) for m in measures], np.int64),
            cutoff=np.array([_NO_CUTOFF if m.cutoff is None else m.cutoff for m in measures], np.int64),
            rel=np.array([m.rel for m in measures], np.int64),
            relevant=np.stack([relevant for relevant, _ in counts], axis=1),
            nonrelevant=np.stack([nonrelevant for _, nonrelevant in counts], axis=1),
            divisor=np.stack([divisors(pool, m) for m in measures], axis=1),
            depth=depth,
        )
    known: kernels.Targets = pool.targets[measures, depth]
    return known


def _kind_code(measure: Measure) -> int:
    code = measure.declared.kernel
    assert code is not None
    return Code.EXPONENTIAL_DCG if measure.dcg == EXPONENTIAL else code


def divisors(pool: CandidatePool, measure: Measure) -> Doubles:
    """Return the divisor of each topic's sum, shape (topics,).

    It is the ideal DCG for nDCG (1 if that is 0), k for P@k, 1 for RR and Success, and otherwise R.
    """
    relevant, _ = pool.judged_counts(measure.rel)
    if measure.declared.is_graded:
        return _ideal_dcg(pool, measure)
    if measure.declared.kernel == Code.PRECISION:
        return np.full(relevant.size, measure.cutoff, np.float64)
    if measure.declared.kernel in (Code.RECIPROCAL_RANK, Code.SUCCESS):
        return np.ones(relevant.size)
    return relevant.astype(np.float64)


def worths(measure: Measure, gains: NDArray[np.integer] | Doubles) -> Doubles:
    """Return the numerators of DCG for these gains: the gains, or 2^gain - 1."""
    worth = gains.astype(np.float64)
    return np.exp2(worth) - 1.0 if measure.dcg == EXPONENTIAL else worth


def _ideal_dcg(pool: CandidatePool, measure: Measure) -> Doubles:
    ideal = np.ones(len(pool.topics))
    for t in range(ideal.size):
        gains = pool.judgments[pool.judgment_start[t] : pool.judgment_start[t + 1]]
        best = np.sort(gains[gains > 0])[::-1][: measure.cutoff]
        if measure.dcg == EXPONENTIAL and best.size and best[0] > _LARGEST_EXPONENT:
            raise InputError(
                f"a gain of topic {pool.topics[t]} is too large for {measure}",
                value=int(best[0]),
                accepted=f"up to {_LARGEST_EXPONENT}",
            )
        if best.size:
            ideal[t] = (worths(measure, best) / np.log2(np.arange(2, best.size + 2))).sum()
    return ideal


LEVELS: Doubles = np.arange(11) / 10.0
"""The recall levels 0, 0.1, ..., 1."""


def setting_recall_precision(
    pool: CandidatePool, setting: Setting, *, topics: Integers, rel: int = 1, depth: int = DEPTH
) -> Doubles:
    """Compute each topic's interpolated precision at the recall levels of `LEVELS`.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    setting : mapping of str to float
        Parameters by name.
    topics : numpy.ndarray of int64
        Positions of topics in the pool.
    rel : int
        The smallest relevant gain.
    depth : int
        Run depth.

    Returns
    -------
    numpy.ndarray of float64, shape (topics, 11)
        0 for a topic without relevant documents.
    """
    [vector] = as_settings(pool.formula.parameters, setting)
    curves = []
    for t in topics.tolist():
        ranking = _judged_ranking(pool, t, pool.top(t, vector, depth), rel)
        curves.append(interpolated_precision(ranking, LEVELS.tolist()))
    return np.array(curves)
