"""Collection options of commands: they name a test collection, load it and open its index."""

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
    """Collection: documents, topics, judgments, and the analysis of text.

    Attributes
    ----------
    name : str or None
        Name for `lmtune.collections.loading.load`.
    documents, topics, qrels : str or None
        Files instead of the collection's own.
    index : str or None
        Folder of an index; ``lucene:PATH`` or ``lucene:NAME`` for Lucene, ``sharded:PATH`` for shards. By
        default the collection's own index, which is built if it is missing or stale.
    split : str or None
        Split of a folder's judgments.
    topic_fields : tuple of str
        The fields of SGML topics in the query.
    stemmer, stopwords : str or None
        The analysis; by default Anserini's for English. Indexes of lmtune store their analysis, those of
        Lucene do not.
    lengths : {"exact", "lucene"} or None
        Document lengths of a Lucene index.
    fields : tuple of str
        Document fields that are also indexed separately, and kinds of windows for features of rerankers.
    exclude_self : bool or None
        Whether each topic excludes the document whose docno is the topic's identifier; by default, as
        `lmtune.collections.names.excludes_self`.
    indexes : path
        Folder of the built indexes.
    analysis : mapping, optional
        Required settings of the index's analyzer; see `lmtune.index.analysis.Analyzer.settings`.
    """

    name: str | None = None
    documents: str | None = usual(
        None,
        "Documents: a file or a folder (JSONL, TRECTEXT, TRECWEB, id<TAB>text; .gz .bz2 .zst).",
        metavar="PATH",
    )
    index: str | None = usual(
        None,
        "An index of `lmtune index` or Lucene; sharded:PATH for shards; lucene:NAME for a prebuilt index of "
        "pyserini.",
        metavar="PATH",
    )
    topics: str | None = usual(None, "Topics: a path, or NAME in topics/.", metavar="PATH")
    qrels: str | None = usual(None, "Judgments: a path, or NAME in qrels/ or the folder.", metavar="PATH")
    split: str | None = option(
        None,
        "Use a folder's judgments in qrels/NAME.tsv (BEIR; default: test) or qrels.NAME.txt.",
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
        "lucene (33 English words), none, or a file with one word per line; default: lucene, or none if the "
        "stemmer is for another language.",
    )
    lengths: str | None = option(
        None, "Document lengths of a Lucene index: exact (default), or lucene (rounded to a byte)."
    )
    fields: tuple[str, ...] = option(
        (),
        "Document fields to index separately: keys of JSON lines, TREC elements. For rerankers also #1 "
        "(phrases) and #uw8 (pairs of query terms within 8 tokens).",
        metavar="NAME,...",
    )
    exclude_self: bool | None = option(
        None,
        "Leave out the document whose docno is the topic's identifier; default: only for BEIR's ArguAna and "
        "Quora.",
    )
    indexes: Path = option(Path("indexes"), "Folder of built indexes.")
    analysis: Mapping[str, Any] | None = None

    @property
    def text_fields(self) -> tuple[str, ...]:
        """The fields without kinds of windows; a repeated kind is included, so that it is rejected."""
        return tuple(f for f in self.fields if f not in WINDOW_KINDS or self.fields.count(f) > 1)

    def analyzer(self) -> Analyzer:
        """Return the analyzer of an index of lmtune.

        Raises
        ------
        InputError
            If the stemmer or the stopwords are unknown, or conflict with a named index or with results.
        """
        check_fields(self.text_fields)
        for name in ("stemmer", "stopwords"):
            value = getattr(self, name)
            if self.analysis is not None and value not in (None, self.analysis[name]):
                raise InputError(
                    f"--{name} differs from the analysis of the results",
                    value=value,
                    accepted=self.analysis[name],
                )
        index = None if self.index is None else find_index(self.index)
        if index is not None and index.startswith(LUCENE):
            return Analyzer()  # a Lucene index does not store its analysis, so that the options may state it
        for flag, value in (("--stemmer", self.stemmer), ("--stopwords", self.stopwords)):
            if index is not None and value is not None:
                raise InputError(
                    f"{flag} with --index, which has its own analysis",
                    value=value,
                    accepted=f"{flag} when building the index",
                )
        if self.analysis is not None:
            return Analyzer.from_settings(self.analysis)
        return Analyzer(stemmer=self.stemmer or "porter", stopwords=self.stopwords or "")

    def files(self) -> list[Path]:
        """Return the local files that will be read, including the folder of an index."""
        named = [self.index and self.index.removeprefix(LUCENE).removeprefix(SHARDED), self.stopwords]
        files = [Path(name) for name in named if name is not None]
        parts = {part: getattr(self, part) for part in PARTS}
        return files + files_of(self.name, **parts, split=self.split)

    def load(self, need: Container[str] = PARTS) -> Dataset:
        """Load documents, topics and judgments; write topics and judgments of pydocs to files.

        Parameters
        ----------
        need : collection of str
            The required parts; documents are not loaded if an index is named.

        Raises
        ------
        InputError
            As `lmtune.collections.loading.load`.
        """
        from lmtune.collections.pydocs import write_pydocs

        self.analyzer()  # raises errors before anything is read
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
                note(f"{PYDOCS}: topics and judgments are not written to files ({error})")
            else:
                if written.changed:
                    note(f"{PYDOCS}: wrote {written.topics_file} and {written.qrels_file}")
        return dataset

    def note_excluded(self, dataset: Dataset) -> None:
        """Note that topics exclude the document of the same identifier, if this is a default."""
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
        """Open the named index, or the dataset's own; build the latter if it is missing or stale.

        The indexes of further analyses in `beside` are built in the same pass over the documents; see
        `lmtune.index.cache.index_for`.

        Raises
        ------
        InputError
            If the index is missing, stale or damaged, has another analysis than required, or the documents
            cannot be indexed.
        """
        opened = self._open(dataset, positions or self.text_fields != self.fields, beside, progress)
        for field in self.text_fields:
            field_index(opened, field)
        if self.analysis is not None:
            actual, wanted = (
                [known.get(name) for name in ("stemmer", "stopwords", "words")]
                for known in (opened.analysis, self.analysis)
            )
            if actual != wanted:
                raise InputError(
                    f"the index of {dataset.name} has another analysis than the results",
                    value=" and ".join(map(str, actual[:2])),
                    accepted=f"{wanted[0]} and {wanted[1]}, with the same words",
                )
        return opened

    def _open(
        self, dataset: Dataset, positions: bool, beside: Sequence[Analyzer], progress: Progress
    ) -> AnyIndex:
        index = None if self.index is None else find_index(self.index)
        if index is None and dataset.documents is None and dataset.index is not None:
            index = self._index_of(dataset)
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

    def _index_of(self, dataset: Dataset) -> str:
        """Return the name of the index of a collection without documents."""
        from lmtune.index.manifest import INDEX_FILE

        path = self.indexes / (dataset.index or "")
        if (path / INDEX_FILE).is_file():
            return str(path)
        if path.is_dir():
            name = find_index(str(path))
            return name if name.startswith(SHARDED) else f"{LUCENE}{path}"
        if dataset.prebuilt is not None:
            return f"{LUCENE}{dataset.prebuilt}"
        raise InputError(
            f"there is no index of {dataset.name}",
            file=path,
            accepted="--index, or build it with: lmtune index --documents FOLDER"
            f" --output {path}, with or without --engine lucene",
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
            # Lengths are counted on first use; do it here, so that the time is measured.
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
        """Return the values that differ from the defaults, by name, for JSON."""
        values = {field.name: getattr(self, field.name) for field in dataclass_fields(self)}
        changed = {name: value for name, value in values.items() if value != getattr(Collection, name)}
        return {name: str(value) if isinstance(value, Path) else value for name, value in changed.items()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Collection:
        """Return the collection of a record from `as_record`."""
        values: dict[str, Any] = {**record, "indexes": Path(record.get("indexes", cls.indexes))}
        values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(**values)

    def as_recorded(self, recorded: Mapping[str, Any]) -> Collection:
        """Return the collection with the analysis and `exclude_self` of a record of results.

        Raises
        ------
        InputError
            If `exclude_self` differs from the record.
        """
        excluded = recorded.get("exclude_self")
        if None not in (excluded, self.exclude_self) and excluded != self.exclude_self:
            flag = "--exclude-self" if self.exclude_self else "--no-exclude-self"
            raise InputError(f"{flag} differs from the tuned results", accepted=f"no {flag}")
        return replace(
            self,
            analysis=recorded.get("analysis"),
            exclude_self=self.exclude_self if excluded is None else excluded,
        )

    def words(self) -> list[str]:
        """Return command-line arguments that open the collection with the same terms.

        Judgments and fields are left out.
        """
        analysis, other = self.analysis, self
        if analysis is not None and self.index is None:
            other = replace(self, stemmer=analysis["stemmer"], stopwords=analysis["stopwords"])
        usual = {"stemmer": "porter", "stopwords": default_stopwords(other.stemmer or "porter")}
        changed = {name: None for name, value in usual.items() if getattr(other, name) == value}
        # The fields follow from the model.
        other = replace(other, fields=(), qrels=None, **changed)  # type: ignore[arg-type]
        return [*filter(None, [self.name]), *command_words(other)]

    def documents_beside(self) -> DocumentSource | None:
        """Return the documents from which a named index should have been built, if they are available."""
        if self.documents is None and (self.name is None or self.name.startswith("irds:")):
            return None
        try:
            return load(self.name, documents=self.documents, need=["documents"]).documents
        except InputError:
            if self.documents is not None:
                raise
            return None


def named_collections(names: Sequence[str], options: Collection) -> list[Collection]:
    """Return the collections with names, or a single collection that has no name, only parts.

    Raises
    ------
    InputError
        If there are several names and parts of one collection, neither names nor parts, or an unknown name.
    """
    parts = [f"--{part}" for part in ("documents", "index", "topics", "qrels") if getattr(options, part)]
    if len(names) > 1 and parts:
        raise InputError(
            f"{parts[0]} with several collections", value=list(names), accepted="at most one collection"
        )
    if not names and not parts:
        raise InputError("no collection", accepted="a collection; see lmtune datasets")
    for name in names:
        check_exists(name)
    return [replace(options, name=name) for name in names] or [options]
