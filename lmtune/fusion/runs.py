"""Runs side by side: their scores made comparable, as the columns of a pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Booleans, Doubles, Integers, Integers32
from lmtune.candidates.columns import UNJUDGED, join_columns, look_up_judgments, topic_columns
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
"""Of one topic's documents, shape (runs, documents), NaN where a run has not retrieved one."""
Columns = Callable[[Scores], Scores]
"""Makes values of scores, 0 where a run has not retrieved a document."""

POOL_DEPTH = 100
"""How deep runs are usually judged at TREC, for want of knowing."""

MINIMUM, ZERO = "minimum", "zero"
_BITS = 25  # so that differences times differences are exact
_MOST_BITS = 30  # that a column of whole numbers has room for
_SMALL = 2.0**-8  # of a topic's largest value: a run below it is rounded by its own


EQUAL = "equal"
"""The simplest weights: the same for all runs."""


class WeightedSum(Formula):
    """The score ``sum over runs of weight * unit * column``.

    Columns are whole numbers, which stand where term frequencies do, and a topic's unit of a run, a power
    of two, where a term's value does: documents of equal columns get equal bits, and where weights are
    whole numbers too, sums of one unit are exact.

    Parameters
    ----------
    names : sequence of str
        The runs', one a weight.
    tied : int
        How many unequal values of a topic and run are equal in the columns.
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
        """Pull weights to equal ones: the mean square of how far each is from 1, in units of equal ones."""
        runs = len(self.runs)
        return Ridge(np.full(runs, 1.0 / runs), np.full(runs, runs**0.5))

    def lengths(self, index: Index) -> Integers32:
        """Return no lengths: they play no part."""
        return np.zeros(index.num_docs, np.int32)

    def differentiate(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Score one topic's documents; the gradients in weights are the columns."""
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
        """Fill scores and gradients of many topics at once."""
        product[:] = False
        columns = documents.terms[:, :1] + np.arange(len(self.runs))
        units = documents.value[columns]
        kernels.differentiate_sums(documents.tf, documents.tfs, setting * units, units, likelihood, gradient)

    def rank_scores(self, documents: Documents, settings: Doubles, out: Doubles) -> None:
        """Fill scores, topic by topic and, within a topic, setting by setting."""
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
    """What a pool asks of an index: docnos, and runs' columns as postings of made-up terms."""

    listed: Sequence[str]
    numbers: Mapping[str, int]
    found: Mapping[str, Postings] = field(default_factory=dict)
    name: str = "runs"
    total_terms: int = 0
    fingerprint: str = ""

    @property
    def num_docs(self) -> int:
        """The number of documents that a run has retrieved."""
        return len(self.listed)

    @property
    def lengths(self) -> Integers32:
        """No lengths."""
        return np.zeros(len(self.listed), np.int32)

    @property
    def docno_rank(self) -> Integers32:
        """Documents are numbered by ascending docno."""
        return np.arange(len(self.listed), dtype=np.int32)

    def analyze(self, text: str) -> list[str]:
        """Return no terms: topics have no text."""
        return text.split()[:0]

    def postings(self, term: str) -> Postings | None:
        """Return a run's column for a topic."""
        return self.found.get(term)

    def docnos(self, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the docnos of document numbers."""
        return [self.listed[doc] for doc in docs]

    def doc_numbers(self, docnos: Sequence[str]) -> Integers32:
        """Return the document numbers of docnos, -1 for those that no run has retrieved."""
        return np.fromiter((self.numbers.get(docno, -1) for docno in docnos), np.int32, len(docnos))


@dataclass(frozen=True, repr=False)
class RunSet:
    """Runs of the same topics.

    Attributes
    ----------
    names : tuple of str
        The runs', ascending, whatever the order in which they were given: so nothing that is computed
        depends on that.
    given : tuple of str
        The same as they were given, for tables.
    docnos : list of str
        All documents' names, ascending.
    numbers : dict of str to int
        Their places there.
    docs : dict of str to numpy.ndarray of int32
        By topic, the documents that a run has retrieved, by descending docno: trec_eval's order of
        equal scores.
    scores : dict of str to Scores
        By topic, as 32-bit numbers, which is how trec_eval ranks them.
    """

    names: tuple[str, ...]
    given: tuple[str, ...]
    docnos: list[str]
    numbers: dict[str, int]
    docs: dict[str, Integers32]
    scores: dict[str, Scores]

    def __repr__(self) -> str:
        """Name the runs, and count topics and documents."""
        counts = f"{quantity(len(self.docs), 'topic')}, {quantity(len(self.docnos), 'document')}"
        return f"RunSet({', '.join(self.given)}: {counts})"

    @classmethod
    def of(cls, given: Mapping[str, RunLike]) -> RunSet:
        """Put runs side by side, by name: scores by topic and docno, or as `lmtune.io.frames` has it.

        Raises
        ------
        InputError
            For runs without a common topic, or a score beyond 32 bits.
        """
        runs: dict[str, Mapping[str, Mapping[str, float]]] = {
            name: run if isinstance(run, dict) else as_run(run, name=name)
            for name, run in sorted(given.items(), key=lambda item: item[0])
        }
        names = tuple(runs)
        for place, name in enumerate(names):
            for other in names[:place]:
                if runs[name] == runs[other]:
                    note(f"the run {name} is the same as {other}")
        topics = list(dict.fromkeys(topic for run in runs.values() for topic in run))
        common = [topic for topic in topics if all(topic in run for run in runs.values())]
        if not common:
            raise InputError(
                "the runs have no topic in common", value=names, accepted="runs of one set of topics"
            )
        if len(common) < len(topics):
            partly = f"{len(topics) - len(common)} of {len(topics)} topics"
            note(f"{partly} are not in every run: one that lacks a topic adds nothing there")
        docnos = sorted({docno for run in runs.values() for own in run.values() for docno in own})
        numbers = {docno: number for number, docno in enumerate(docnos)}
        docs, scores, constant = {}, {}, dict.fromkeys(names, 0)
        for topic in topics:
            own = [run.get(topic, {}) for run in runs.values()]
            union = np.array(sorted({numbers[d] for one in own for d in one}, reverse=True), np.int32)
            at_number = {int(number): at for at, number in enumerate(union)}
            docs[topic], table = union, np.full((len(names), union.size), np.nan)
            for row, name, one in zip(table, names, own, strict=True):
                at = [at_number[numbers[docno]] for docno in one]
                with np.errstate(over="ignore"):
                    row[at] = np.fromiter(one.values(), np.float64, len(one)).astype(np.float32)
                if not np.isfinite(row[at]).all():
                    raise InputError(f"a score of {name} is beyond 32 bits", value=topic)
                constant[name] += len(one) > 1 and np.ptp(row[at]) == 0.0
            scores[topic] = table
        for name, count in constant.items():
            if count:
                note(f"{name}: all documents of {quantity(int(count), 'topic')} have one score")
        return cls(names, tuple(given), docnos, numbers, docs, scores)

    @property
    def depths(self) -> dict[str, int]:
        """The most documents that each run has for a topic."""
        counts = [(~np.isnan(table)).sum(axis=1) for table in self.scores.values()]
        deepest = dict(zip(self.names, np.max(counts, axis=0).tolist(), strict=True))
        return {name: deepest[name] for name in self.given}

    def only(self, name: str) -> RunSet:
        """Return one run by itself."""
        place = self.names.index(name)
        docs, scores = {}, {}
        for topic, table in self.scores.items():
            own = ~np.isnan(table[place])
            if own.any():
                docs[topic], scores[topic] = self.docs[topic][own], table[place : place + 1, own]
        return RunSet((name,), (name,), self.docnos, self.numbers, docs, scores)

    def first(self, window: int) -> RunSet:
        """Return these runs with so many of each one's first documents a topic; with 0, all."""
        docs, scores = {}, {}
        for topic, table in self.scores.items() if window else ():
            cut = np.where(ranks(table) <= window, table, np.nan)
            own = ~np.isnan(cut).all(axis=0)
            docs[topic], scores[topic] = self.docs[topic][own], cut[:, own]
        return replace(self, docs=docs, scores=scores) if window else self

    def without_unique(self, qrels: Qrels, runs: Sequence[str], depth: int) -> dict[str, dict[str, int]]:
        """Leave out the judgments of what some runs alone have among their first documents.

        These are as TREC would have them without these runs (Voorhees, SIGIR 1998; Zobel, SIGIR 1998), if
        pools were `depth` deep and of the runs here.

        Raises
        ------
        InputError
            For a run that is not here, or where no other is.
        """
        for name in runs:
            if name not in self.names or len(set(runs)) == len(self.names):
                raise InputError("bad --leave-out", value=name, accepted=f"some of {', '.join(self.given)}")
        left = np.isin(self.names, runs)
        kept: dict[str, dict[str, int]] = {}
        for topic, gains in qrels.items():
            pooled = ranks(self.scores.get(topic, np.empty((left.size, 0)))) <= depth
            unique = pooled[left].any(axis=0) & ~pooled[~left].any(axis=0)
            gone = {self.docnos[doc] for doc in self.docs.get(topic, np.empty(0, np.int32))[unique]}
            kept[topic] = {docno: gain for docno, gain in gains.items() if docno not in gone}
        return kept

    def pool(
        self, columns: Columns, qrels: Qrels | None = None, topics: Sequence[str] | None = None
    ) -> CandidatePool:
        """Return a pool whose formula adds up the runs' columns.

        Parameters
        ----------
        columns : callable
            From `lmtune.fusion.methods`. Values are rounded to 2^-25 of the topic's largest; those
            of a run that is far below it, or whose unequal values would so become equal, to 2^-30 of
            its own largest in that topic.
        qrels : mapping, optional
            Judgments.
        topics : sequence of str, optional
            All by default; one that no run has gets no documents.
        """
        topics = tuple(self.docs if topics is None else topics)
        nothing = np.empty(0, np.int32), np.empty((len(self.names), 0))
        docs = [self.docs.get(topic, nothing[0]) for topic in topics]
        known = [self.scores.get(topic, nothing[1]) for topic in topics]
        rounded = [round_columns(columns(own)) for own in known]
        collected = []
        found: dict[str, Postings] = {}
        terms = [tuple(f"{topic} {name}" for name in self.names) for topic in topics]
        for own_docs, (tf, _, _), names in zip(docs, rounded, terms, strict=True):
            unjudged = np.full(own_docs.size, UNJUDGED, np.int32)
            collected.append(topic_columns(own_docs, np.zeros_like(own_docs), unjudged, tf))
            found |= {
                name: Postings(own_docs[::-1], row[::-1])
                for name, row in zip(names, tf, strict=True)
                if own_docs.size
            }
        index = RunIndex(self.docnos, self.numbers, found)
        formula = WeightedSum(self.names, sum(tied for _, _, tied in rounded))
        candidates = join_columns(collected)
        queries = [[QueryColumn(name, 0, 1) for name in names] for names in terms]
        gain, judged = look_up_judgments(index, formula, topics, queries, candidates, qrels or {})
        candidates.gain[:] = gain
        each = len(self.names) * len(topics)
        return CandidatePool(
            name=" + ".join(self.given),
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
    """Return ranks from 1 in trec_eval's order; NaN where a run has not retrieved a document."""
    order = np.argsort(-scores, axis=1, kind="stable")
    found = np.empty(scores.shape)
    np.put_along_axis(found, order, np.arange(1.0, scores.shape[1] + 1.0)[None], axis=1)
    return np.where(np.isnan(scores), np.nan, found)


class Rounded(NamedTuple):
    """One topic's columns as whole numbers.

    Attributes
    ----------
    tf : numpy.ndarray of int32, shape (runs, documents)
        How often each value holds its run's unit.
    units : numpy.ndarray of float64, shape (runs,)
        Powers of two.
    tied : int
        How many unequal values of a run became equal.
    """

    tf: Integers32
    units: Doubles
    tied: int


def round_columns(values: Scores) -> Rounded:
    """Round one topic's columns; see `RunSet.pool`."""
    largest = np.abs(values).max(axis=1, initial=0.0)
    most = largest.max(initial=0.0)
    units = np.full(largest.size, 2.0 ** (np.frexp(most)[1] - _BITS))
    rising = np.sort(values, axis=1)
    distinct = np.diff(rising) > 0.0

    def tied() -> Integers:
        found: Integers = (distinct & (np.diff(np.rint(rising / units[:, None])) == 0.0)).sum(axis=1)
        return found

    finer = (largest > 0.0) & ((largest < _SMALL * most) | (tied() > 0))
    units = np.where(finer, 2.0 ** (np.frexp(largest)[1] - float(_MOST_BITS)), units)
    return Rounded(np.rint(values / units[:, None]).astype(np.int32), units, int(tied().sum()))


def in_band(columns: NDArray[Any], depth: int) -> Booleans:
    """Tell the documents that fewer than `depth` others precede in every column, shape (runs, documents)."""
    order = np.argsort(-columns, axis=1, kind="stable")
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.arange(order.shape[1])[None], axis=1)
    keep = np.ones(order.shape[1], np.bool_)
    if keep.size > depth:
        kernels.in_band(places, depth, keep)
    return keep


def prune(pool: CandidatePool, depth: int) -> CandidatePool:
    """Leave out the documents that no weights from 0 on bring among a topic's best `depth`.

    At least `depth` others precede them in every column, ties in tie order; rounding keeps the order of
    sums of ordered columns. So the best `depth` stay the same at all weights, to the last tie.
    """
    kept = pruned(pool, lambda pool, t: np.flatnonzero(in_band(pool.tf_block(pool.candidates, t), depth)))
    pruning = Pruning("tf", depth, 1.0, np.inf, 0.0, np.zeros(len(pool.topics), np.bool_))
    return replace(kept, pruning=pruning)


def pruned_for(pool: CandidatePool, measure: Measure, depth: int) -> tuple[CandidatePool, int]:
    """Return what a measure needs of a pool: its candidates down to the cutoff, and how deep they are."""
    cutoff = min(measure.cutoff or depth, depth)
    if pool.pruning is None:
        return prune(pool, cutoff), cutoff
    return pool, min(depth, pool.pruning.depth)
