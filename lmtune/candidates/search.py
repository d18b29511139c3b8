"""Rank a collection's documents for all its topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lmtune.candidates.extraction import extract_best
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.collections.collection import AnyIndex, Collection
from lmtune.collections.dataset import Dataset
from lmtune.io.runs import Ranking
from lmtune.models.feedback import KEPT
from lmtune.models.model import find_model
from lmtune.models.weighted import Weighted
from lmtune.progress import Progress, note, quantity, silent, timed


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
            f"({few(unexpanded)}): {KEPT}"
        )
    return notes


def unexpanded_topics(pool: CandidatePool) -> list[str]:
    """Return the topics with query terms in the collection whose feedback gives no term a weight."""
    formula = pool.formula
    if not isinstance(formula, Weighted) or formula.feedback is None:
        return []
    rows = [(topic, pool.term_rows(t)) for t, topic in enumerate(pool.topics)]
    return [topic for topic, own in rows if own.stop > own.start and not pool.count[1, own].any()]


def few(names: Sequence[str], most: int = 5) -> str:
    """List the first few names."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
