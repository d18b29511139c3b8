"""Rank documents at one parameter setting: those of a pool, or of a collection for all its topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

from lmtune.arrays import Doubles
from lmtune.candidates.extraction import extract_best
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.collection import AnyIndex, Collection
from lmtune.collections.dataset import Dataset
from lmtune.errors import check_least
from lmtune.io.frames import run_frame
from lmtune.io.runs import Ranking
from lmtune.models.feedback import FEEDBACK_TERMS
from lmtune.models.model import find_model
from lmtune.models.parameter import Setting, as_settings
from lmtune.models.weighted import Weighted
from lmtune.progress import Progress, note, quantity, silent, timed

if TYPE_CHECKING:
    import pandas as pd


class Rankings(Sequence[Ranking]):
    """Topics' rankings at one setting, made when they are looked at, as often as they are.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    setting : numpy.ndarray of float64, shape (parameters,)
        The formula's parameters.
    hits : int
        Documents per topic at most.
    topics : sequence of int
        Places of topics in the pool.
    """

    def __init__(self, pool: CandidatePool, setting: Doubles, hits: int, topics: Sequence[int]) -> None:
        self._pool, self._setting, self._hits, self._topics = pool, setting, hits, topics

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self._topics)

    @overload
    def __getitem__(self, place: int) -> Ranking: ...

    @overload
    def __getitem__(self, place: slice) -> Rankings: ...

    def __getitem__(self, place: int | slice) -> Ranking | Rankings:
        """Rank one topic, or take some of them."""
        if isinstance(place, slice):
            return Rankings(self._pool, self._setting, self._hits, self._topics[place])
        pool, t = self._pool, self._topics[place]
        top = pool.top(t, self._setting, self._hits)
        scores, _ = pool.formula.differentiate(pool.topic_documents(t, top), self._setting)
        docnos = pool.index.docnos(pool.candidates.doc[pool.candidates.rows(t)][top])
        return Ranking(pool.topics[t], docnos, scores)

    def __repr__(self) -> str:
        """Name the collection and the setting."""
        formula = self._pool.formula
        values = zip(formula.parameters, self._setting.tolist(), strict=True)
        setting = ", ".join(f"{own.name} = {value:.4g}" for own, value in values)
        return (
            f"Rankings({quantity(len(self), 'topic')} of {self._pool.name}, up to "
            f"{quantity(self._hits, 'document')} each, {formula.name} with {setting})"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a frame as `lmtune.run_frame` makes it."""
        return run_frame(self)


def rank(
    pool: CandidatePool, setting: Setting, *, hits: int = 1000, topics: Sequence[str] | None = None
) -> Rankings:
    """Rank each topic's candidates by the pool's formula.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    setting : mapping of str to float
        Parameters by name, such as ``{"lambda": 0.4, "mu": 2500}``; defaults for those not named.
    hits : int
        Documents per topic at most; documents that match no query term are not ranked.
    topics : sequence of str, optional
        Topic identifiers; all by default.

    Returns
    -------
    Rankings
        A sequence of `Ranking`, made anew whenever it is gone through: topic, docnos best first,
        and their log likelihoods, or what else the formula's scores are. Equal scores rank by
        length (as the formula takes it) ascending, summed term frequency descending, docno
        descending; Lucene's own ties go by document number.

    Raises
    ------
    InputError
        For parameters outside their domain, unknown topics, too few hits, or more than a pruned pool was
        made for.
    """
    check_least("bad number of hits", hits, 1)
    [vector] = as_settings(pool.formula.parameters, setting)
    pool.require(vector[None], hits)
    return Rankings(pool, vector, hits, pool.positions(topics).tolist())


@dataclass(frozen=True)
class Searched:
    """What a search found, and in what.

    Attributes
    ----------
    rankings : iterator of Ranking
        One a topic, in the topics' order, ranked as it is asked for.
    dataset : Dataset
        The topics.
    index : ColumnarIndex, LuceneIndex or ShardedIndex
        The documents.
    """

    rankings: Sequence[Ranking]
    dataset: Dataset
    index: AnyIndex
    pool: CandidatePool


def search(
    collection: Collection,
    model: str,
    setting: Mapping[str, float],
    *,
    hits: int = 1000,
    query: str | None = None,
    check_size: Callable[[int], object] = lambda _: None,
    progress: Progress = silent,
) -> Searched:
    """Rank a collection's documents for all its topics, or for a query.

    Parameters
    ----------
    collection : Collection
        Documents and topics, or an index that stands for the documents.
    model : str
        A name that `lmtune.models.model.find_model` knows.
    setting : mapping of str to float
        Its parameters by name.
    hits : int
        Documents a topic, at most.
    query : str, optional
        In place of topics; it is topic 1.
    check_size : callable
        Called with the largest possible number of ranked documents, before topics are extracted.
    progress : Progress
        Called while documents are indexed and topics extracted.

    Raises
    ------
    InputError
        For a setting outside the model's domain, and whatever is missing or malformed.
    """
    known = find_model(model)
    known.check(setting)
    collection = replace(collection, fields=known.formula.fields)
    dataset = collection.load(("documents", "topics") if query is None else ("documents",))
    if query is not None:
        dataset = replace(dataset, topics={"1": query}, exclude_self=False)
    collection.note_excluded(dataset)
    index = collection.open_index(dataset, positions=known.formula.needs_positions, progress=progress)
    check_size(len(dataset.topics) * min(hits, index.num_docs))
    with timed(f"{dataset.name}: {quantity(len(dataset.topics), 'topic')} extracted"):
        pool = extract_best(
            index,
            dataset.topics,
            model,
            setting,
            hits,
            name=dataset.name,
            exclude_self=dataset.exclude_self,
            progress=lambda done, total: progress(f"topics of {dataset.name}", done, total),
        )
    for text in topic_notes(pool):
        note(f"{dataset.name}: {text}")
    rankings = rank(pool, setting, hits=hits)
    return Searched(rankings, dataset, index, pool)


def topic_notes(pool: CandidatePool) -> list[str]:
    """Say which query terms are left out, and which topics are not expanded."""
    notes = []
    if pool.unknown_terms:
        notes.append(
            f"left out: {quantity(len(pool.unknown_terms), 'query term')} that the collection lacks "
            f"({few(sorted(pool.unknown_terms))})"
        )
    if unexpanded := unexpanded_topics(pool):
        notes.append(
            f"{len(unexpanded)} of {quantity(len(pool.topics), 'topic')} without an expansion term "
            f"({few(unexpanded)}): {FEEDBACK_TERMS}"
        )
    return notes


def unexpanded_topics(pool: CandidatePool) -> list[str]:
    """Return the topics with query terms in the collection whose feedback gives no term a weight."""
    formula = pool.formula
    if not isinstance(formula, Weighted) or formula.feedback is None:
        return []
    rows = [(topic, pool.term_rows(t)) for t, topic in enumerate(pool.topics)]
    return [topic for topic, own in rows if own.stop > own.start and not pool.count[1, own].any()]


def few(names: Sequence[str]) -> str:
    """List the first five names."""
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
