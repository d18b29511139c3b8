"""A test collection as a user names it: loaded, and its index opened."""

from __future__ import annotations

import re
from collections.abc import Collection as Container
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lmtune.collections.dataset import Dataset
from lmtune.collections.loading import PARTS, check_exists, files_of, load
from lmtune.collections.names import LUCENE, PYDOCS, SHARDED, find_index
from lmtune.errors import InputError
from lmtune.index.analysis import Analyzer, default_stopwords
from lmtune.index.protocol import field_index
from lmtune.index.windows import WINDOW_KINDS
from lmtune.io.documents import check_fields
from lmtune.options import command_words, option, usual
from lmtune.progress import Progress, note, silent, timed

if TYPE_CHECKING:
    from lmtune.index.columnar import ColumnarIndex
    from lmtune.index.lucene.index import LuceneIndex
    from lmtune.index.sharded import ShardedIndex
    from lmtune.io.documents import DocumentSource

AnyIndex: TypeAlias = "ColumnarIndex | LuceneIndex | ShardedIndex"


def _fields(text: str) -> tuple[str, ...]:
    return tuple(re.split(r"[,+]", text))


@dataclass(frozen=True)
class Collection:
    """The collection.

    Attributes
    ----------
    name : str or None
        As `lmtune.collections.loading.load` takes it.
    documents, topics, qrels : str or None
        Files in place of the collection's own.
    index : str or None
        The index's folder, of Lucene's also ``lucene:PATH`` or ``lucene:NAME``, of shards
        ``sharded:PATH``; by default the collection's own, which is built where it is missing or stale.
    split : str or None
        Which of a folder's judgments, and their topics.
    topic_fields : tuple of str
        The fields of SGML topics that make the query.
    stemmer, stopwords : str or None
        The analysis, Anserini's default English one by default; of a named index it is known,
        except for one of Lucene's.
    lengths : {"exact", "lucene"} or None
        Document lengths of a Lucene index.
    fields : tuple of str
        Fields of the documents that the index has too, each apart; and kinds of windows, which rerankers
        make features of.
    exclude_self : bool or None
        Whether each topic's own document is left out; None as `lmtune.collections.names.excludes_self` says.
    indexes : path
        The folder that holds built indexes.
    analysis : mapping, optional
        `lmtune.index.analysis.Analyzer.settings` that the index must have, in place of the default.
    """

    name: str | None = None
    documents: str | None = usual(
        None,
        "Documents: a file or a folder (JSONL, TRECTEXT, TRECWEB, id<TAB>text; .gz .bz2 .zst).",
        metavar="PATH",
    )
    index: str | None = usual(
        None,
        "An index made by `lmtune index` or Lucene; sharded:PATH, its shards; lucene:NAME, a prebuilt one of "
        "pyserini.",
        metavar="PATH",
    )
    topics: str | None = usual(None, "Topics: a path, or NAME in topics/.", metavar="PATH")
    qrels: str | None = usual(None, "Judgments: a path, or NAME in qrels/.", metavar="PATH")
    split: str | None = option(
        None,
        "Of a folder's judgments those in qrels/NAME.tsv (BEIR's; default: test) or qrels.NAME.txt, and "
        "their topics.",
        metavar="NAME",
    )
    topic_fields: tuple[str, ...] = option(
        ("title",), "Fields of SGML or XML topics: title, desc, narr, or several with commas.", read=_fields
    )
    stemmer: str | None = option(
        None, "porter (the default), krovetz, none, or Snowball's: english, german, french ..."
    )
    stopwords: str | None = option(
        None,
        "lucene (33 English words), none, or a file with one word a line; default: lucene, with a stemmer of "
        "another language none.",
    )
    lengths: str | None = option(
        None, "Of a Lucene index: exact (the default), or lucene, its own to a byte."
    )
    fields: tuple[str, ...] = option(
        (),
        "Fields of the documents to index too: keys of JSON lines, TREC elements. For rerankers also #1 "
        "and #uw8: phrases, and pairs of query terms within 8 tokens.",
        metavar="NAME,...",
    )
    exclude_self: bool | None = option(
        None,
        "Leave out each topic's own document, whose docno is the topic's identifier; default: of BEIR's "
        "ArguAna and Quora.",
    )
    indexes: Path = option(Path("indexes"), "The folder where built indexes are kept.")
    analysis: Mapping[str, Any] | None = None

    @property
    def text_fields(self) -> tuple[str, ...]:
        """The fields without kinds of windows; one that comes twice does, to be refused."""
        return tuple(f for f in self.fields if f not in WINDOW_KINDS or self.fields.count(f) > 1)

    def analyzer(self) -> Analyzer:
        """Return the analysis of an index of lmtune's own.

        Raises
        ------
        InputError
            For an unknown stemmer or stopwords, and where a named index has its own analysis.
        """
        check_fields(self.text_fields)
        for name in ("stemmer", "stopwords"):
            value = getattr(self, name)
            if self.analysis is not None and value not in (None, self.analysis[name]):
                raise InputError(
                    f"--{name} beside results of another analysis", value=value, accepted=self.analysis[name]
                )
        index = None if self.index is None else find_index(self.index)
        if index is not None and index.startswith(LUCENE):
            return Analyzer()  # Lucene's does not know its own, so that it may be said
        for flag, value in (("--stemmer", self.stemmer), ("--stopwords", self.stopwords)):
            if index is not None and value is not None:
                raise InputError(
                    f"{flag} beside --index, which has its own analysis",
                    value=value,
                    accepted=f"{flag} where the index is built",
                )
        if self.analysis is not None:
            return Analyzer.from_settings(self.analysis)
        return Analyzer(stemmer=self.stemmer or "porter", stopwords=self.stopwords or "")

    def files(self) -> list[Path]:
        """Return what is going to be read, as far as it is here: files, and the folder of an index."""
        named = [self.index and self.index.removeprefix(LUCENE).removeprefix(SHARDED), self.stopwords]
        found = [Path(name) for name in named if name is not None]
        given = {part: getattr(self, part) for part in PARTS}
        return found + files_of(self.name, **given, split=self.split)

    def load(self, need: Container[str] = PARTS) -> Dataset:
        """Load documents, topics and judgments; keep pydocs' files here, where a user looks for them.

        Parameters
        ----------
        need : collection of str
            The parts that the caller has a use for; no documents where an index is named.

        Raises
        ------
        InputError
            As `lmtune.collections.loading.load`.
        """
        from lmtune.collections.pydocs import write_pydocs

        self.analyzer()  # what is wrong with it is said before anything is read
        dataset = load(
            self.name,
            documents=self.documents,
            topics=self.topics,
            qrels=self.qrels,
            split=self.split,
            topic_fields=self.topic_fields,
            need=[part for part in PARTS if part in need and (part != "documents" or not self.index)],
            home=self.indexes,
        )
        if self.exclude_self is not None:
            dataset = replace(dataset, exclude_self=self.exclude_self)
        if self.name == PYDOCS and self.topics is None and self.qrels is None:
            try:
                written = write_pydocs(".", dataset)
            except InputError as error:
                note(f"{PYDOCS}: its topics and judgments are not kept here ({error})")
            else:
                if written.changed:
                    note(f"{PYDOCS}: wrote {written.topics_file} and {written.qrels_file}")
        return dataset

    def note_excluded(self, dataset: Dataset) -> None:
        """Note that each topic's own document is left out where nobody asked for it."""
        if dataset.exclude_self and self.exclude_self is None:
            note(f"{dataset.name}: each topic's own document is left out; --no-exclude-self keeps it")

    def open_index(
        self,
        dataset: Dataset,
        *,
        positions: bool = False,
        beside: Sequence[Analyzer] = (),
        progress: Progress = silent,
    ) -> AnyIndex:
        """Open the named index, or the dataset's own, built where it is missing or stale.

        With it are built what further analyses lack; see `lmtune.index.cache.index_for`.

        Raises
        ------
        InputError
            For an index that is not there, is stale or damaged or has another analysis than wanted, and
            documents that cannot be indexed.
        """
        opened = self._open(dataset, positions or self.text_fields != self.fields, beside, progress)
        for field in self.text_fields:
            field_index(opened, field)
        if self.analysis is not None:
            found, wanted = (
                [known.get(name) for name in ("stemmer", "stopwords", "words")]
                for known in (opened.analysis, self.analysis)
            )
            if found != wanted:
                raise InputError(
                    f"the index of {dataset.name} has another analysis than the results",
                    value=" and ".join(map(str, found[:2])),
                    accepted=f"{wanted[0]} and {wanted[1]}, of the same words",
                )
        return opened

    def _open(
        self, dataset: Dataset, positions: bool, beside: Sequence[Analyzer], progress: Progress
    ) -> AnyIndex:
        index = None if self.index is None else find_index(self.index)
        if index is None and dataset.documents is None and dataset.index is not None:
            index = self._standing_for(dataset)
        if index is not None and index.startswith(LUCENE):
            return self._open_lucene(index, progress)
        if self.lengths is not None:
            raise InputError(
                "--lengths without a Lucene index", value=self.lengths, accepted="--index lucene:..."
            )
        if index is not None:
            return self._open_own(index, dataset)
        if dataset.documents is None:
            raise InputError("no documents and no index", value=dataset.name, accepted="--index PATH")
        from lmtune.index.cache import index_for

        return index_for(
            dataset.documents,
            self.analyzer(),
            fields=self.text_fields,
            positions=positions,
            home=self.indexes,
            beside=beside,
            progress=lambda done, total: progress(f"indexing {dataset.name}", done, total),
            on_build=lambda path, reason: note(f"{dataset.name}: indexing to {path} ({reason})"),
        )

    def _standing_for(self, dataset: Dataset) -> str:
        """Name the index that stands for a collection without documents."""
        from lmtune.index.manifest import INDEX_FILE

        path = self.indexes / (dataset.index or "")
        if (path / INDEX_FILE).is_file():
            return str(path)
        if path.is_dir():
            found = find_index(str(path))
            return found if found.startswith(SHARDED) else f"{LUCENE}{path}"
        if dataset.prebuilt is not None:
            return f"{LUCENE}{dataset.prebuilt}"
        raise InputError(
            f"there is no index of {dataset.name}",
            file=path,
            accepted="--index, or the index made there: lmtune index --documents FOLDER"
            f" --output {path}, with --engine lucene or without",
        )

    def _open_lucene(self, index: str, progress: Progress) -> LuceneIndex:
        from lmtune.index.lucene.index import LuceneIndex, check_lengths, find_lucene_index

        lengths = check_lengths(self.lengths or "exact")
        name = index.removeprefix(LUCENE)
        with timed(f"{index}: opened"):
            opened = LuceneIndex.open(
                find_lucene_index(name, home=self.indexes),
                name=name,
                lengths=lengths,
                stemmer=self.stemmer,
                stopwords=self.stopwords,
                home=self.indexes,
                progress=lambda done, total: progress(f"lengths of {name}", done, total),
            )
            # Counted here, where it is timed.
            opened.lengths  # noqa: B018
        return opened

    def _open_own(self, index: str, dataset: Dataset) -> ColumnarIndex | ShardedIndex:
        from lmtune.index.columnar import ColumnarIndex
        from lmtune.index.sharded import ShardedIndex

        path = Path(index.removeprefix(SHARDED))
        opened = ShardedIndex.open(path) if index.startswith(SHARDED) else ColumnarIndex.open(path)
        documents = self.documents_beside()
        reason = documents and opened.stale_reason(documents)
        if reason:
            raise InputError(
                f"stale index: {reason}",
                file=path,
                accepted=f"an index of {dataset.name}; rebuild it with lmtune index",
            )
        return opened

    def as_record(self) -> dict[str, Any]:
        """Return what is not at its default, by name, as JSON holds it."""
        known = {own.name: getattr(self, own.name) for own in dataclass_fields(self)}
        given = {name: value for name, value in known.items() if value != getattr(Collection, name)}
        return {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Collection:
        """Return the collection that gave a record."""
        made: dict[str, Any] = {**record, "indexes": Path(record.get("indexes", cls.indexes))}
        made |= {name: tuple(value) for name, value in made.items() if isinstance(value, list)}
        return cls(**made)

    def as_recorded(self, recorded: Mapping[str, Any]) -> Collection:
        """Return it with the analysis and the exclusion that results record.

        Raises
        ------
        InputError
            Where another exclusion is asked for.
        """
        excluded = recorded.get("exclude_self")
        if None not in (excluded, self.exclude_self) and excluded != self.exclude_self:
            flag = "--exclude-self" if self.exclude_self else "--no-exclude-self"
            raise InputError(f"{flag} beside results that were tuned otherwise", accepted=f"no {flag}")
        return replace(
            self,
            analysis=recorded.get("analysis"),
            exclude_self=self.exclude_self if excluded is None else excluded,
        )

    def words(self) -> list[str]:
        """Return the words that open it again with the same terms, but for its judgments and fields."""
        analysis, given = self.analysis, self
        if analysis is not None and self.index is None:
            given = replace(self, stemmer=analysis["stemmer"], stopwords=analysis["stopwords"])
        usual = {"stemmer": "porter", "stopwords": default_stopwords(given.stemmer or "porter")}
        changed = {name: None for name, value in usual.items() if getattr(given, name) == value}
        # The model says which fields.
        given = replace(given, fields=(), qrels=None, **changed)  # type: ignore[arg-type]
        return [*filter(None, [self.name]), *command_words(given)]

    def documents_beside(self) -> DocumentSource | None:
        """Return the documents that a named index should have been built from, if they are here."""
        if self.documents is None and (self.name is None or self.name.startswith("irds:")):
            return None
        try:
            return load(self.name, documents=self.documents, need=["documents"]).documents
        except InputError:
            if self.documents is not None:
                raise
            return None


def named_collections(names: Sequence[str], given: Collection) -> list[Collection]:
    """Return the collections of several names, or the one that is given by its parts.

    Raises
    ------
    InputError
        For several with parts of one, for none at all, and for one that does not exist.
    """
    parts = [f"--{part}" for part in ("documents", "index", "topics", "qrels") if getattr(given, part)]
    if len(names) > 1 and parts:
        raise InputError(
            f"{parts[0]} with several collections", value=list(names), accepted="one collection at most"
        )
    if not names and not parts:
        raise InputError("nothing to tune on", accepted="a collection; see lmtune datasets")
    for name in names:
        check_exists(name)
    return [replace(given, name=name) for name in names] or [given]
