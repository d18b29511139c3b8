"""Measure many parameter settings of two-stage smoothing on a pool, without sorting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.measures import kernels
from lmtune.measures.measure import Measure, parse_measures
from lmtune.models.two_stage import check_parameters
from lmtune.threads import over_slices

if TYPE_CHECKING:
    import pandas as pd

DEPTH = 1000
"""The customary run depth: documents below it count as not retrieved."""

_KIND_CODES = {"AP": kernels.AP, "P": kernels.PRECISION, "Bpref": kernels.BPREF}
_NO_CUTOFF = np.iinfo(np.int64).max


def measure_settings(
    pool: CandidatePool,
    lambdas: ArrayLike,
    mus: ArrayLike,
    measures: Sequence[Measure],
    *,
    topics: NDArray[np.int64] | None = None,
    depth: int = DEPTH,
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
    threads : int, optional
        Threads over topics; the number of cores by default. The result does not depend on it.
    progress : callable, optional
        Called with (topics done, topics in all).

    Returns
    -------
    numpy.ndarray of float64, shape (topics, settings, measures)
        Each in [0, 1]; 0 for a topic without relevant documents.

    Raises
    ------
    InputError
        For a setting outside the model's domain.
    """
    lambdas = np.atleast_1d(np.asarray(lambdas, np.float64))
    mus = np.atleast_1d(np.asarray(mus, np.float64))
    for lambda_, mu in zip(lambdas, mus, strict=True):
        check_parameters(float(lambda_), float(mu))
    pool.require(lambdas, mus, depth)
    topics = pool.positions() if topics is None else np.asarray(topics, np.int64)
    kinds = np.array([_KIND_CODES[m.kind] for m in measures], np.int64)
    cutoffs = np.array([_NO_CUTOFF if m.cutoff is None else m.cutoff for m in measures], np.int64)
    rels = np.array([m.rel for m in measures], np.int64)
    counts = [pool.judged_counts(m.rel) for m in measures]
    relevant = np.stack([relevant for relevant, _ in counts])
    nonrelevant = np.stack([nonrelevant for _, nonrelevant in counts])
    out = np.zeros((topics.size, lambdas.size, len(measures)))
    columns = pool.candidates

    def work(chunk: slice) -> None:
        kernels.measure_topics(
            topics[chunk], columns.start, columns.tf_start, columns.length, columns.gain,
            columns.tf, pool.term_start, pool.p, pool.count, pool.longest, lambdas, mus, kinds,
            cutoffs, rels, relevant, nonrelevant, depth, out[chunk],
        )  # fmt: skip

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
