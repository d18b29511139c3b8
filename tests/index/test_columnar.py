"""Reading an index: look-ups, damage, staleness."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_documents import made_documents
from scripts import run_python

from lmtune.errors import InputError
from lmtune.index import manifest as manifests
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.index.columnar import ColumnarIndex
from lmtune.index.columns import BLOCK_BYTES
from lmtune.index.protocol import Index
from lmtune.io.documents import Document, ListDocuments

DOCUMENTS = [
    Document("b", "Cats and dogs; cats."),
    Document("é", "A dog's life"),
    Document("\U0001f600", ""),
    Document("a", "Feline"),
    Document("\uffee", "dogs"),
]


@pytest.fixture
def built(tmp_path: Path) -> Path:
    build_index(ListDocuments("pets", DOCUMENTS), tmp_path / "pets", Analyzer())
    return tmp_path / "pets"


def test_lookups(built: Path) -> None:
    index: Index = ColumnarIndex.open(built)
    assert index.name == "pets"
    dogs = index.postings("dog")
    assert dogs is not None
    assert (dogs.docs.tolist(), dogs.tfs.tolist()) == ([0, 1, 4], [1, 1, 1])
    assert index.postings("dogs") is None
    assert index.postings("") is None
    assert index.postings("zzz") is None
    assert index.lengths.tolist() == [3, 2, 0, 1, 1]
    assert index.analyze("The cats of cats") == ["cat", "cat"]
    # Code points put U+FFEE before U+1F600; UTF-16 would not.
    assert index.docno_rank.tolist() == [1, 2, 4, 0, 3]
    assert index.docnos([3, 0, 3]) == ["a", "b", "a"]
    assert index.docnos(np.array([], np.int32)) == []


@pytest.mark.parametrize("bad", [-1, 5])
def test_document_numbers_out_of_range(built: Path, bad: int) -> None:
    with pytest.raises(IndexError, match="from 0 to 4"):
        ColumnarIndex.open(built).docnos([bad])


def test_doc_numbers_few_and_many(tmp_path: Path) -> None:
    source = made_documents(500, per_batch=100)
    index = build_index(source, tmp_path / "i", Analyzer(), workers=1)
    docnos = index.docnos(range(500))
    assert index.doc_numbers(docnos).tolist() == list(range(500))
    for number in (0, 17, 499):
        wanted = [docnos[number], "absent", "", "\U0001f600", docnos[499 - number]]
        assert index.doc_numbers(wanted).tolist() == [number, -1, -1, -1, 499 - number]
    assert index.doc_numbers([]).tolist() == []
    assert index.doc_numbers([]).dtype == np.int32


def test_arrays_cannot_be_changed(built: Path) -> None:
    index = ColumnarIndex.open(built)
    with pytest.raises(ValueError, match="read-only"):
        index.lengths[0] = 9


def test_pickling_opens_the_index_again(built: Path) -> None:
    index = pickle.loads(pickle.dumps(ColumnarIndex.open(built)))
    assert index.docnos([0]) == ["b"]
    kept = pickle.dumps(index)
    build_index(ListDocuments("pets", DOCUMENTS[1:]), built, Analyzer())
    assert index.docnos([0]) == ["b"]
    with pytest.raises(InputError, match="another index"):
        pickle.loads(kept)


@pytest.mark.parametrize("column", sorted(manifests.INDEX_COLUMNS))
@pytest.mark.parametrize("harm", ["flip", "truncate", "extend", "remove"])
def test_damage_of_each_file(built: Path, column: str, harm: str) -> None:
    path = built / column
    raw = path.read_bytes()
    if harm == "remove":
        path.unlink()
    else:
        changed = {"flip": bytes([raw[0] ^ 1]) + raw[1:], "truncate": raw[:-1], "extend": raw + b"."}
        path.write_bytes(changed[harm])
    with pytest.raises(InputError, match="build it again") as caught:
        ColumnarIndex.open(built)
    assert caught.value.file == str(path)
    if harm == "flip":
        index = ColumnarIndex.open(built, verify=False)
        with pytest.raises(InputError, match="build it again") as caught:
            use(index)
        assert caught.value.file == str(path)
    else:
        with pytest.raises(InputError):
            ColumnarIndex.open(built, verify=False)


def use(index: ColumnarIndex) -> list[object]:
    """Look at everything that an index holds."""
    postings = [index.postings(term) for term in index.terms()]
    found: list[object] = [index.lengths.tolist(), index.docno_rank.tolist(), index.terms()]
    found += [[part.tolist() for part in own] for own in postings if own is not None]
    docnos = index.docnos(range(index.num_docs))
    return [*found, docnos, index.doc_numbers(docnos).tolist(), index.doc_numbers(docnos[:1]).tolist()]


def test_a_flipped_bit_of_a_large_index_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large"
    kept = use(build_index(made_documents(3000, per_batch=500), path, Analyzer(), workers=1))
    monkeypatch.setattr("lmtune.index.columnar.SMALL_BYTES", 0)
    assert use(ColumnarIndex.open(path)) == kept
    rng = np.random.default_rng(7)
    refused = 0
    columns = sorted(manifests.INDEX_COLUMNS)
    for column in columns:
        whole = (path / column).read_bytes()
        assert len(whole) > 4
        for place in rng.choice(len(whole), 12):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << int(rng.integers(8))
            (path / column).write_bytes(damaged)
            try:
                assert use(ColumnarIndex.open(path)) == kept
            except InputError as error:
                refused += 1
                assert "\n" not in str(error)
        (path / column).write_bytes(whole)
    assert refused == 12 * len(columns)
    with pytest.raises(InputError, match="checksum"):
        (path / "postings").write_bytes(bytes((path / "postings").stat().st_size))
        ColumnarIndex.open(path)


def test_what_is_looked_at_is_all_that_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "large"
    index = build_index(made_documents(9000, per_batch=500), path, Analyzer(), workers=1)
    kept = index.docnos([0, 1])
    whole = bytearray((path / "docnos").read_bytes())
    assert len(whole) > 2 * BLOCK_BYTES
    whole[BLOCK_BYTES + 5] ^= 4
    (path / "docnos").write_bytes(whole)
    index = ColumnarIndex.open(path, verify=False)
    assert index.docnos([0, 1]) == kept
    assert index.docnos([index.num_docs - 1])
    with pytest.raises(InputError, match="checksum"):
        index.docnos(range(index.num_docs))
    with pytest.raises(InputError, match="checksum"):
        ColumnarIndex.open(path, verify=True)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 99}, r"another format: 'lmtune columnar index 99'; accepted: .* 3;"),
        ({"format": "tar"}, "another format: 'tar 3'"),
        ({"num_docs": 4}, "manifest is damaged"),
        ({"crc32": 0}, "manifest is damaged"),
    ],
)
def test_a_changed_manifest(built: Path, change: dict[str, object], text: str) -> None:
    path = built / manifests.INDEX_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=text):
        ColumnarIndex.open(built)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "\xff"])
def test_a_manifest_that_is_none(built: Path, content: str) -> None:
    (built / manifests.INDEX_FILE).write_text(content, encoding="latin-1")
    with pytest.raises(InputError, match="manifest is damaged"):
        ColumnarIndex.open(built)


def test_not_an_index(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no index here"):
        ColumnarIndex.open(tmp_path / "absent")
    with pytest.raises(InputError, match=r"no index\.json"):
        ColumnarIndex.open(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="there is no index here"):
        ColumnarIndex.open(tmp_path / "file")


def test_staleness(built: Path) -> None:
    source = ListDocuments("pets", DOCUMENTS)
    index = ColumnarIndex.open(built)
    assert index.stale_reason(source, Analyzer()) is None
    assert "analysis" in (index.stale_reason(source, Analyzer(stemmer="none")) or "")
    assert "analysis" in (index.stale_reason(source, Analyzer(stopwords="none")) or "")
    other = ListDocuments("pets", [*DOCUMENTS[:-1], Document("\uffee", "dogz")])
    assert "other documents" in (index.stale_reason(other, Analyzer()) or "")


def test_the_analyzer_comes_back(built: Path, tmp_path: Path) -> None:
    analyzer = Analyzer(stemmer="none", stopwords="none")
    index = build_index(ListDocuments("pets", DOCUMENTS), tmp_path / "plain", analyzer)
    assert ColumnarIndex.open(tmp_path / "plain").analyzer == analyzer
    assert ColumnarIndex.open(built).analyzer == Analyzer()
    assert index.fingerprint != ColumnarIndex.open(built).fingerprint


def test_another_analysis_version(built: Path) -> None:
    index = ColumnarIndex.open(built)
    changed = replace(index.manifest, analyzer_fingerprint="0" * 64)
    manifests.write_manifest(built, changed)
    index = ColumnarIndex.open(built)
    assert index.postings("dog") is not None
    with pytest.raises(InputError, match="does not have"):
        index.analyze("dogs")


def test_no_pydantic_nor_scipy_on_opening() -> None:
    code = "import sys, lmtune.index.columnar; print(*sys.modules)"
    modules = {name.partition(".")[0] for name in run_python("-c", code).out.split()}
    assert not modules & {"pydantic", "scipy", "pandas", "numba"}
