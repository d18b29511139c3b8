"""Measure many parameter settings of a pool's model, without sorting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.regions import Regions
from lmtune.errors import InputError
from lmtune.measures import kernels
from lmtune.measures.from_runs import from_runs
from lmtune.measures.measure import ACCEPTED, Measure, parse_measures
from lmtune.models.two_stage import check_parameters
from lmtune.threads import over_slices

if TYPE_CHECKING:
    import pandas as pd

DEPTH = 1000
"""The customary run depth: documents below it count as not retrieved."""

_KIND_CODES = {
    "AP": kernels.AP,
    "P": kernels.PRECISION,
    "Bpref": kernels.BPREF,
    "nDCG": kernels.DCG,
    "RR": kernels.RECIPROCAL_RANK,
    "R": kernels.RECALL,
    "Success": kernels.SUCCESS,
}
_LARGEST_EXPONENT = 500
_NO_CUTOFF = np.iinfo(np.int64).max


def measure_settings(
    pool: CandidatePool,
    lambdas: ArrayLike,
    mus: ArrayLike,
    measures: Sequence[Measure],
    *,
    topics: NDArray[np.int64] | None = None,
    depth: int = DEPTH,
    regions: Regions | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float64]:
    """Measure every (topic, setting) pair.

    Documents rank by score, then length ascending, summed term frequency descending, docno
    descending; a run that lmtune writes makes trec_eval see exactly this order.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    lambdas, mus : array_like of float, shape (settings,)
        Parameter settings; see `lmtune.models.two_stage.check_parameters`.
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
        For a setting outside the model's domain, or one that the candidates or the regions were
        not made for, or a gain too large for exponential DCG.
    """
    lambdas = np.atleast_1d(np.asarray(lambdas, np.float64))
    mus = np.atleast_1d(np.asarray(mus, np.float64))
    for lambda_, mu in zip(lambdas, mus, strict=True):
        check_parameters(float(lambda_), float(mu))
    if not measures:
        raise InputError("no measures", accepted=ACCEPTED)
    if depth < 1:
        raise InputError("bad run depth", value=depth, accepted="1 or more")
    pool.require(lambdas, mus, depth)
    topics = pool.positions() if topics is None else np.asarray(topics, np.int64)
    slow = [m for m, measure in enumerate(measures) if measure.is_slow]
    if slow:
        values = np.empty((topics.size, lambdas.size, len(measures)))
        values[:, :, slow] = from_runs(
            pool, lambdas, mus, [str(measures[m]) for m in slow], topics, depth, progress
        )
        fast = [m for m in range(len(measures)) if m not in slow]
        if fast:
            values[:, :, fast] = measure_settings(
                pool,
                lambdas,
                mus,
                [measures[m] for m in fast],
                topics=topics,
                depth=depth,
                regions=regions,
                threads=threads,
            )
        return values
    kinds = np.array([_kind_code(m) for m in measures], np.int64)
    cutoffs = np.array([_NO_CUTOFF if m.cutoff is None else m.cutoff for m in measures], np.int64)
    rels = np.array([m.rel for m in measures], np.int64)
    counts = [pool.judged_counts(m.rel) for m in measures]
    relevant = np.stack([relevant for relevant, _ in counts])
    nonrelevant = np.stack([nonrelevant for _, nonrelevant in counts])
    ideal = np.stack([_ideal_dcg(pool, m) for m in measures])
    out = np.zeros((topics.size, lambdas.size, len(measures)))
    columns = pool.candidates
    if regions is None:
        cells = np.full(lambdas.size, -1, np.int64)
        cell_start, cell_position = np.zeros((1, 1), np.int64), np.empty(0, np.int32)
    else:
        regions.require(pool, depth)
        cells = regions.cells(lambdas, mus)
        cell_start, cell_position = regions.start, regions.position
    order = np.argsort(cells, kind="stable")

    def work(chunk: slice) -> None:
        kernels.measure_topics(
            topics[chunk],
            columns.start,
            columns.tf_start,
            columns.length,
            columns.gain,
            columns.tf,
            pool.term_start,
            pool.p,
            pool.count,
            pool.longest,
            pool.formula.floored,
            cell_start,
            cell_position,
            cells[order],
            order,
            lambdas,
            mus,
            kinds,
            cutoffs,
            rels,
            relevant,
            nonrelevant,
            ideal,
            depth,
            out[chunk],
        )

    over_slices(work, topics.size, threads=threads, progress=progress)
    return out


def measure(
    pool: CandidatePool,
    *,
    lambda_: float,
    mu: float,
    measures: Iterable[str] = ("AP", "Bpref", "P@10"),
    topics: Sequence[str] | None = None,
    depth: int = DEPTH,
) -> pd.DataFrame:
    """Measure one parameter setting.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    lambda_, mu : float
        Smoothing parameters: 0 <= lambda < 1 and mu > 0 (or mu = 0 with lambda > 0).
    measures : iterable of str
        Names as ir_measures or trec_eval spell them; see `parse_measure`.
    topics : sequence of str, optional
        Topic identifiers; all by default.
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
        For unknown measures or topics, or parameters outside their domain.
    """
    import pandas as pd

    parsed = parse_measures(measures)
    places = pool.positions(topics)
    values = measure_settings(pool, lambda_, mu, parsed, topics=places, depth=depth)
    names = [pool.topics[place] for place in places]
    return pd.DataFrame(
        values[:, 0, :], index=pd.Index(names, name="topic"), columns=[str(m) for m in parsed]
    )


def _kind_code(measure: Measure) -> int:
    code = _KIND_CODES[measure.kind]
    return kernels.EXPONENTIAL_DCG if code == kernels.DCG and measure.dcg == "exp-log2" else code


def _ideal_dcg(pool: CandidatePool, measure: Measure) -> NDArray[np.float64]:
    """Return the DCG of each topic's best possible ranking; 1 where it plays no part."""
    ideal = np.ones(len(pool.topics))
    if measure.kind != "nDCG":
        return ideal
    for t in range(ideal.size):
        gains = pool.judgements[pool.judgement_start[t] : pool.judgement_start[t + 1]]
        best = np.sort(gains[gains > 0])[::-1][: measure.cutoff].astype(np.float64)
        if measure.dcg == "exp-log2":
            if best.size and best[0] > _LARGEST_EXPONENT:
                raise InputError(
                    f"a gain of topic {pool.topics[t]} is too large for {measure}",
                    value=int(best[0]),
                    accepted=f"up to {_LARGEST_EXPONENT}",
                )
            best = 2.0**best - 1.0
        if best.size:
            ideal[t] = (best / np.log2(np.arange(2, best.size + 2))).sum()
    return ideal
