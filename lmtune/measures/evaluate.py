"""Measure many parameter settings of a pool's model, without sorting."""

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
from lmtune.threads import over_slices

if TYPE_CHECKING:
    import pandas as pd


DEPTH = 1000
"""The customary run depth: documents below it count as not retrieved."""

_LARGEST_EXPONENT = 500
_NO_CUTOFF = np.iinfo(np.int64).max
# With many settings to measure, so many take turns on a topic before the next one's documents are fetched.
_SETTINGS = 64
_SECONDS = 7e-9  # a document and setting: the quickest formula's
# Formulas that the compiled loop knows, with its word for them; others are asked for their scores.
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
    """Measure every (topic, setting) pair.

    Documents rank by score, then length ascending, summed term frequency descending, docno
    descending; a run that lmtune writes makes trec_eval see exactly this order.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    settings : mapping, sequence of mappings, or numpy.ndarray, shape (settings, parameters)
        Parameters of the pool's formula: by name, or in its order.
    measures : sequence of Measure
        What to compute.
    topics : numpy.ndarray of int64, optional
        Places of topics in the pool, from `CandidatePool.positions`; all by default.
    depth : int
        Run depth; documents ranked below it are not retrieved.
    regions : Regions, optional
        The pool's candidates cell by cell: the same values, several times faster. Settings
        outside every cell are measured on all candidates.
    threads : int, optional
        Threads over topics; the number of cores by default. The result does not depend on it.
    progress : callable, optional
        Called with (topics done, topics in all).

    Returns
    -------
    numpy.ndarray of float64, shape (topics, settings, measures)
        Each in [0, 1], but for some of ir_measures' own; 0 for a topic without relevant documents.

    Raises
    ------
    InputError
        For a setting outside the formula's domain, or one that the candidates or the regions were
        not made for, or a gain too large for exponential DCG.
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
    """Return an order of settings in which those of a cell stand together, and the cells."""
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
    """Measure every (topic, setting) pair by its ranking: by functions of it, or by ir_measures.

    Negative gains count as no judgments, as everywhere in lmtune; what ir_measures gives no value for,
    as a topic without ranked documents, is 0.
    """
    out = np.zeros((topics.size, len(settings), len(measures)))
    own = [(m, measure, value) for m, measure in enumerate(measures) if (value := measure.declared.value)]
    others = [m for m, measure in enumerate(measures) if measure.declared.value is None]
    for i, t in enumerate(topics.tolist()):
        tops = [pool.top(t, setting, depth) for setting in settings]
        for s, top in enumerate(tops if own else ()):
            ranking = _judged_ranking(pool, t, top)
            for m, measure, value in own:
                out[i, s, m] = value(ranking.at_level(measure.rel), measure)
        if others:
            out[i, :, others] = _by_ir_measures(pool, t, tops, [measures[m] for m in others]).T
        if progress is not None:
            progress(i + 1, topics.size)
    return out


def _judged_ranking(pool: CandidatePool, t: int, top: Integers, rel: int = 1) -> JudgedRanking:
    """Judge a ranking of a topic, places among its candidates."""
    gains = pool.candidates.gain[pool.candidates.rows(t)][top]
    places = np.flatnonzero(gains >= 0)
    judged = Counter(pool.judgments[pool.judgment_start[t] : pool.judgment_start[t + 1]].tolist())
    largest = int(pool.judgments.max(initial=0))
    return JudgedRanking.of(len(top), places.tolist(), gains[places].tolist(), judged, rel, largest=largest)


def _by_ir_measures(
    pool: CandidatePool, t: int, tops: Sequence[Integers], measures: Sequence[Measure]
) -> Doubles:
    """Measure rankings of a topic, places among its candidates; return shape (rankings, measures)."""
    columns = {str(measure): m for m, measure in enumerate(measures)}
    out = np.zeros((len(tops), len(measures)))
    # A ranking takes the place of a topic: one call then measures them all.
    qrels = dict.fromkeys(map(str, range(len(tops))), _judgments(pool, t))
    docnos = pool.index.docnos(pool.candidates.doc[pool.candidates.rows(t)])
    run = {str(s): [docnos[place] for place in top] for s, top in enumerate(tops)}
    for s, name, value in values_by_topic(list(columns), qrels, run):
        out[int(s), columns[name]] = value
    return out


def _judgments(pool: CandidatePool, t: int) -> dict[str, int]:
    """Give back a topic's judgments, made-up docnos for documents that the index lacks."""
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
    """Measure settings on some topics, as many at a time as their scores stay in a core's cache."""
    sizes = judged.docs.tolist()
    together = min(len(settings), _SETTINGS)
    first = 0
    while first < len(sizes):
        docs, end = sizes[first], first + 1
        while end < len(sizes) and (docs + sizes[end]) * together <= SCORES:
            docs, end = docs + sizes[end], end + 1
        topics = slice(first, end)
        some = documents.of(topics)
        step = max(1, SCORES // max(docs, 1))
        for begin in range(0, len(settings), step):
            part = settings[begin : begin + step]
            found = np.empty((end - first, len(part), targets.kind.size))
            formula.rank_scores(some, part, scores)
            kernels.measure_scores(scores, judged, targets, first, found)
            out[topics, begin : begin + step] = found
        first = end


def measure(
    pool: CandidatePool,
    setting: Setting,
    *,
    measures: MeasuresLike = ("AP", "Bpref", "P@10"),
    topics: Sequence[str] | None = None,
    depth: int = DEPTH,
) -> pd.DataFrame:
    """Measure one parameter setting.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    setting : mapping of str to float
        Parameters by name, such as ``{"lambda": 0.4, "mu": 2500}``; defaults for those not named.
    measures : str, Measure, MeasureKind, an object of ir_measures, or an iterable of these
        Names as ir_measures or trec_eval spell them; see `parse_measure`.
    topics : sequence of str, optional
        Topic identifiers; by default all that are judged, as in trec_eval.
    depth : int
        Run depth.

    Returns
    -------
    pandas.DataFrame
        Topics (rows, indexed by identifier) by measures (columns, in ir_measures' spelling).
        A topic without relevant documents has 0, which counts in a mean, as in trec_eval 9.

    Raises
    ------
    InputError
        For unknown measures, topics or parameters, or parameters outside their domain.
    """
    import pandas as pd

    parsed = parse_measures(measures)
    places = pool.judged_positions(topics)
    values = measure_settings(pool, setting, parsed, topics=places, depth=depth)
    names = [pool.topics[place] for place in places]
    return pd.DataFrame(
        values[:, 0, :], index=pd.Index(names, name="topic"), columns=[str(m) for m in parsed]
    )


def lacks_nonrelevant(pool: CandidatePool, measure: Measure) -> bool:
    """Say whether a measure needs documents judged nonrelevant, and a pool has none."""
    return measure.declared.needs_nonrelevant and not pool.judged_counts(measure.rel)[1].any()


def _judged_of(pool: CandidatePool) -> kernels.Judged:
    """Return a pool's judged candidates as kernels take them: looked up once."""
    if None not in pool.targets:
        docs = pool.documents(pool.candidates).docs
        pool.targets[None] = kernels.Judged.at(pool.judged_candidates, docs, pool.candidates.gain)
    known: kernels.Judged = pool.targets[None]
    return known


def _targets_of(pool: CandidatePool, measures: tuple[Measure, ...], depth: int) -> kernels.Targets:
    """Return what measures take of a pool's judgments: worked out once."""
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
    """Return what divides each topic's sum: the ideal DCG (1 for 0), k, 1 for RR and Success, or R."""
    relevant, _ = pool.judged_counts(measure.rel)
    if measure.declared.is_graded:
        return _ideal_dcg(pool, measure)
    if measure.declared.kernel == Code.PRECISION:
        return np.full(relevant.size, measure.cutoff, np.float64)
    if measure.declared.kernel in (Code.RECIPROCAL_RANK, Code.SUCCESS):
        return np.ones(relevant.size)
    return relevant.astype(np.float64)


def worths(measure: Measure, gains: NDArray[np.integer] | Doubles) -> Doubles:
    """Return what documents of these gains add to DCG at the first rank."""
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
    """Return each topic's interpolated precision at a setting of two-stage smoothing.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    setting : mapping of str to float
        Parameters by name.
    topics : numpy.ndarray of int64
        Places of topics in the pool.
    rel : int
        The smallest gain that is relevant.
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
