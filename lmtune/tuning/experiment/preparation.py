"""Preparation of a collection for tuning: load, check, split, index, and extract candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import list_first, topic_notes
from lmtune.candidates.storage import pool_for
from lmtune.collections.collection import AnyIndex, Collection
from lmtune.collections.dataset import Dataset, check_dataset, split_topics
from lmtune.collections.folds import Fold, make_folds
from lmtune.collections.loading import PARTS
from lmtune.errors import InputError
from lmtune.index.analysis import Analyzer
from lmtune.io.term_values import weights_of
from lmtune.models.model import find_model
from lmtune.progress import Progress, note, quantity, silent, timed
from lmtune.tuning.certificate.optimum import check_uncertified
from lmtune.tuning.certificate.problem import Problem
from lmtune.tuning.experiment.plan import Plan, Split
from lmtune.tuning.surrogate import LIST_DEPTH


@dataclass(frozen=True)
class Prepared:
    """A collection that is ready for tuning.

    Attributes
    ----------
    pool : CandidatePool
        The candidates of all topics in the folds.
    folds : list of Fold
        Training and test topics.
    notes : list of str
        Notes for readers of the results.
    dataset : Dataset
        The loaded topics and judgments.
    index : ColumnarIndex, LuceneIndex or ShardedIndex
        The index that the candidates are from.
    collection : Collection
        The arguments that opened the collection.
    """

    pool: CandidatePool
    folds: list[Fold]
    notes: list[str]
    dataset: Dataset
    index: AnyIndex
    collection: Collection


def prepare(
    collection: Collection,
    split: Split,
    plan: Plan,
    *,
    beside: Sequence[Analyzer] = (),
    in_folds: bool = True,
    progress: Progress = silent,
) -> Prepared:
    """Load, check, split and index a collection, and extract its candidates.

    Parameters
    ----------
    collection : Collection
        Documents (or an index of them), topics and judgments.
    split : Split
        Training and test topics; the collection's usual split by default.
    plan : Plan
        The plan. Its model, ranges and depths determine the candidates.
    beside : sequence of Analyzer
        Other analyzers that will be needed. If an index is built, indexes with these are built in the same
        pass.
    in_folds : bool
        Whether to split topics into folds, which needs at least two topics; otherwise, one fold trains on
        all.
    progress : Progress
        Called while judgments are created, documents indexed and topics extracted.

    Raises
    ------
    InputError
        If something is missing, malformed or inconsistent.
    """
    if split.topic_weights is not None:
        check_uncertified(plan.certify)
    # Everything that does not need the documents is checked before they are indexed.
    loaded = check_dataset(_load(collection, split), ignore_unknown=split.ignore_unknown)
    dataset = loaded.dataset
    collection.note_excluded(dataset)
    usable, skipped = split_topics(dataset)
    train: str | Sequence[str] | None = split.train_topics
    test: str | Sequence[str] | None = split.test_topics
    if dataset.split is not None and not (split.folds or train or test):
        train, test = dataset.split
    folds, how = [Fold(tuple(usable), ())], "not split"
    if in_folds:
        folds, how = make_folds(
            usable, list(dataset.topics), folds=split.folds, train=train, test=test, seed=plan.seed
        )
    needed = {topic for fold in folds for part in (fold.train, fold.test) for topic in part}
    topics = [topic for topic in usable if topic in needed]
    if split.topic_weights is not None:
        weights_of(topics, split.topic_weights)
    formula = find_model(plan.model).formula
    fielded = replace(collection, fields=formula.fields)
    index = fielded.open_index(dataset, positions=formula.needs_positions, beside=beside, progress=progress)
    checked = check_dataset(dataset, doc_numbers=index.doc_numbers, ignore_unknown=split.ignore_unknown)
    pool = _pool(dataset, index, topics, plan, progress)
    if plan.certify is not None:
        Problem.check_pool(pool)
    weighted = pool if split.topic_weights is None else pool.with_topic_weights(split.topic_weights)
    notes = [f"{quantity(index.num_docs, 'document')}, {quantity(len(pool.topics), 'topic')}, {how}"]
    if skipped:
        notes.append(
            f"skipped: {quantity(len(skipped), 'topic')} without a relevant document ({list_first(skipped)})"
        )
    if loaded.unknown_topics:
        notes.append(f"left out: judgments of {quantity(loaded.unknown_topics, 'unknown topic')}")
    if checked.unknown_docnos:
        notes.append(
            "counted as never retrieved: "
            f"{quantity(checked.unknown_docnos, 'judged document')} outside the collection"
        )
    if pool.negative:
        notes.append(
            f"{quantity(len(pool.negative), 'topic')} with a negative term weight "
            f"({list_first(pool.negative)}): candidates are not pruned there"
        )
    if weighted is not pool:
        notes.append("topics are weighted in fits; held-out means weight all topics equally")
    return Prepared(weighted, folds, [*notes, *topic_notes(pool)], dataset, index, collection)


def _load(collection: Collection, split: Split) -> Dataset:
    """Load a collection; if a folder has training and test splits, load the topics and judgments of both."""
    names = split.names(collection)
    if names is None:
        return collection.load()
    train, test = (
        replace(collection, split=name).load(need)
        for name, need in zip(names, (PARTS, ("topics", "qrels")), strict=True)
    )
    if both := next(iter(train.topics.keys() & test.topics.keys()), None):
        raise InputError(
            "a topic is judged in both splits", file=test.qrels_file, value=both, accepted="disjoint splits"
        )
    note(f"{train.name}: trained on {train.qrels_file}, reported on {test.qrels_file}")
    return replace(
        train,
        topics=train.topics | test.topics,
        qrels=train.qrels | test.qrels,
        qrels_file=f"{train.qrels_file}, {test.qrels_file}",
        split=(list(train.topics), list(test.topics)),
    )


def _pool(
    dataset: Dataset, index: AnyIndex, topics: Sequence[str], plan: Plan, progress: Progress
) -> CandidatePool:
    """Extract the candidates of topics; with a large index, prune them and cache them beside it."""
    with timed(f"{dataset.name}: {quantity(len(topics), 'topic')} extracted"):
        return pool_for(
            index,
            {topic: dataset.topics[topic] for topic in topics},
            dataset.qrels,
            name=dataset.name,
            model=plan.model,
            exclude_self=dataset.exclude_self,
            depth=max(plan.depth, LIST_DEPTH) if plan.approx else plan.depth,
            ranges=plan.measured,
            progress=lambda done, total: progress(f"topics of {dataset.name}", done, total),
            on_build=lambda path, reason: note(f"{dataset.name}: pruning to {path} ({reason})"),
        )
