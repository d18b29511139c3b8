"""Stored candidates against fresh ones; damaged and foreign files are never used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same_pools import assert_same
from support import TinyIndex, random_collection

from lmtune.candidates import skyband as skyband_module
from lmtune.candidates.extraction import extract_pruned
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.skyband import skyband
from lmtune.candidates.storage import stored_pool
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure

Collection = tuple[TinyIndex, dict[str, str], dict[str, dict[str, int]]]


@pytest.fixture
def collection() -> Collection:
    index, topics, qrels = random_collection(5, documents=120, topics=40)
    # A topic that matches nothing, and one with lone surrogates as a file may bring.
    return index, {**topics, "none": "nowhere", "odd": "w1 \udcff"}, qrels


class Cache:
    """A folder with the reasons it was written for."""

    def __init__(self, folder: Path, collection: Collection) -> None:
        self.folder = folder
        self.index, self.topics, self.qrels = collection
        self.reasons: list[str] = []

    def get(self, **changed: Any) -> CandidatePool:
        self.reasons.clear()
        return stored_pool(
            self.folder, on_build=lambda _path, reason: self.reasons.append(reason), **self.values(**changed)
        )

    def values(self, **changed: Any) -> dict[str, Any]:
        own = {"index": self.index, "topics": self.topics, "qrels": self.qrels, "depth": 7}
        return own | changed

    @property
    def file(self) -> Path:
        [path] = self.folder.iterdir()
        return path


@pytest.fixture
def cache(tmp_path: Path, collection: Collection) -> Cache:
    return Cache(tmp_path / "candidates", collection)


def test_extraction_in_parts_equals_pruning_the_whole(collection: Collection) -> None:
    index, topics, qrels = collection
    seen: list[tuple[int, int]] = []
    parts = extract_pruned(
        index, topics, qrels, depth=7, progress=lambda done, total: seen.append((done, total))
    )
    assert_same(parts, skyband(CandidatePool.build(index, topics, qrels), depth=7))
    assert seen == [(done, 42) for done in range(1, 43)]
    with pytest.raises(InputError, match="no topics"):
        extract_pruned(index, {})


def test_what_is_read_is_what_was_built(cache: Cache) -> None:
    built = cache.get()
    assert cache.reasons == ["there is none yet"]
    read = cache.get()
    assert cache.reasons == []
    assert_same(read, built)
    assert cache.get(name="other").name == "other"


def test_judgments_change_without_a_rebuild(cache: Cache) -> None:
    cache.get()
    qrels = {
        topic: {"missing": 1, **dict.fromkeys(list(judged)[::2], 2)} for topic, judged in cache.qrels.items()
    }
    pool = cache.get(qrels=qrels)
    assert cache.reasons == []
    fresh = CandidatePool.build(cache.index, cache.topics, qrels)
    assert_same(pool, skyband(fresh, depth=7))
    one, two = (measure(own, {"lambda": 0.3, "mu": 20.0}, depth=7) for own in (pool, fresh))
    assert one.equals(two)
    assert cache.get(qrels=None).judgments.size == 0


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"mode": "tf"}, "another mode"),
        ({"lambda_high": 0.5}, "another lambda_high"),
        ({"mu_low": 10.0}, "another mu_low"),
        ({"mu_high": 10.0}, "another mu_high"),
        ({"index": TinyIndex({"a": "w1 w2"})}, "another index"),
    ],
)
def test_files_made_otherwise_are_replaced(cache: Cache, changed: dict[str, Any], reason: str) -> None:
    cache.get()
    pool = cache.get(**changed)
    assert cache.reasons == [f"made with {reason}"]
    values: dict[str, Any] = {"index": cache.index, "topics": cache.topics, "qrels": cache.qrels, "depth": 7}
    assert_same(pool, extract_pruned(**(values | changed)))
    cache.get(**changed)
    assert cache.reasons == []
    assert len(list(cache.folder.iterdir())) == 1


def test_other_topics_and_depths_have_their_own_files(cache: Cache) -> None:
    cache.get()
    cache.get(depth=8)
    for topics in (
        {**cache.topics, "1": "w2"},
        dict(reversed(cache.topics.items())),
        {f"x{topic}": text for topic, text in cache.topics.items()},
    ):
        pool = cache.get(topics=topics)
        assert cache.reasons == ["there is none yet"]
        assert pool.topics == tuple(topics)
    assert len(list(cache.folder.iterdir())) == 5


def test_a_new_way_of_pruning_rebuilds(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.get()
    monkeypatch.setattr(skyband_module, "SKYBAND_VERSION", skyband_module.SKYBAND_VERSION + 1)
    cache.get()
    assert cache.reasons == ["made with another pruning"]


@pytest.mark.slow
def test_damage_anywhere_is_noticed(cache: Cache) -> None:
    built = cache.get()
    whole = cache.file.read_bytes()
    rng = np.random.default_rng(0)
    noticed = 0
    for place in rng.choice(len(whole), 120, replace=False):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        cache.file.write_bytes(damaged)
        # Some bytes of an archive say nothing, such as its dates: then what is read is right.
        assert_same(cache.get(), built)
        noticed += bool(cache.reasons)
    assert noticed > 100
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        cache.file.write_bytes(whole[:size])
        assert_same(cache.get(), built)
        assert cache.reasons[0].startswith("damaged: ")
        assert cache.file.read_bytes() == whole


def test_foreign_files_are_replaced(cache: Cache) -> None:
    built = cache.get()
    for save in (np.save, np.savez):
        with cache.file.open("wb") as stream:
            save(stream, np.arange(5))
        assert_same(cache.get(), built)
        assert cache.reasons[0].startswith("damaged: ")


def test_a_folder_that_cannot_be_made_is_named(cache: Cache) -> None:
    cache.folder.write_text("a file")
    with pytest.raises(InputError, match="cannot write"):
        cache.get()


def test_pools_without_own_documents_have_their_own_files(cache: Cache) -> None:
    docnos = cache.index.docnos(range(len(cache.topics)))
    topics = dict(zip(docnos, cache.topics.values(), strict=True))
    qrels = {topic: {topic: 1, docnos[0]: 2} for topic in topics}
    pools = {}
    for exclude in (False, True, True, False):
        pools[exclude] = cache.get(topics=topics, qrels=qrels, exclude_self=exclude)
        assert pools[exclude].exclude_self == exclude
        fresh = CandidatePool.build(cache.index, topics, qrels, exclude_self=exclude)
        assert_same(pools[exclude], skyband(fresh, depth=7))
    assert cache.reasons == []
    assert len(list(cache.folder.iterdir())) == 2
    assert pools[True].candidates.doc.tolist() != pools[False].candidates.doc.tolist()
