"""Sets of runs, and candidate pools whose columns are the runs' scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Booleans, Doubles, Integers, Integers32
from lmtune.candidates.columns import UNJUDGED, PoolJudgments, join_columns, look_up_judgments, topic_columns
from lmtune.candidates.pool import CandidatePool, Pruning
from lmtune.candidates.skyband import pruned
from lmtune.errors import InputError
from lmtune.fusion import kernels
from lmtune.index.protocol import Index, Postings
from lmtune.io.frames import as_run
from lmtune.io.rows import Qrels, RunLike
from lmtune.measures.measure import Measure
from lmtune.models.formula import Formula, QueryColumn, Ridge
from lmtune.models.kernels import Documents, TopicDocuments
from lmtune.models.parameter import Parameter
from lmtune.progress import note, quantity

Scores = Doubles
"""Scores of a topic's documents, shape (runs, documents); NaN if a run has not retrieved a document."""
Columns = Callable[[Scores], Scores]
"""Maps scores to the values that are added up; 0 if a run has not retrieved a document."""

POOL_DEPTH = 100
"""Default depth of the judging pool: TREC's usual depth."""

MINIMUM, ZERO = "minimum", "zero"
_BITS = 25  # so that products of differences are exact
_MOST_BITS = 30  # of a column of 32-bit integers
_SMALL = 2.0**-8  # a run whose largest value is below this share of the topic's has its own unit


EQUAL = "equal"
"""Name of the simplest weights: the same for all runs."""


