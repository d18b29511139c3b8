"""Documents' terms, read off the inverted index, against the analysis of their texts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from lmtune.formats.documents import Document, ListDocuments
from lmtune.indexing.analysis import Analyzer
from lmtune.indexing.builder import build_index
from lmtune.indexing.sharding import build_sharded_index
from lmtune.indexing.vectors import document_vectors


def test_vectors_are_the_analysed_texts(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(f"Words{n}" for n in rng.integers(0, 30, rng.integers(0, 9))) for _ in range(40)]
    source = ListDocuments("made", [Document(f"d{n}", text) for n, text in enumerate(texts)])
    one = build_index(source, tmp_path / "one", Analyzer())
    many = build_sharded_index(source, tmp_path / "many", Analyzer(), 3)
    docs = np.array([39, 3, 3, 0, 17])
    for index in (one, many):
        expected = [dict(Counter(one.analyze(texts[int(one.docnos([doc])[0][1:])]))) for doc in docs]
        assert document_vectors(index, docs) == expected
    assert document_vectors(one, docs[:0]) == []
