"""Build a Lucene index with Anserini, with Java in this process."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lmtune.errors import InputError, PathLike
from lmtune.index.builder import duplicate
from lmtune.index.lucene import java
from lmtune.io.digests import sealed_text, unsealed
from lmtune.io.documents import DocumentSource, unchanged
from lmtune.io.folders import FolderKind, atomic_directory

NOTE = "lmtune.json"
"""The file beside Lucene's files that records the analysis of the documents."""

LUCENE_KIND = FolderKind(NOTE, (NOTE, "segments_*", "_*", "write.lock"))
"""The folder of a Lucene index that lmtune built."""

_POLL_SECONDS = 0.05
# Anserini skips documents of only white space. A full stop has no tokens either, but is not skipped.
_NO_TEXT = "."


def write_lucene_index(
    source: DocumentSource,
    path: PathLike,
    options: Mapping[str, Any],
    *,
    stopwords: frozenset[str] | None,
    note: Mapping[str, Any],
    report: Callable[[str, int, int], None],
) -> int:
    """Index a collection with Anserini's IndexCollection.

    The documents are first written as a temporary JSON collection in the folder.

    Parameters
    ----------
    source : DocumentSource
        The documents.
    path : path-like
        The folder of the index. The write is atomic; an existing index of lmtune is replaced.
    options : mapping
        Arguments of IndexCollection: ``threads``, ``memoryBuffer``, ``stemmer``, ``storePositions`` ...
    stopwords : frozenset of str, optional
        The stopwords; Lucene's English list for None.
    note : mapping
        The content of the file `NOTE`.
    report : callable
        Called with (stage, done, total).

    Returns
    -------
    int
        The number of documents.

    Raises
    ------
    InputError
        If a document cannot be read, two documents share a docno, a document file changes during the call,
        or Anserini does not index all documents.
    MissingExtraError
        If pyserini is not installed.
    """
    jnius = java.start()
    with atomic_directory(path, LUCENE_KIND) as folder:
        scratch = folder / "scratch"  # a folder: Lucene ignores it
        scratch.mkdir()
        with unchanged(source):
            documents = _write_json(source, Path(scratch, "documents"), options["threads"], report)
        arguments = {
            "collectionClass": "JsonCollection",
            "input": str(Path(scratch, "documents").resolve()),
            "index": str(folder.resolve()),
            "generatorClass": "DefaultLuceneDocumentGenerator",
            "quiet": True,
            **options,
        }
        if stopwords is not None:
            arguments["keepStopwords"] = not stopwords
        if stopwords:
            words = Path(scratch, "stopwords.txt")
            words.write_text("\n".join(sorted(stopwords)) + "\n", encoding="utf-8")
            arguments["stopwords"] = str(words)
        try:
            _index(jnius, arguments, lambda done: report("indexing", done, documents))
        except jnius.JavaException as error:
            raise InputError(f"Anserini cannot index {source.name}: {error}", file=path) from None
        indexed = _count(jnius, folder)
        if indexed != documents:
            raise InputError(
                f"Anserini indexed {indexed:,} of {documents:,} documents of {source.name}",
                file=path,
                accepted="documents that Anserini accepts; see its messages above",
            )
        shutil.rmtree(scratch)
        (folder / NOTE).write_text(sealed_text(note, indent=None), encoding="utf-8")
    return documents


def _write_json(
    source: DocumentSource, folder: Path, files: int, report: Callable[[str, int, int], None]
) -> int:
    """Write documents as JSON lines for Anserini, in several files; return their number."""
    folder.mkdir()
    seen: set[str] = set()
    done = 0
    with contextlib.ExitStack() as stack:
        streams = [
            stack.enter_context(Path(folder, f"{n}.jsonl").open("w", encoding="utf-8")) for n in range(files)
        ]
        for number, batch in enumerate(source.batches()):
            for docno, text in batch.read():
                if docno in seen:
                    raise duplicate(source, docno)
                # Round robin over the files: one batch gives every thread work.
                line = {"id": docno, "contents": text if text.strip() else _NO_TEXT}
                streams[len(seen) % files].write(json.dumps(line, ensure_ascii=False) + "\n")
                seen.add(docno)
            done += batch.size
            report("writing documents", done, max(source.size, done, number))
    return len(seen)


def _index(jnius: Any, arguments: Mapping[str, Any], report: Callable[[int], None]) -> None:
    java_arguments = jnius.autoclass("io.anserini.index.IndexCollection$Args")()
    for name, value in arguments.items():
        setattr(java_arguments, name, value)
    indexer = jnius.autoclass("io.anserini.index.IndexCollection")(java_arguments)
    # Run in a Java thread: Ctrl-C and the progress bar keep working here.
    task = jnius.autoclass("java.util.concurrent.FutureTask")(indexer, None)
    pool = jnius.autoclass("java.util.concurrent.Executors").newSingleThreadExecutor()
    pool.execute(task)
    try:
        while not task.isDone():
            report(int(indexer.getCounters().indexed.get()))
            time.sleep(_POLL_SECONDS)
        task.get()
    finally:
        pool.shutdownNow()
    report(int(indexer.getCounters().indexed.get()))


def _count(jnius: Any, folder: Path) -> int:
    store = jnius.autoclass("org.apache.lucene.store.FSDirectory")
    directory = store.open(jnius.autoclass("java.nio.file.Paths").get(str(folder.resolve())))
    reader = jnius.autoclass("org.apache.lucene.index.DirectoryReader").open(directory)
    try:
        return int(reader.numDocs())
    finally:
        reader.close()
        directory.close()


def read_note(path: PathLike) -> dict[str, Any]:
    """Return the note that `write_lucene_index` wrote beside an index; {} for other indexes.

    Raises
    ------
    InputError
        If the note is damaged.
    """
    file = Path(path, NOTE)
    try:
        return unsealed(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        raise InputError("the index's note is damaged", file=file, accepted="the index built again") from None