class WeightedSum(Formula):
    """The score ``sum over runs of weight * unit * column``.

    A run is stored like a query term: its column of integers as term frequencies, and its unit, a power of
    two for each topic, as the term's value. Documents with equal columns therefore have bitwise equal scores.
    If the weights are integers too, sums of columns with the same unit are exact.

    Parameters
    ----------
    names : sequence of str
        Names of the runs, which are also the names of their weights.
    tied : int
        Number of unequal scores that rounding made equal.
    """

    name = "weighted-sum"

    def __init__(self, names: Sequence[str], tied: int = 0) -> None:
        self.tied, self.runs = tied, tuple(names)
        equal = 1.0 / len(names)
        self.parameters = tuple(
            Parameter(name, 0.0, 1.0, "linear", equal, "a run's weight") for name in names
        )
        self.simpler = ((EQUAL, dict.fromkeys(names, equal)),)

    def ridge(self, rows: NDArray[Any]) -> Ridge:  # noqa: ARG002
        """Penalise the mean squared deviation from equal weights, in units of the equal weight."""
        runs = len(self.runs)
        return Ridge(np.full(runs, 1.0 / runs), np.full(runs, runs**0.5))

    def lengths(self, index: Index) -> Integers32:
        """Return zeros: document lengths are not used."""
        return np.zeros(index.num_docs, np.int32)

    def differentiate(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Score a topic's documents; the gradients with respect to the weights are the columns."""
        scores, gradient = np.empty(topic.length.size), np.empty((setting.size, topic.length.size))
        kernels.differentiate_sum(
            topic.tf.astype(np.int32), setting * topic.value, topic.value, scores, gradient
        )
        return scores, gradient

    def likelihoods(
        self,
        documents: Documents,
        setting: Doubles,
        likelihood: Doubles,
        gradient: Doubles,
        product: Booleans,
    ) -> None:
        """Fill the scores and gradients of several topics."""
        product[:] = False
        columns = documents.terms[:, :1] + np.arange(len(self.runs))
        units = documents.value[columns]
        kernels.differentiate_sums(documents.tf, documents.tfs, setting * units, units, likelihood, gradient)

    def rank_scores(self, documents: Documents, settings: Doubles, out: Doubles) -> None:
        """Fill the scores, ordered by topic, setting and document."""
        filled, runs = 0, len(self.runs)
        sizes = np.diff(documents.docs)[:, 0].tolist()
        for docs, tfs, terms in zip(sizes, documents.tfs, documents.terms, strict=True):
            columns = documents.tf[slice(*tfs)].reshape(runs, docs)
            end = filled + docs * len(settings)
            units = documents.value[slice(*terms)]
            kernels.weighted_sums(settings * units, columns, out[filled:end].reshape(len(settings), docs))
            filled = end


@dataclass(frozen=True)
class RunIndex:
    """An index for a pool of runs: docnos, and the runs' columns as postings of artificial terms.

    Attributes
    ----------
    listed : sequence of str
        Docnos by document number, ascending.
    numbers : dict of str to int
        Document numbers by docno.
    columns : dict of str to Postings
        Columns by ``"TOPIC RUN"``.
    """

    listed: Sequence[str]
    numbers: Mapping[str, int]
    columns: Mapping[str, Postings] = field(default_factory=dict)
    name: str = "runs"
    total_terms: int = 0
    fingerprint: str = ""

    @property
    def num_docs(self) -> int:
        """The number of documents that any run has retrieved."""
        return len(self.listed)

    @property
    def lengths(self) -> Integers32:
        """Zeros: document lengths are not used."""
        return np.zeros(len(self.listed), np.int32)

    @property
    def docno_rank(self) -> Integers32:
        """The document numbers themselves, since documents are numbered by ascending docno."""
        return np.arange(len(self.listed), dtype=np.int32)

    def analyze(self, text: str) -> list[str]:
        """Return no terms, since topics have no text."""
        return text.split()[:0]

    def postings(self, term: str) -> Postings | None:
        """Return the column of a run for a topic; the term is ``"TOPIC RUN"``."""
        return self.columns.get(term)

    def docnos(self, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the docnos of document numbers."""
        return [self.listed[doc] for doc in docs]

    def doc_numbers(self, docnos: Sequence[str]) -> Integers32:
        """Return the document numbers of docnos; -1 if no run has retrieved the document."""
        return np.fromiter((self.numbers.get(docno, -1) for docno in docnos), np.int32, len(docnos))


@dataclass(frozen=True, repr=False)
class RunSet:
    """Runs for the same topics.

    Attributes
    ----------
    names : tuple of str
        Names of the runs, sorted, so that results do not depend on the order of the input.
    input_order : tuple of str
        The same names in the order of the input, for tables.
    docnos : list of str
        The docnos of all retrieved documents, ascending.
    numbers : dict of str to int
        Positions in `docnos`.
    docs : dict of str to numpy.ndarray of int32
        By topic, the documents that any run has retrieved, by descending docno, which is trec_eval's order
        of ties.
    scores : dict of str to Scores
        Scores by topic, rounded to 32 bits as trec_eval does.
    """

    names: tuple[str, ...]
    input_order: tuple[str, ...]
    docnos: list[str]
    numbers: dict[str, int]
    docs: dict[str, Integers32]
    scores: dict[str, Scores]

    def __repr__(self) -> str:
        """List the runs and count topics and documents."""
        counts = f"{quantity(len(self.docs), 'topic')}, {quantity(len(self.docnos), 'document')}"
        return f"RunSet({', '.join(self.input_order)}: {counts})"

    @classmethod
    def of(cls, runs: Mapping[str, RunLike]) -> RunSet:
        """Create a set of named runs.

        Parameters
        ----------
        runs : mapping of str to run
            By name; each run maps topics to docnos to scores, or is one of the forms of `lmtune.io.frames`.

        Raises
        ------
        InputError
            If the runs have no common topic, or a score exceeds the range of 32-bit floats.
        """
        loaded: dict[str, Mapping[str, Mapping[str, float]]] = {
            name: run if isinstance(run, dict) else as_run(run, name=name)
            for name, run in sorted(runs.items(), key=lambda item: item[0])
        }
        names = tuple(loaded)
        for position, name in enumerate(names):
            for other in names[:position]:
                if loaded[name] == loaded[other]:
                    note(f"run {name} is identical to run {other}")
        topics = list(dict.fromkeys(topic for run in loaded.values() for topic in run))
        common = [topic for topic in topics if all(topic in run for run in loaded.values())]
        if not common:
            raise InputError(
                "the runs have no topic in common", value=names, accepted="runs for the same topics"
            )
        if len(common) < len(topics):
            incomplete = f"{len(topics) - len(common)} of {len(topics)} topics"
            note(f"{incomplete} are missing from some runs, which add nothing to the scores of these topics")
        docnos = sorted({docno for run in loaded.values() for ranking in run.values() for docno in ranking})
        numbers = {docno: number for number, docno in enumerate(docnos)}
        docs, scores, constant = {}, {}, dict.fromkeys(names, 0)
        for topic in topics:
            rankings = [run.get(topic, {}) for run in loaded.values()]
            union = {numbers[docno] for ranking in rankings for docno in ranking}
            docs[topic] = np.array(sorted(union, reverse=True), np.int32)
            column = {int(number): index for index, number in enumerate(docs[topic])}
            table = np.full((len(names), docs[topic].size), np.nan)
            for row, name, ranking in zip(table, names, rankings, strict=True):
                at = [column[numbers[docno]] for docno in ranking]
                with np.errstate(over="ignore"):
                    row[at] = np.fromiter(ranking.values(), np.float64, len(ranking)).astype(np.float32)
                if not np.isfinite(row[at]).all():
                    raise InputError(f"run {name} has a score beyond 32 bits for the topic", value=topic)
                constant[name] += len(ranking) > 1 and np.ptp(row[at]) == 0.0
            scores[topic] = table
        for name, count in constant.items():
            if count:
                note(f"run {name}: all scores are equal for {quantity(int(count), 'topic')}")
        return cls(names, tuple(runs), docnos, numbers, docs, scores)

    @property
    def depths(self) -> dict[str, int]:
        """The depth of each run: its largest number of documents for a topic."""
        counts = [(~np.isnan(table)).sum(axis=1) for table in self.scores.values()]
        deepest = dict(zip(self.names, np.max(counts, axis=0).tolist(), strict=True))
        return {name: deepest[name] for name in self.input_order}

    def only(self, name: str) -> RunSet:
        """Return a set with a single run."""
        index = self.names.index(name)
        docs, scores = {}, {}
        for topic, table in self.scores.items():
            is_retrieved = ~np.isnan(table[index])
            if is_retrieved.any():
                docs[topic] = self.docs[topic][is_retrieved]
                scores[topic] = table[index : index + 1, is_retrieved]
        return RunSet((name,), (name,), self.docnos, self.numbers, docs, scores)

    def first(self, window: int) -> RunSet:
        """Truncate each run to its first `window` documents of a topic; 0 returns the runs unchanged."""
        docs, scores = {}, {}
        for topic, table in self.scores.items() if window else ():
            cut = np.where(ranks(table) <= window, table, np.nan)
            is_retrieved = ~np.isnan(cut).all(axis=0)
            docs[topic], scores[topic] = self.docs[topic][is_retrieved], cut[:, is_retrieved]
        return replace(self, docs=docs, scores=scores) if window else self

    def without_unique(self, qrels: Qrels, runs: Sequence[str], depth: int) -> dict[str, dict[str, int]]:
        """Return the judgments without documents that only some runs have among their first `depth`.

        If the judging pool had this depth and was made of the runs of this set, these are the judgments that
        TREC would have made without the given runs (Voorhees, SIGIR 1998; Zobel, SIGIR 1998).

        Parameters
        ----------
        qrels : mapping of str to mapping of str to int
            Gains by topic and docno.
        runs : sequence of str
            Names of the runs to leave out.
        depth : int
            Depth of the judging pool.

        Raises
        ------
        InputError
            For an unknown run, or if no other run is left.
        """
        for name in runs:
            if name not in self.names or len(set(runs)) == len(self.names):
                accepted = f"some of {', '.join(self.input_order)}"
                raise InputError("bad --leave-out", value=name, accepted=accepted)
        is_left_out = np.isin(self.names, runs)
        reduced: dict[str, dict[str, int]] = {}
        for topic, gains in qrels.items():
            pooled = ranks(self.scores.get(topic, np.empty((is_left_out.size, 0)))) <= depth
            unique = pooled[is_left_out].any(axis=0) & ~pooled[~is_left_out].any(axis=0)
            removed = {self.docnos[doc] for doc in self.docs.get(topic, np.empty(0, np.int32))[unique]}
            reduced[topic] = {docno: gain for docno, gain in gains.items() if docno not in removed}
        return reduced

    def pool(
        self, columns: Columns, qrels: Qrels | None = None, topics: Sequence[str] | None = None
    ) -> CandidatePool:
        """Return a pool whose formula is the weighted sum of the runs' columns.

        Parameters
        ----------
        columns : callable
            A function of `lmtune.fusion.methods`. Its values are rounded to 2^-25 of the topic's largest
            value. A run is rounded to 2^-30 of its own largest value in the topic if that is much smaller, or
            if the coarser rounding made unequal values equal.
        qrels : mapping, optional
            Judgments.
        topics : sequence of str, optional
            All by default; a topic that is in no run has no documents.
        """
        topics = tuple(self.docs if topics is None else topics)
        none = np.empty((len(self.names), 0))
        return self.pool_of([columns(self.scores.get(topic, none)) for topic in topics], topics, qrels)

    def pool_of(
        self,
        tables: Sequence[Scores],
        topics: Sequence[str],
        qrels: Qrels | None = None,
        *,
        like: CandidatePool | None = None,
    ) -> CandidatePool:
        """Return the pool of `pool` for the columns of each topic, shape (runs, documents).

        Parameters
        ----------
        tables, topics
            The columns, and the topics they belong to.
        qrels : mapping, optional
            Judgments.
        like : CandidatePool, optional
            A pool of the same topics and documents; its judgments are used instead of `qrels`, which are
            not looked up then. The columns of documents that are only judged are missing.
        """
        topics, no_docs = tuple(topics), np.empty(0, np.int32)
        docs = [self.docs.get(topic, no_docs) for topic in topics]
        rounded = [round_columns(table) for table in tables]
        collected = []
        postings: dict[str, Postings] = {}
        terms = [tuple(f"{topic} {name}" for name in self.names) for topic in topics]
        for topic_docs, (tf, _, _), names in zip(docs, rounded, terms, strict=True):
            unjudged = np.full(topic_docs.size, UNJUDGED, np.int32)
            collected.append(topic_columns(topic_docs, np.zeros_like(topic_docs), unjudged, tf))
            postings |= {
                name: Postings(topic_docs[::-1], row[::-1])
                for name, row in zip(names, tf, strict=True)
                if topic_docs.size and like is None
            }
        index = RunIndex(self.docnos, self.numbers, postings)
        formula = WeightedSum(self.names, sum(tied for _, _, tied in rounded))
        candidates = join_columns(collected)
        queries = [[QueryColumn(name, 0, 1) for name in names] for names in terms]
        if like is None:
            gain, judged = look_up_judgments(index, formula, topics, queries, candidates, qrels or {})
        else:
            gain = like.candidates.gain
            judged = PoolJudgments(*(getattr(like, name) for name in PoolJudgments._fields))
        candidates.gain[:] = gain
        each = len(self.names) * len(topics)
        return CandidatePool(
            name=" + ".join(self.input_order),
            index=index,
            topics=topics,
            terms=tuple(terms),
            term_start=np.arange(0, each + 1, len(self.names)),
            value=np.concatenate([np.empty(0), *(units for _, units, _ in rounded)]),
            count=np.ones(each, np.int64),
            group=np.zeros(each, np.int8),
            candidates=candidates,
            unknown_terms={},
            formula=formula,
            **judged._asdict(),
        )


def ranks(scores: Scores) -> Scores:
    """Return ranks from 1 in trec_eval's order; NaN if a run has not retrieved the document."""
    order = np.argsort(-scores, axis=1, kind="stable")
    by_document = np.empty(scores.shape)
    np.put_along_axis(by_document, order, np.arange(1.0, scores.shape[1] + 1.0)[None], axis=1)
    return np.where(np.isnan(scores), np.nan, by_document)


def order_of(scores: Doubles) -> Doubles:
    """Return the positions of scores among the different ones, from 0 for the lowest."""
    return np.unique(scores, return_inverse=True)[1].astype(np.float64)


class Rounded(NamedTuple):
    """A topic's columns, rounded to integer multiples of a unit.

    Attributes
    ----------
    tf : numpy.ndarray of int32, shape (runs, documents)
        Values divided by the run's unit, rounded.
    units : numpy.ndarray of float64, shape (runs,)
        Powers of two.
    tied : int
        Number of unequal values of a run that became equal.
    """

    tf: Integers32
    units: Doubles
    tied: int


def round_columns(values: Scores) -> Rounded:
    """Round a topic's columns as described at `RunSet.pool`."""
    largest = np.abs(values).max(axis=1, initial=0.0)
    most = largest.max(initial=0.0)
    units = np.full(largest.size, 2.0 ** (np.frexp(most)[1] - _BITS))
    rising = np.sort(values, axis=1)
    distinct = np.diff(rising) > 0.0

    def count_new_ties() -> Integers:
        by_run: Integers = (distinct & (np.diff(np.rint(rising / units[:, None])) == 0.0)).sum(axis=1)
        return by_run

    finer = (largest > 0.0) & ((largest < _SMALL * most) | (count_new_ties() > 0))
    units = np.where(finer, 2.0 ** (np.frexp(largest)[1] - float(_MOST_BITS)), units)
    return Rounded(np.rint(values / units[:, None]).astype(np.int32), units, int(count_new_ties().sum()))


def skyband_mask(columns: NDArray[Any], depth: int) -> Booleans:
    """Return a mask of the documents that fewer than `depth` others precede in all columns.

    Parameters
    ----------
    columns : numpy.ndarray, shape (runs, documents)
        Documents in tie order.
    depth : int
        At least 1.
    """
    order = np.argsort(-columns, axis=1, kind="stable")
    ranks_by_run = np.empty_like(order)
    np.put_along_axis(ranks_by_run, order, np.arange(order.shape[1])[None], axis=1)
    keep = np.ones(order.shape[1], np.bool_)
    if keep.size > depth:
        kernels.in_band(ranks_by_run, depth, keep)
    return keep


def prune(pool: CandidatePool, depth: int) -> CandidatePool:
    """Leave out the documents that rank below `depth` at all weights >= 0.

    At least `depth` other documents precede them in every column, with ties in tie order. Rounding does not
    change the order of sums of ordered columns. The first `depth` documents, including ties, are therefore
    the same as without pruning at all weights.
    """
    smaller = pruned(
        pool, lambda pool, t: np.flatnonzero(skyband_mask(pool.tf_block(pool.candidates, t), depth))
    )
    pruning = Pruning("tf", depth, 1.0, np.inf, 0.0, np.zeros(len(pool.topics), np.bool_))
    return replace(smaller, pruning=pruning)


def prune_for_measure(pool: CandidatePool, measure: Measure, depth: int) -> tuple[CandidatePool, int]:
    """Return a pool pruned to the measure's cutoff, and the depth of its rankings."""
    cutoff = min(measure.cutoff or depth, depth)
    if pool.pruning is None:
        return prune(pool, cutoff), cutoff
    return pool, min(depth, pool.pruning.depth)
