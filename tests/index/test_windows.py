"""Positions and windows against the text itself, and Indri's way of finding windows."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_documents import made_documents
from support import TinyIndex

from lmtune.errors import InputError
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.index.cache import index_for
from lmtune.index.columnar import ColumnarIndex
from lmtune.index.sharding import build_sharded_index
from lmtune.index.tokenizer import tokenize
from lmtune.index.windows import Window, count_windows, document_vectors
from lmtune.io.documents import Document, ListDocuments

WORDS = st.sampled_from(["a", "the", "cats", "Cat", "running", "ran", "elan", "東京", "x1", "don't", "of"])
TEXTS = st.lists(st.lists(WORDS, max_size=40).map(" ".join), min_size=1, max_size=12)


def check_positions(index: ColumnarIndex, texts: Sequence[str], analyzer: Analyzer) -> None:
    """Compare with each token's place among all tokens of its text, stopwords counted."""
    expected: dict[str, list[tuple[int, int]]] = {}
    for number, text in enumerate(texts):
        for place, token in enumerate(tokenize(text)):
            if (term := analyzer.term(token)) is not None:
                expected.setdefault(term, []).append((number, place))
    assert index.terms() == sorted(expected)
    for term, places in expected.items():
        found = index.positions(term)
        assert found is not None
        assert (
            list(zip(np.repeat(found.docs, found.tfs).tolist(), found.positions.tolist(), strict=True))
            == places
        )
    assert index.positions("nowhere") is None


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(TEXTS, st.sampled_from([40, 400, 1 << 30]))
def test_positions_are_the_tokens_places(texts: list[str], memory_bytes: int) -> None:
    documents = [Document(f"d{number}", text) for number, text in enumerate(texts)]
    with tempfile.TemporaryDirectory() as folder:
        source, path = ListDocuments("random", documents), Path(folder, "index")
        index = build_index(source, path, Analyzer(), positions=True, workers=1, memory_bytes=memory_bytes)
        check_positions(index, texts, Analyzer())


@pytest.mark.slow
def test_workers_and_memory_change_no_byte_and_no_other_column(tmp_path: Path) -> None:
    source = made_documents(400, per_batch=60)
    files = []
    for number, (workers, memory) in enumerate([(1, 1 << 30), (1, 2000), (2, 3000)]):
        path = tmp_path / str(number)
        build_index(source, path, Analyzer(), positions=True, workers=workers, memory_bytes=memory)
        files.append({file.name: file.read_bytes() for file in path.iterdir()})
    assert files[1:] == files[:1] * 2
    build_index(source, tmp_path / "plain", Analyzer(), workers=1)
    plain = {file.name: file.read_bytes() for file in (tmp_path / "plain").iterdir()}
    assert files[0].keys() - plain.keys() == {"positions", "position_offsets"}
    assert all(files[0][name] == plain[name] for name in plain.keys() - {"index.json"})


def indri(tokens: Sequence[str], first: str, second: str, ordered: bool) -> int:
    """Count as Indri's window nodes describe themselves: from each occurrence, the least window."""
    if ordered:
        return sum(pair == (first, second) for pair in itertools.pairwise(tokens))
    count = 0
    for begin, token in enumerate(tokens):
        if token in (first, second):
            other = second if token == first else first
            count += other in tokens[begin + 1 : begin + 8]
    return count


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=30), min_size=1, max_size=8))
def test_windows_are_those_of_the_text(texts: list[list[str]]) -> None:
    index = TinyIndex({f"d{number}": " ".join(tokens) for number, tokens in enumerate(texts)})
    windows = [Window(*own) for own in itertools.product("abz", "abz", (True, False))]
    for window, found in zip(windows, count_windows(index, windows), strict=True):
        expected = {n: count for n, tokens in enumerate(texts) if (count := indri(tokens, *window))}
        own = {} if found is None else dict(zip(found.docs.tolist(), found.tfs.tolist(), strict=True))
        assert own == expected


def test_an_index_without_positions_says_what_builds_them(tmp_path: Path) -> None:
    documents = [Document("a", "cat dog"), Document("b", "dog cat")]
    source = ListDocuments("small", documents)
    index = index_for(source, home=tmp_path)
    with pytest.raises(InputError, match="no positions") as caught:
        count_windows(index, [Window("cat", "dog", True)])
    assert "lmtune index ... --positions --output" in str(caught.value.accepted)
    reasons: list[str] = []
    for _ in range(2):
        index = index_for(
            source, home=tmp_path, positions=True, on_build=lambda _path, reason: reasons.append(reason)
        )
        [found] = count_windows(index, [Window("cat", "dog", True)])
        assert found is not None
        assert (found.docs.tolist(), found.tfs.tolist()) == ([0], [1])
    assert reasons == ["there is no index here"]  # the one without stays beside it
    # One with positions serves where none are asked for.
    index_for(source, home=tmp_path, on_build=lambda _path, reason: reasons.append(reason))
    assert len(reasons) == 1


@pytest.mark.parametrize("kept", [0, 1 << 22])
def test_vectors_are_the_analysed_texts(kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a small index, whose postings are kept by document, and of one that is read through."""
    monkeypatch.setattr("lmtune.index.columnar._SMALL_POSTINGS", kept)
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
