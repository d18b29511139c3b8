"""Small Lucene indexes, written segment by segment through Lucene's own writer."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from lmtune.index.lucene import java

_READER = "(Ljava/lang/String;Ljava/io/Reader;Lorg/apache/lucene/index/IndexableFieldType;)V"


def require_java() -> Any:
    """Return jnius with Java running, or skip with the reason."""
    if not java.is_installed():
        pytest.skip("the extra 'lucene' is not installed: no pyserini")
    return java.start()


def require_searcher() -> Any:
    """Return pyserini's LuceneSearcher, without what its module imports beside.

    These are the neural encoders, which take 13 s, and in pyserini 2 a list of indexes from a network.
    """
    require_java()
    beside = {name: MagicMock() for name in ("pyserini.encode", "pyserini.prebuilt_index_info")}
    ours = [name for name, stand_in in beside.items() if sys.modules.setdefault(name, stand_in) is stand_in]
    try:
        return importlib.import_module("pyserini.search.lucene").LuceneSearcher
    finally:
        for name in ours:
            del sys.modules[name]


def write_index(
    path: Path,
    segments: Sequence[Mapping[str, str]],
    *,
    deleted: Sequence[str] = (),
    positions: bool = False,
    vectors: bool = False,
    norms: bool = True,
    docnos: str = "binary",
    frequencies: bool = True,
    field: str = "contents",
    stored: bool = False,
) -> Path:
    """Index docno -> text, one segment a mapping, with white space between tokens; then delete."""
    jnius = require_java()
    load = jnius.autoclass
    directory = load("org.apache.lucene.store.FSDirectory").open(load("java.nio.file.Paths").get(str(path)))
    analyzer = load("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    config = load("org.apache.lucene.index.IndexWriterConfig")(analyzer)
    config.setMergePolicy(load("org.apache.lucene.index.NoMergePolicy").INSTANCE)
    writer = load("org.apache.lucene.index.IndexWriter")(directory, config)
    options = load("org.apache.lucene.index.IndexOptions")
    kind = load("org.apache.lucene.document.FieldType")()
    if not frequencies:
        kind.setIndexOptions(options.DOCS)
    else:
        kind.setIndexOptions(options.DOCS_AND_FREQS_AND_POSITIONS if positions else options.DOCS_AND_FREQS)
    kind.setTokenized(True)
    kind.setStoreTermVectors(vectors)
    kind.setOmitNorms(not norms)
    kind.freeze()
    text_field = load("org.apache.lucene.document.Field")
    keyword = load("org.apache.lucene.document.StringField")
    store = load("org.apache.lucene.document.Field$Store")
    keep = load("org.apache.lucene.document.StoredField")
    stream = load("java.io.ByteArrayInputStream")
    decoder = load("java.io.InputStreamReader")
    reference = load("org.apache.lucene.util.BytesRef")
    values = {
        "binary": load("org.apache.lucene.document.BinaryDocValuesField"),
        "sorted": load("org.apache.lucene.document.SortedDocValuesField"),
    }
    for segment in segments:
        for docno, text in segment.items():
            document = load("org.apache.lucene.document.Document")()
            document.add(keyword("id", docno, store.YES))
            if docnos in values:
                document.add(values[docnos]("id", reference(docno.encode())))
            if text:
                # As bytes: jnius garbles astral characters in strings.
                characters = decoder(stream(text.encode()), "UTF-8")
                document.add(text_field(field, characters, kind, signature=_READER))
            if stored:
                document.add(keep(field, text))
            writer.addDocument(document)
        writer.commit()
    term = load("org.apache.lucene.index.Term")
    query = load("org.apache.lucene.search.TermQuery")
    for docno in deleted:
        writer.deleteDocuments(query(term("id", docno)))
    writer.commit()
    writer.close()
    return path
