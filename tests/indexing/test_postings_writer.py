"""Indexing from given postings: the same index as from text, and nothing where they are wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtune.formats.documents import Document, InvertedCollection, Invertible, ListDocuments
from lmtune.indexing.analysis import Analyzer
from lmtune.indexing.builder import build_index

PLAIN = Analyzer(stemmer="none", stopwords="none")
WORDS = ["alpha", "be", "gamma", "running", "éa"]
COLLECTIONS = st.dictionaries(
    st.text("abcé\U0001f600", min_size=1, max_size=3),
    st.lists(st.sampled_from(WORDS), max_size=8),
    min_size=1,
    max_size=12,
)


@dataclass(frozen=True)
class Given(ListDocuments):
    """Documents that can tell their postings."""

    extra: int = 0

    def invert(self, progress: Callable[[int, int], None] | None = None) -> InvertedCollection:
        assert not callable(self.documents)
        counts = [Counter(text.split()) for _, text in self.documents]
        postings = []
        for term in WORDS:
            docs = [doc for doc, held in enumerate(counts) if term in held]
            tfs = [counts[doc][term] for doc in docs]
            postings.append((np.array(docs, np.int32), np.array(tfs, np.int64)))
        lengths = np.array([held.total() + self.extra for held in counts], np.int32)
        if progress is not None:
            progress(1, 1)
        return InvertedCollection([d for d, _ in self.documents], lengths, WORDS, postings)


@settings(max_examples=30, deadline=None)
@given(COLLECTIONS)
def test_the_index_is_that_of_the_text(collection: dict[str, list[str]]) -> None:
    documents = [Document(docno, " ".join(words)) for docno, words in collection.items()]
    source = Given("made", documents)
    assert isinstance(source, Invertible)
    assert not isinstance(ListDocuments("made", documents), Invertible)
    with TemporaryDirectory() as folder:
        told: list[tuple[int, int]] = []
        direct = build_index(source, Path(folder, "direct"), PLAIN, progress=lambda *done: told.append(done))
        text = build_index(ListDocuments("made", documents), Path(folder, "text"), PLAIN)
        assert told == [(1, 1)]
        assert direct.manifest == text.manifest


@pytest.mark.parametrize("analyzer", [Analyzer("porter", "none"), Analyzer("none", "lucene")])
def test_words_that_are_no_terms_are_read_from_the_text(analyzer: Analyzer, tmp_path: Path) -> None:
    documents = [Document("a", "be alpha running"), Document("b", "gamma")]
    direct = build_index(Given("made", documents), tmp_path / "direct", analyzer)
    text = build_index(ListDocuments("made", documents), tmp_path / "text", analyzer)
    assert direct.manifest == text.manifest
    assert direct.terms() != sorted(WORDS)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Given("made", [Document("a", "be alpha")], extra=1), "not the sum"),
        (Given("made", [Document("a", "be"), Document("a", "be")]), "a second document of the same docno"),
    ],
)
def test_wrong_postings_leave_nothing_behind(source: Given, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        build_index(source, tmp_path / "index", PLAIN)
    assert list(tmp_path.iterdir()) == []
