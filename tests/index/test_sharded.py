"""Sharded indexes: equal to one index of the same documents; what is missing is told by name."""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from made_documents import made_documents
from made_lucene import require_java, write_index

from lmtune.errors import InputError
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.index.columnar import ColumnarIndex
from lmtune.index.lucene.index import LuceneIndex
from lmtune.index.protocol import FieldedIndex, Index, PositionalIndex
from lmtune.index.sharded import ShardedIndex
from lmtune.index.sharding import build_sharded_index, join_indexes
from lmtune.io.documents import Document, ListDocuments
from lmtune.io.file_documents import FileDocuments

COUNT = 90
WORDS = [f"word{number}" for number in range(25)]


def rows(count: int = COUNT, seed: int = 3) -> list[dict[str, str]]:
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, len(WORDS) + 1)
    weights /= weights.sum()
    names = [f"d{number}" if number % 7 else f"é{number}\U0001f600" for number in rng.permutation(count)]
    return [
        {
            "id": name,
            "title": WORDS[at % 20] if at % 3 else "",
            "contents": " ".join(rng.choice(WORDS, rng.integers(0, 40), p=weights)),
        }
        for at, name in enumerate(names)
    ]


def write_rows(path: Path, made: Sequence[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> FileDocuments:
    """One file cut in the middle, and a compressed one that cannot be."""
    home = tmp_path_factory.mktemp("documents")
    made = rows()
    path = write_rows(home / "a.jsonl", made[:70])
    with gzip.open(home / "b.jsonl.gz", "wt") as stream:
        stream.write("".join(json.dumps(row) + "\n" for row in made[70:]))
    return FileDocuments("made", [path, home / "b.jsonl.gz"])


@pytest.fixture(scope="module")
def single(source: FileDocuments, tmp_path_factory: pytest.TempPathFactory) -> ColumnarIndex:
    path = tmp_path_factory.mktemp("single") / "index"
    return build_index(source, path, Analyzer(), fields=["title"], positions=True)


def assert_equal(one: Index, other: ColumnarIndex) -> None:
    """Hold an index against the single one, in all that the protocol says."""
    assert isinstance(one, FieldedIndex | PositionalIndex)
    assert (one.name, one.num_docs, one.total_terms) == (other.name, other.num_docs, other.total_terms)
    assert one.lengths.tolist() == other.lengths.tolist()
    assert one.docno_rank.tolist() == other.docno_rank.tolist()
    docs = np.random.default_rng(1).permutation(other.num_docs)
    docnos = other.docnos(docs)
    assert one.docnos(docs) == docnos
    assert one.doc_numbers([*docnos, "absent"]).tolist() == [*docs.tolist(), -1]
    for term in [*other.terms(), "absent"]:
        mine, theirs = one.postings(term), other.postings(term)
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert [own.dtype for own in mine] == [own.dtype for own in theirs]
            assert [own.tolist() for own in mine] == [own.tolist() for own in theirs]


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
def test_one_index(source: FileDocuments, single: ColumnarIndex, tmp_path: Path, shards: int) -> None:
    path = tmp_path / "big"
    index = build_sharded_index(source, path, Analyzer(), shards, fields=["title"], positions=True)
    assert len(index.shards) == shards
    assert min(shard.num_docs for shard in index.shards) >= COUNT // shards // 3
    assert_equal(index, single)
    assert index.fingerprint == single.fingerprint
    assert index.analysis == single.analysis
    assert index.analyze("The word3 of words") == single.analyze("The word3 of words")
    assert_equal(index.field("title"), single.field("title"))
    assert index.field("title").fingerprint == single.field("title").fingerprint
    for term in single.terms():
        mine, theirs = index.positions(term), single.positions(term)
        assert mine is not None
        assert theirs is not None
        assert [own.tolist() for own in mine] == [own.tolist() for own in theirs]
    assert index.stale_reason(source) is None
    assert index.stale_reason(ListDocuments("other", [Document("d", "x")])) is not None
    again = pickle.loads(pickle.dumps([index, index.field("title")]))
    assert_equal(again[0], single)
    assert_equal(again[1], single.field("title"))
    assert index.ranks_of(np.array([7, 2])).tolist() == single.docno_rank[[7, 2]].tolist()
    with pytest.raises(IndexError, match=f"from 0 to {COUNT - 1}"):
        index.docnos([COUNT])


def test_documents_in_memory(tmp_path: Path) -> None:
    made = [Document(row["id"], row["contents"]) for row in rows(20)]
    fields = {"title": [Document(row["id"], row["title"]) for row in rows(20)]}
    for given in (made, lambda: iter(made)):
        source = ListDocuments("made", given, fields)
        one = build_index(source, tmp_path / "one", Analyzer(), fields=["title"])
        many = build_sharded_index(source, tmp_path / "many", Analyzer(), 4, fields=["title"])
        assert [shard.num_docs for shard in many.shards] == [5, 5, 5, 5]
        assert_equal(many, one)
        assert_equal(many.field("title"), one.field("title"))
        assert (many.fingerprint, many.field("title").fingerprint) == (
            one.fingerprint,
            one.field("title").fingerprint,
        )


def test_what_cannot_be_cut_is_refused(source: FileDocuments, tmp_path: Path) -> None:
    packed = FileDocuments("packed", source.files[1:])
    few = ListDocuments("few", [Document("a", "x"), Document("b", "y")])
    for given, shards in ((packed, 2), (few, 3), (made_documents(9, per_batch=3), 3), (few, 0)):
        with pytest.raises(InputError, match="shards"):
            build_sharded_index(given, tmp_path / "big", Analyzer(), shards)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shards", [2, 5])
def test_a_docno_in_two_shards_is_told_by_line(tmp_path: Path, shards: int) -> None:
    made = rows()
    made[80]["id"] = made[4]["id"]
    path = write_rows(tmp_path / "twice.jsonl", made)
    told = []
    for build in (build_index, build_sharded_index):
        count = [shards] if build is build_sharded_index else []
        with pytest.raises(InputError) as error:
            build(FileDocuments("twice", [path]), tmp_path / "big", Analyzer(), *count)
        told.append(str(error.value))
    assert told[0] == told[1]
    assert "twice.jsonl:5" in told[1]
    assert [own.name for own in tmp_path.iterdir()] == ["twice.jsonl"]


def test_a_field_may_be_missing_from_a_shard_alone(tmp_path: Path) -> None:
    made = rows(20)
    for row in made[8:]:
        del row["title"]
    source = FileDocuments("half", [write_rows(tmp_path / "half.jsonl", made)])
    one = build_index(source, tmp_path / "one", Analyzer(), fields=["title"])
    many = build_sharded_index(source, tmp_path / "many", Analyzer(), 4, fields=["title"])
    assert_equal(many.field("title"), one.field("title"))
    with pytest.raises(InputError, match="no document has this field"):
        build_sharded_index(source, tmp_path / "none", Analyzer(), 4, fields=["body"])
    with pytest.raises(InputError, match="no such field"):
        many.field("body")


@pytest.fixture
def joined(source: FileDocuments, tmp_path: Path) -> Path:
    """Two of three shards, and a third joined to them."""
    split = build_sharded_index(source, tmp_path / "split", Analyzer(), 3, fields=["title"], positions=True)
    pair = [shard.path for shard in split.shards[:2]]
    join_indexes(pair, tmp_path / "two", name="made")
    join_indexes([tmp_path / "two", split.shards[2].path], tmp_path / "three", name="made")
    return tmp_path


def test_joined_shards_are_one_index(joined: Path, single: ColumnarIndex, source: FileDocuments) -> None:
    index = ShardedIndex.open(joined / "three")
    assert_equal(index, single)
    assert_equal(index.field("title"), single.field("title"))
    assert index.stale_reason(source) is None
    assert index.fingerprint not in (single.fingerprint, ShardedIndex.open(joined / "two").fingerprint)
    # The folder holds no shard: adding one has read the docnos of the others, and written no index.
    assert sorted(path.name for path in (joined / "three").iterdir()) == ["docno_ranks", "shards.json"]


def test_a_lost_or_changed_shard_is_told_by_name(joined: Path) -> None:
    lost, changed = joined / "split" / "shard-1", joined / "split" / "shard-2"
    build_index(ListDocuments("other", [Document("a", "b")]), changed, Analyzer())
    with pytest.raises(InputError, match=r"a shard has changed.*shard-2|shard-2.*a shard has changed"):
        ShardedIndex.open(joined / "three")
    ShardedIndex.open(joined / "two")
    shutil.move(lost, joined / "elsewhere")
    for name in ("two", "three", "split"):
        with pytest.raises(InputError, match=r"shard-1.*missing|missing.*shard-1"):
            ShardedIndex.open(joined / name)


def test_what_cannot_be_joined_is_refused(joined: Path) -> None:
    shard = joined / "split" / "shard-0"
    other = build_index(ListDocuments("o", [Document("x", "y")]), joined / "none", Analyzer(stemmer="none"))
    for paths, said in (
        ([], "no indexes to join"),
        ([shard, other.path], "another analysis"),
        ([shard, joined / "two"], "a second document of the same docno"),
        ([joined / "nowhere"], "no index here"),
    ):
        with pytest.raises(InputError, match=said):
            join_indexes(paths, joined / "new")
    with pytest.raises(InputError):
        join_indexes([joined / "split"], joined / "split")
    assert ShardedIndex.open(joined / "split").num_docs == COUNT
    with pytest.raises(InputError, match="no sharded index here"):
        ShardedIndex.open(shard)
    assert not (joined / "new").exists()


def test_shards_of_both_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_java()
    monkeypatch.chdir(tmp_path)
    write_index(tmp_path / "luc", [{"b": "w1 w2 w2", "a": "w2"}, {"c": "w3 w2 w1 w1 w1"}])
    more = [Document("d", "w2 w4"), Document("aa", "w1")]
    build_index(ListDocuments("more", more), tmp_path / "own", Analyzer())
    index = join_indexes(["lucene:luc", "own"], tmp_path / "both", name="all")
    assert isinstance(index.shards[0], LuceneIndex)
    first = index.shards[0].docnos(range(3))
    texts = {"b": "w1 w2 w2", "a": "w2", "c": "w3 w2 w1 w1 w1"}
    whole = [*(Document(docno, texts[docno]) for docno in first), *more]
    assert_equal(index, build_index(ListDocuments("all", whole), tmp_path / "whole", Analyzer()))
    assert_equal(pickle.loads(pickle.dumps(index)), ColumnarIndex.open("whole"))
    again = pickle.loads(pickle.dumps(index.shards[0]))
    assert (again.docnos(range(3)), again.fingerprint) == (first, index.shards[0].fingerprint)
    # Read again from what was kept; a part elsewhere is told.
    assert ShardedIndex.open("both").num_docs == 5
    shutil.move("luc", "gone")
    with pytest.raises(InputError, match=r"luc.*missing|missing.*luc"):
        ShardedIndex.open("both")
