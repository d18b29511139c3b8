"""Candidates from shards against those of one index: the same arrays, whatever is kept of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same_pools import assert_same

from lmtune.candidates.extraction import extract_best, extract_pruned
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.candidates.skyband import skyband
from lmtune.errors import InputError
from lmtune.index import builder
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.index.columnar import ColumnarIndex
from lmtune.index.protocol import Index
from lmtune.index.sharded import ShardedIndex
from lmtune.index.sharding import build_sharded_index
from lmtune.io.file_documents import FileDocuments
from lmtune.models.model import find_model
from lmtune.parallel import Workers

SHARDS = (1, 5, 16)
SETTINGS: dict[str, dict[str, float]] = {
    "two-stage": {"lambda": 0.3, "mu": 20.0},
    "bm25": {"k1": 1.2, "b": 0.6},
    "lucene-bm25": {"k1": 0.9, "b": 0.4},
    "lucene-dirichlet": {"mu": 30.0},
    "sdm": {"ordered": 0.2, "unordered": 0.1},
    "fields:title,contents": {"w_title": 0.3, "w_contents": 0.7},
    "bm25f:title,contents": {"w_title": 0.3, "w_contents": 0.7},
    "bm25-fields:title,contents": {"w_title": 0.3, "w_contents": 0.7},
}


class World:
    """A collection with short documents, so that ties are common, in one index and in shards."""

    def __init__(self, home: Path) -> None:
        rng = np.random.default_rng(8)
        words = [f"w{number}" for number in range(14)]
        weights = 1.0 / np.arange(1, 15)
        weights /= weights.sum()

        def text(most: int) -> str:
            return " ".join(rng.choice(words, rng.integers(0, most), p=weights))

        docnos = [f"d{number}" for number in rng.permutation(240)]
        rows = [{"id": docno, "title": text(4), "contents": text(16)} for docno in docnos]
        # Words of few documents, all in one shard; the longest document alone in another.
        rows[7]["contents"] += " rare rare w1"
        rows[230]["contents"] += " w13" * 90 + " w2" * 30
        path = home / "docs.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        source, analyzer = FileDocuments("made", [path]), Analyzer(stemmer="none", stopwords="none")
        how: Any = {"fields": ["title", "contents"], "positions": True}
        self.source, self.analyzer, self.how = source, analyzer, how
        self.one = build_index(source, home / "one", analyzer, **how)
        self.many = {
            shards: build_sharded_index(source, home / f"many{shards}", analyzer, shards, **how)
            for shards in SHARDS
        }
        self.indexes: list[Index] = [self.one, *self.many.values()]
        self.topics = {
            str(t): " ".join(rng.choice([*words, "absent"], rng.integers(1, 6), p=[*weights * 0.95, 0.05]))
            for t in range(30)
        }
        self.topics |= {"none": "absent nowhere", "empty": "", "rare": "rare w3", "rarest": "rare rare"}
        self.qrels = {
            topic: {str(docno): int(rng.integers(-1, 3)) for docno in rng.choice(docnos, 25, replace=False)}
            | {"missing": 1}
            for topic in list(self.topics)[:-1]
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.mark.first_case
@pytest.mark.parametrize("model", SETTINGS)
@pytest.mark.parametrize("shards", SHARDS)
def test_pruned_pools_are_the_same(world: World, model: str, shards: int) -> None:
    formula = find_model(model).formula
    for depth in (1, 60):
        pools = [
            extract_pruned(index, world.topics, world.qrels, model=formula, depth=depth)
            for index in (world.one, world.many[shards])
        ]
        assert_same(*pools)
        assert pools[1].extent == pools[0].extent
    whole = CandidatePool.build(world.many[shards], world.topics, world.qrels, model=formula)
    assert_same(whole, CandidatePool.build(world.one, world.topics, world.qrels, model=formula))
    assert_same(skyband(whole, depth=60), pools[0])
    dropped = whole.candidates.doc.size - pools[0].candidates.doc.size
    assert dropped > 0


@pytest.mark.slow
@pytest.mark.parametrize("exactness", [{"mode": "e"}, {"mode": "tf"}, {"lambda_high": 0.5, "mu_high": 100.0}])
def test_every_kind_of_pruning_is_the_same(world: World, exactness: Any) -> None:
    pools = [
        extract_pruned(index, world.topics, world.qrels, depth=4, **exactness) for index in world.indexes
    ]
    for pool in pools[1:]:
        assert_same(pools[0], pool)


@pytest.mark.slow
@pytest.mark.parametrize("gap", [3e-9, 1e-8])
def test_dominance_is_decided_by_the_whole_collection(world: World, gap: float) -> None:
    # Next to lambda = 1 the margin decides topic by topic; so does the number of a topic's documents.
    pools = [extract_pruned(index, world.topics, depth=20, lambda_high=1 - gap) for index in world.indexes]
    assert pools[0].pruning is not None
    assert 0 < pools[0].pruning.by_e.sum() < len(world.topics) - 5
    for pool in pools[1:]:
        assert_same(pools[0], pool)


def test_modes_that_do_not_hold_are_refused(world: World) -> None:
    for index in (world.one, world.many[5]):
        with pytest.raises(InputError, match="two-stage"):
            extract_pruned(index, world.topics, model="bm25", mode="e")


@pytest.mark.first_case
@pytest.mark.parametrize("model", SETTINGS)
def test_the_best_of_shards_are_the_best(world: World, model: str) -> None:
    whole = CandidatePool.build(world.one, world.topics, model=model)
    for hits in (7, 1000):
        wanted = [
            (own.topic, own.docnos, own.scores.tolist()) for own in rank(whole, SETTINGS[model], hits=hits)
        ]
        for index in world.indexes:
            pool = extract_best(index, world.topics, model, SETTINGS[model], hits)
            found = rank(pool, SETTINGS[model], hits=hits)
            assert [(own.topic, own.docnos, own.scores.tolist()) for own in found] == wanted
            assert pool.unknown_terms == whole.unknown_terms


def test_no_topics_are_refused(world: World) -> None:
    for index in world.indexes:
        with pytest.raises(InputError, match="no topics"):
            extract_pruned(index, {})
        with pytest.raises(InputError, match="no topics"):
            extract_best(index, {}, "bm25", SETTINGS["bm25"], 3)


def test_progress_and_name(world: World) -> None:
    seen: list[tuple[int, int]] = []
    pool = extract_pruned(
        world.many[5], world.topics, name="mine", depth=5, progress=lambda *now: seen.append(now)
    )
    assert pool.name == "mine"
    assert isinstance(pool.index, ShardedIndex)
    assert isinstance(pool.index.shards[0], ColumnarIndex)
    assert seen[-1] == (len(world.topics), len(world.topics))
    assert seen == sorted(seen)
    assert find_model("two-stage").formula is pool.formula


@pytest.mark.first_case
@pytest.mark.parametrize("workers", ["2", "3", "cluster"])
def test_workers_do_not_matter(
    world: World,
    workers: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(builder, "_WORTH_WORKERS", 1)
    where = (
        Workers(cluster=request.getfixturevalue("cluster")) if workers == "cluster" else Workers(int(workers))
    )
    wanted = extract_pruned(world.one, world.topics, world.qrels, depth=5)
    run = list(rank(wanted, SETTINGS["two-stage"], hits=5))
    with where.engaged():
        built = build_sharded_index(world.source, tmp_path / "built", world.analyzer, 5, **world.how)
        pool = extract_pruned(world.many[5], world.topics, world.qrels, depth=5)
        best = extract_best(world.many[5], world.topics, "two-stage", SETTINGS["two-stage"], 5)
    assert_same(pool, wanted)
    for one, other in zip(run, rank(best, SETTINGS["two-stage"], hits=5), strict=True):
        assert (one.docnos, one.scores.tolist()) == (other.docnos, other.scores.tolist())
    files = {path.relative_to(built.path) for path in built.path.rglob("*") if path.is_file()}
    assert len(files) > 40
    for file in files:
        assert (built.path / file).read_bytes() == (world.many[5].path / file).read_bytes(), file


@pytest.mark.slow
@pytest.mark.parametrize("model", ["bm25+rm3:3,4", "two-stage+weights:idf", "bm25f:title,contents+rm3:3,4"])
def test_topics_without_a_known_word_do_not_stop_expanded_searches(world: World, model: str) -> None:
    """Topics in a pool of their own (16 at a time, one at a time on shards) without a column."""
    topics = {f"none{i}": "absent nowhere" for i in range(17)} | world.topics
    setting = find_model(model).default
    pools = [extract_best(index, topics, model, setting, 10) for index in world.indexes]
    found = [
        [(own.topic, own.docnos, own.scores.tolist()) for own in rank(pool, setting, hits=10)]
        for pool in pools
    ]
    known = {topic for topic, text in topics.items() if set(text.split()) - {"absent", "nowhere"}}
    assert {topic for topic, docnos, _ in found[0] if docnos} == known
    for own in found[1:]:
        assert [(topic, docnos) for topic, docnos, _ in own] == [(t, docnos) for t, docnos, _ in found[0]]
        for (_, _, scores), (_, _, wanted) in zip(own, found[0], strict=True):
            assert scores == pytest.approx(wanted, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("model", SETTINGS)
def test_own_documents_are_left_out_before_pruning(world: World, model: str) -> None:
    """Pruned pools, of one index and of shards, have the ranks that the whole pool has without them."""
    docnos = world.one.docnos(range(world.one.num_docs))
    topics = dict(zip(docnos, list(world.topics.values()) * 8, strict=False))
    whole = CandidatePool.build(world.one, topics, model=model, exclude_self=True)
    setting = SETTINGS[model]
    wanted = [(own.topic, own.docnos, own.scores.tolist()) for own in rank(whole, setting, hits=5)]
    assert sum(
        t in own.docnos
        for t, own in zip(
            topics, rank(CandidatePool.build(world.one, topics, model=model), setting, hits=5), strict=True
        )
    )
    for index in world.indexes:
        for pool in (
            extract_pruned(index, topics, model=model, depth=5, exclude_self=True),
            extract_best(index, topics, model, setting, 5, exclude_self=True),
        ):
            assert pool.exclude_self
            found = [(own.topic, own.docnos, own.scores.tolist()) for own in rank(pool, setting, hits=5)]
            assert found == wanted
