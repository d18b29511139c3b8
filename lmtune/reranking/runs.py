"""A run as ranking data: what its documents' features are, and how it looks reranked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError, check_least
from lmtune.formats.frames import as_qrels, as_run, as_topics
from lmtune.formats.runs import Ranking
from lmtune.indexing.index import Index
from lmtune.measures.order import trec_eval_order
from lmtune.models.two_stage import check_parameters
from lmtune.progress import Count
from lmtune.reranking.data import RankingData
from lmtune.reranking.features import compute_features, features_of
from lmtune.reranking.ranked_documents import look_up


def run_data(
    run: Any,
    index: Index,
    topics: Any,
    qrels: Any = None,
    *,
    lambda_: float = 0.4,
    mu: float = 2500.0,
    depth: int = 1000,
    fields: Sequence[str] = (),
    progress: Count | None = None,
    on_missing: Callable[[int, str], None] | None = None,
) -> RankingData:
    """Make the features of a run's documents.

    Only the run's own documents are looked up, so that no candidate pool is needed. Documents that
    hold no query term keep their place, with frequencies of 0; those that the index lacks are
    taken for empty.

    Parameters
    ----------
    run : mapping of str to mapping of str to float, or others
        Scores by topic and docno; or a frame, rows, a file, as `lmtune.formats.frames` has it.
    index : Index
        The collection; ``pool.index`` for a candidate pool.
    topics : mapping of str to str, or others
        Query text by topic, likewise; topics that the run lacks are left out.
    qrels : mapping of str to mapping of str to int, or others, optional
        Judgements, likewise. A label is the document's gain, 0 where that is negative or absent.
    lambda_, mu : float
        The tuned parameters for the first feature.
    depth : int
        Documents a topic at most, the best by score; ties by docno, descending, as trec_eval.
    fields : sequence of str
        Fields of the documents that the index has: each adds features of its own.
    progress : callable, optional
        Called with (topics done, topics in all).
    on_missing : callable, optional
        Called in the end with the number of documents that the index lacks, if any, and one of
        them.

    Returns
    -------
    RankingData
        A column each of `lmtune.reranking.features.features_of` the fields; topics in the run's
        order, rows in rank order, with docnos.

    Raises
    ------
    InputError
        If a topic of the run has no text, the index has none of the documents, a score is not
        finite, or parameters are outside their domain.
    """
    check_parameters(lambda_, mu)
    check_least("bad depth", depth, 1)
    ranked = {topic: scores for topic, scores in as_run(run).items() if scores}
    texts, gains = as_topics(topics), {} if qrels is None else as_qrels(qrels)
    for topic in ranked:
        if topic not in texts:
            raise InputError(
                "the run has a topic without text",
                value=topic,
                accepted=f"one of the {len(texts)} topics given",
            )
    if not ranked:
        raise InputError("the run is empty", accepted="at least one topic")
    orders = {topic: in_order(scores)[:depth] for topic, scores in ranked.items()}
    names = [docno for docnos in orders.values() for docno in docnos]
    scores = np.array([ranked[topic][docno] for topic, docnos in orders.items() for docno in docnos])
    starts = np.cumsum([0, *map(len, orders.values())])
    docs = _numbers(index, names, on_missing)
    features = np.empty((len(names), len(features_of(fields))), np.float32)
    labels = np.zeros(len(names), np.float32)
    for done, (topic, (first, last)) in enumerate(zip(orders, pairwise(starts.tolist()), strict=True), 1):
        rows = slice(first, last)
        own = docs[rows], scores[rows]
        features[rows] = compute_features(
            look_up(index, texts[topic], *own, lambda_=float(lambda_), mu=float(mu), fields=fields)
        )
        judged = gains.get(topic, {})
        if judged:
            labels[rows] = [max(0, judged.get(docno, 0)) for docno in names[rows]]
        if progress is not None:
            progress(done, len(orders))
    return RankingData(features, labels, starts.astype(np.int64), tuple(orders), tuple(names))


def reranked(run: Any, data: RankingData, scores: ArrayLike) -> Iterator[Ranking]:
    """Yield a run's topics by new scores, for `lmtune.formats.runs.write_run`.

    Parameters
    ----------
    run : mapping of str to mapping of str to float, or others
        The run, as `run_data` takes it.
    data : RankingData
        What was scored of it, as `run_data` gives it.
    scores : array_like of float, shape (rows,)
        Finite scores, higher is better; ties keep the order of the data's rows.

    Yields
    ------
    Ranking
        Documents that were not scored stand beneath the others in the run's order, with 1, 2, ...
        less than the lowest score.

    Raises
    ------
    InputError
        Where the data has no docnos, or scores do not fit or are not finite.
    """
    given, values = as_run(run), np.asarray(scores, np.float64)
    if data.docnos is None:
        raise InputError("the data has no docnos", accepted="data made from a run")
    if values.shape != data.labels.shape or not np.isfinite(values).all():
        raise InputError("bad scores", value=values.shape, accepted=f"{data.labels.size} finite numbers")
    for q, topic in enumerate(data.queries):
        rows = data.rows(q)
        order = np.argsort(-values[rows], kind="stable")
        docnos = [data.docnos[rows.start + int(place)] for place in order]
        ranked = set(docnos)
        rest = [docno for docno in in_order(given[topic]) if docno not in ranked]
        beneath = values[rows].min() - np.arange(1, len(rest) + 1)
        yield Ranking(topic, docnos + rest, np.concatenate((values[rows][order], beneath)))


def in_order(scores: Mapping[str, float]) -> list[str]:
    """Return one topic's docnos as trec_eval ranks them."""
    return trec_eval_order(list(scores), list(scores.values()))


def _numbers(
    index: Index, names: list[str], on_missing: Callable[[int, str], None] | None
) -> NDArray[np.int32]:
    distinct = list(dict.fromkeys(names))
    numbers = dict(zip(distinct, np.asarray(index.doc_numbers(distinct)).tolist(), strict=True))
    missing = [docno for docno, number in numbers.items() if number < 0]
    if len(missing) == len(distinct):
        raise InputError(
            f"{index.name} has none of the run's documents",
            value=missing[0],
            accepted="a run on the same collection",
        )
    if missing and on_missing is not None:
        on_missing(len(missing), missing[0])
    return np.array([numbers[docno] for docno in names], np.int32)
