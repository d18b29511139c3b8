"""From names on the command line to a dataset, its index and a pool."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmtune.cli.screen import stages
from lmtune.cli.values import is_lucene
from lmtune.datasets.loading import PARTS, load
from lmtune.errors import InputError
from lmtune.progress import note, timed

if TYPE_CHECKING:
    from lmtune.candidates.pool import CandidatePool
    from lmtune.datasets.dataset import Dataset
    from lmtune.formats.documents import DocumentSource
    from lmtune.indexing.analysis import Analyzer
    from lmtune.indexing.columnar import ColumnarIndex
    from lmtune.indexing.lucene.index import LuceneIndex
    from lmtune.tuning.folds import Fold
    from lmtune.tuning.plan import Plan


@dataclass(frozen=True)
class Names:
    """What the user named: a collection, or its parts."""

    dataset: str | None
    documents: str | None
    index: str | None
    topics: str | None
    qrels: str | None
    topic_fields: tuple[str, ...]
    stemmer: str | None = None
    stopwords: str | None = None
    lengths: str | None = None


@dataclass(frozen=True)
class Split:
    """What the user said of training and test topics."""

    folds: str | None
    train: str | None
    test: str | None
    seed: int


@dataclass(frozen=True)
class Ready:
    """A collection ready to tune on, what the reader must know of it, and its identity."""

    pool: CandidatePool
    folds: list[Fold]
    notes: list[str]
    facts: dict[str, Any]


def prepare(
    names: Names, analyzer: Analyzer, indexes: Path, split: Split, plan: Plan, *, ignore_unknown: bool
) -> Ready:
    """Load, index, check and split a collection, and extract its pool."""
    from lmtune.datasets.consistency import check, split_topics
    from lmtune.reporting.provenance import describe
    from lmtune.tuning.folds import make_folds

    # What can be wrong without looking at a document is found before they are indexed.
    topics_checked = check(open_dataset(names), ignore_unknown=ignore_unknown)
    dataset = topics_checked.dataset
    usable, skipped = split_topics(dataset)
    if dataset.split is not None and not (split.folds or split.train or split.test):
        split = replace(split, train=dataset.split[0], test=dataset.split[1])
    folds, how = make_folds(
        usable, list(dataset.topics), folds=split.folds, train=split.train, test=split.test, seed=split.seed
    )
    index = open_index(dataset, names, analyzer, indexes)
    checked = check(dataset, doc_numbers=index.doc_numbers, ignore_unknown=ignore_unknown)
    needed = {topic for fold in folds for part in (fold.train, fold.test) for topic in part}
    pool, pool_notes = build_pool(dataset, index, [t for t in usable if t in needed], plan)
    notes = [f"{index.num_docs:,} documents, {len(pool.topics):,} topics, {how}"]
    if skipped:
        notes.append(f"{len(skipped)} topics without a relevant document are skipped ({shorten(skipped)})")
    if topics_checked.unknown_topics:
        notes.append(f"judgements of {topics_checked.unknown_topics} unknown topics are left out")
    if checked.unknown_docnos:
        notes.append(
            f"{checked.unknown_docnos} judged documents are not in the collection: "
            "they count as never retrieved"
        )
    return Ready(pool, folds, [*notes, *pool_notes], describe(dataset, index))


def open_dataset(names: Names, *, need: Collection[str] = PARTS) -> Dataset:
    """Load documents, topics and judgements; keep pydocs' files where a user looks for them."""
    from lmtune.datasets.pydocs import NAME, write_pydocs

    needed = [part for part in PARTS if part in need and (part != "documents" or not names.index)]
    with stages() as report:
        dataset = load(
            names.dataset,
            documents=names.documents,
            topics=names.topics,
            qrels=names.qrels,
            topic_fields=names.topic_fields,
            need=needed,
            progress=lambda done, total: report(f"making {names.dataset}", done, total),
        )
    if names.dataset == NAME:
        try:
            written = write_pydocs(".", dataset)
        except InputError as error:
            note(f"{NAME}: its topics and judgements are not kept here ({error})")
        else:
            if written.changed:
                note(f"{NAME}: wrote {written.topics_file} and {written.qrels_file}")
    return dataset


def open_index(
    dataset: Dataset, names: Names, analyzer: Analyzer, indexes: Path
) -> ColumnarIndex | LuceneIndex:
    """Open the named index, or the collection's own, built where it is missing or stale."""
    if names.index is not None and is_lucene(names.index):
        return _open_lucene(names.index, names, indexes)
    if dataset.documents is None and dataset.index is not None and names.index is None:
        found = _index_of(dataset, indexes)
        if is_lucene(found):
            return _open_lucene(found, names, indexes)
        names = replace(names, index=found)
    if names.lengths is not None:
        raise InputError(
            "--lengths without a Lucene index", value=names.lengths, accepted="--index lucene:..."
        )
    return _open_columnar(dataset, names, analyzer, indexes)


