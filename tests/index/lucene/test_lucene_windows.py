"""Windows counted from Lucene's positions and from ours, against Lucene's own span queries."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from made_lucene import require_java
from support import random_collection

from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.index.lucene.index import LuceneIndex, build_lucene_index
from lmtune.index.protocol import Index
from lmtune.index.windows import WIDTH, Window, count_windows
from lmtune.io.documents import Document, ListDocuments


class Spans:
    """Lucene's SpanNearQuery over an index."""

    def __init__(self, path: Path) -> None:
        jnius = require_java()
        self._cast, self._load = jnius.cast, jnius.autoclass
        load = self._load
        folder = load("org.apache.lucene.store.FSDirectory").open(load("java.nio.file.Paths").get(str(path)))
        self._reader = load("org.apache.lucene.index.DirectoryReader").open(folder)
        self._searcher = load("org.apache.lucene.search.IndexSearcher")(self._reader.getContext())

    def count(self, window: Window) -> dict[int, int]:
        """Count spans by document; the slop is what a window may hold besides the two terms."""
        load = self._load
        builder = load("org.apache.lucene.queries.spans.SpanNearQuery$Builder")("contents", window.ordered)
        builder.setSlop(0 if window.ordered else WIDTH - 2)
        for word in window[:2]:
            term = load("org.apache.lucene.index.Term")("contents", word)
            builder.addClause(load("org.apache.lucene.queries.spans.SpanTermQuery")(term))
        mode = load("org.apache.lucene.search.ScoreMode").COMPLETE_NO_SCORES
        weight = builder.build().createWeight(self._searcher, mode, 1.0)
        weight = self._cast("org.apache.lucene.queries.spans.SpanWeight", weight)
        wanted = load("org.apache.lucene.queries.spans.SpanWeight$Postings").POSITIONS
        found: dict[int, int] = {}
        for leaf in self._reader.leaves().toArray():
            spans: Any = weight.getSpans(leaf, wanted)
            while spans is not None and (doc := spans.nextDoc()) != spans.NO_MORE_DOCS:
                count = 0
                while spans.nextStartPosition() != spans.NO_MORE_POSITIONS:
                    count += 1
                found[leaf.docBase + doc] = count
        return found


def by_docno(index: Index, found: dict[int, int]) -> dict[str, int]:
    return dict(zip(index.docnos(list(found)), found.values(), strict=True))


def test_windows_are_lucenes_spans_and_positions_its_own(tmp_path: Path) -> None:
    require_java()
    made = random_collection(0, documents=150)[0].documents
    # Stopwords between them: a place, but no term.
    documents = [Document(docno, text.replace("w2", "the")) for docno, text in made.items()]
    source = ListDocuments("made", documents)
    build_lucene_index(source, tmp_path / "lucene", positions=True)
    lucene = LuceneIndex.open(tmp_path / "lucene", home=tmp_path)
    ours = build_index(source, tmp_path / "ours", Analyzer(), positions=True)
    spans, words, total = Spans(tmp_path / "lucene"), ["w0", "w1", "w3", "w4"], 0
    windows = [Window(*own) for own in itertools.product(words, words, (True, False)) if own[0] != own[1]]
    indexes: list[Index] = [ours, lucene]
    counted = [count_windows(index, windows) for index in indexes]
    for at, window in enumerate(windows):
        expected = by_docno(lucene, spans.count(window))
        for index, found in zip(indexes, (own[at] for own in counted), strict=True):
            own = {} if found is None else dict(zip(found.docs.tolist(), found.tfs.tolist(), strict=True))
            assert by_docno(index, own) == expected
        total += sum(expected.values())
    assert total > 500
