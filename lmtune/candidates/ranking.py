"""Rank the documents of a pool, or of a collection, at one parameter setting."""

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
    """Rankings of topics at one setting, computed on each access.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    setting : numpy.ndarray of float64, shape (parameters,)
        The formula's parameters.
    hits : int
        Largest number of documents per topic.
    topics : sequence of int
        Positions of topics in the pool.
    """

    def __init__(self, pool: CandidatePool, setting: Doubles, hits: int, topics: Sequence[int]) -> None:
        self._pool, self._setting, self._hits, self._topics = pool, setting, hits, topics

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self._topics)

    @overload
    def __getitem__(self, position: int) -> Ranking: ...

    @overload
    def __getitem__(self, position: slice) -> Rankings: ...

    def __getitem__(self, position: int | slice) -> Ranking | Rankings:
        """Return the ranking of one topic, or the rankings of a slice of the topics."""
        if isinstance(position, slice):
            return Rankings(self._pool, self._setting, self._hits, self._topics[position])
        pool, t = self._pool, self._topics[position]
        top = pool.top(t, self._setting, self._hits)
        scores, _ = pool.formula.differentiate(pool.topic_documents(t, top), self._setting)
        docnos = pool.index.docnos(pool.candidates.doc[pool.candidates.rows(t)][top])
        return Ranking(pool.topics[t], docnos, scores)

    def __repr__(self) -> str:
        """Return the collection, the model and the setting."""
        formula = self._pool.formula
        values = zip(formula.parameters, self._setting.tolist(), strict=True)
        setting = ", ".join(f"{parameter.name} = {value:.4g}" for parameter, value in values)
        return (
            f"Rankings({quantity(len(self), 'topic')} of {self._pool.name}, up to "
            f"{quantity(self._hits, 'document')} each, {formula.name} with {setting})"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame in the format of `lmtune.run_frame`."""
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
        Parameters by name, such as ``{"lambda": 0.4, "mu": 2500}``; missing ones have their defaults.
    hits : int
        Largest number of documents per topic; documents without a query term are not ranked.
    topics : sequence of str, optional
        Topic identifiers; all by default.

    Returns
    -------
    Rankings
        A sequence of `Ranking`, computed on each access: topic, docnos (best first) and the formula's scores,
        such as log-likelihoods. Documents with equal scores are ordered by increasing length (as the formula
        counts it), decreasing sum of term frequencies, and decreasing docno. Lucene breaks ties by document
        number instead.

    Raises
    ------
    InputError
        If parameters are outside their domain, topics are unknown, or hits are below 1 or above the depth of
        a pruned pool.
    """
    check_least("bad number of hits", hits, 1)
    [vector] = as_settings(pool.formula.parameters, setting)
    pool.require(vector[None], hits)
    return Rankings(pool, vector, hits, pool.positions(topics).tolist())


@dataclass(frozen=True)
class Searched:
    """The result of a search, with its topics and index.

    Attributes
    ----------
    rankings : sequence of Ranking
        A ranking per topic, in the order of the topics, computed on each access.
    dataset : Dataset
        The topics.
    index : ColumnarIndex, LuceneIndex or ShardedIndex
        The documents.
    pool : CandidatePool
        The candidates.
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
        Topics, and documents or an index of them.
    model : str
        Name of a model; see `lmtune.models.model.find_model`.
    setting : mapping of str to float
        The model's parameters by name.
    hits : int
        Largest number of documents per topic.
    query : str, optional
        A query instead of topics; its topic identifier is 1.
    check_size : callable
        Called with the largest possible number of ranked documents, before topics are extracted.
    progress : Progress
        Called while documents are indexed and topics are extracted.

    Raises
    ------
    InputError
        If the setting is outside the model's domain, or files are missing or malformed.
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
    """Return notes about query terms outside the collection and topics without an expansion."""
    notes = []
    if pool.unknown_terms:
        notes.append(
            f"left out: {quantity(len(pool.unknown_terms), 'query term')} not in the collection "
            f"({list_first(sorted(pool.unknown_terms))})"
        )
    if unexpanded := unexpanded_topics(pool):
        notes.append(
            f"{len(unexpanded)} of {quantity(len(pool.topics), 'topic')} without an expansion term "
            f"({list_first(unexpanded)}): {FEEDBACK_TERMS}"
        )
    return notes


def unexpanded_topics(pool: CandidatePool) -> list[str]:
    """Return the topics that have query terms in the collection, but no feedback terms."""
    formula = pool.formula
    if not isinstance(formula, Weighted) or formula.feedback is None:
        return []
    rows = [(topic, pool.term_rows(t)) for t, topic in enumerate(pool.topics)]
    return [topic for topic, row in rows if row.stop > row.start and not pool.count[1, row].any()]


def list_first(names: Sequence[str]) -> str:
    """Return the first five names, separated by commas."""
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