def _open_lucene(index: str, names: Names, indexes: Path) -> LuceneIndex:
    from lmtune.indexing.lucene.index import PREFIX, LuceneIndex, check_lengths, find_lucene_index

    lengths = check_lengths(names.lengths or "exact")
    name = index.removeprefix(PREFIX)
    with stages() as report, timed(f"{index}: opened"):
        path = find_lucene_index(name, home=indexes)
        opened = LuceneIndex.open(
            path,
            name=name,
            lengths=lengths,
            stemmer=names.stemmer,
            stopwords=names.stopwords,
            home=indexes,
            progress=lambda done, total: report(f"lengths of {name}", done, total),
        )
        # Counted here, where the bar is.
        opened.lengths  # noqa: B018
    return opened


def _index_of(dataset: Dataset, indexes: Path) -> str:
    """Return the index that stands for a collection without documents, as --index names it."""
    from lmtune.indexing.lucene.index import PREFIX
    from lmtune.indexing.manifest import FILE

    path = indexes / (dataset.index or "")
    if (path / FILE).is_file():
        return str(path)
    if path.is_dir():
        return PREFIX + str(path)
    if dataset.prebuilt is not None:
        return PREFIX + dataset.prebuilt
    raise InputError(
        f"there is no index of {dataset.name}",
        file=path,
        accepted="--index, or the index made there: lmtune index --documents FOLDER"
        f" --output {path}, with --engine lucene or without",
    )


def _open_columnar(dataset: Dataset, names: Names, analyzer: Analyzer, indexes: Path) -> ColumnarIndex:
    from lmtune.indexing.cache import index_for
    from lmtune.indexing.columnar import ColumnarIndex, stale_reason

    if names.index is not None:
        path = Path(names.index)
        opened = ColumnarIndex.open(path)
        documents = _documents_beside(names)
        reason = documents and stale_reason(path, documents, opened.analyzer)
        if reason:
            raise InputError(
                f"stale index: {reason}",
                file=path,
                accepted=f"an index of {dataset.name}; rebuild it with lmtune index",
            )
        return opened
    if dataset.documents is None:
        raise InputError("no documents and no index", value=dataset.name, accepted="--index PATH")
    with stages() as report:
        return index_for(
            dataset.documents,
            analyzer,
            home=indexes,
            progress=lambda done, total: report(f"indexing {dataset.name}", done, total),
            on_build=lambda path, reason: note(f"{dataset.name}: indexing to {path} ({reason})"),
        )


def _documents_beside(names: Names) -> DocumentSource | None:
    """Return the documents that a named index should have been built from, if they are here."""
    if names.documents is None and (names.dataset is None or names.dataset.startswith("irds:")):
        return None
    try:
        return load(names.dataset, documents=names.documents, need=["documents"]).documents
    except InputError:
        if names.documents is not None:
            raise
        return None


def build_pool(
    dataset: Dataset, index: ColumnarIndex | LuceneIndex, topics: Sequence[str], plan: Plan
) -> tuple[CandidatePool, list[str]]:
    """Extract the candidates of topics, pruned and kept beside a large index.

    Returns the pool and what to tell of unknown terms.
    """
    from lmtune.candidates.storage import pool_for

    with stages() as report, timed(f"{dataset.name}: {len(topics)} topics extracted"):
        pool = pool_for(
            index,
            {topic: dataset.topics[topic] for topic in topics},
            dataset.qrels,
            name=dataset.name,
            model=plan.model,
            depth=plan.depth,
            negatives_depth=plan.negatives_depth,
            ranges=plan.space.ranges,
            progress=lambda done, total: report(f"topics of {dataset.name}", done, total),
            on_build=lambda path, reason: note(f"{dataset.name}: pruning to {path} ({reason})"),
        )
    return pool, unknown_terms(pool)


def unknown_terms(pool: CandidatePool) -> list[str]:
    """Say which query terms are left out."""
    if not pool.unknown_terms:
        return []
    return [
        f"{len(pool.unknown_terms)} query terms that the collection lacks are left out "
        f"({shorten(sorted(pool.unknown_terms))})"
    ]


def shorten(names: Sequence[str], most: int = 5) -> str:
    """List the first few names."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
