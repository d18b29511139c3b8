"""A flipped bit in any file that lmtune wrote, and odd JSON, is refused in one line, or changes nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_lists import made_lists
from reported import made_results, write_made
from support import random_collection

from lmtune.candidates.storage import stored_pool
from lmtune.errors import InputError
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.index.cache import index_for
from lmtune.index.columnar import ColumnarIndex
from lmtune.index.lucene.store import LuceneStore
from lmtune.index.lucene.writer import NOTE, read_note
from lmtune.index.sharded import ShardedIndex
from lmtune.index.sharding import build_sharded_index
from lmtune.index.text_store import keep_texts
from lmtune.io.csv_files import columns_text
from lmtune.io.digests import sealed
from lmtune.io.documents import Document, ListDocuments
from lmtune.io.letor import read_letor, write_letor
from lmtune.report.tuning_tables import tuning_table
from lmtune.tuning.experiment.stored import read_results

Read = Callable[[], Any]
FLIPS = 12
TRIED = 20


def documents(count: int) -> ListDocuments:
    rng = np.random.default_rng(count)
    words = [f"word{number}" for number in range(90)]
    texts = (" ".join(rng.choice(words, rng.integers(1, 30))) for _ in range(count))
    return ListDocuments("made", [Document(f"d{number}", text) for number, text in enumerate(texts)])


def seen(index: ColumnarIndex) -> list[Any]:
    terms = index.terms()
    found = [index.postings(term) for term in terms]
    docnos = index.docnos(range(index.num_docs))
    numbers = [index.doc_numbers(docnos).tolist(), index.doc_numbers(docnos[3:4]).tolist()]
    postings = [(own.docs.tolist(), own.tfs.tolist()) for own in found if own is not None]
    if index.has_positions:
        placed = (index.positions(term) for term in terms)
        postings += [(own.docs.tolist(), own.positions.tolist()) for own in placed if own is not None]
    return [terms, postings, docnos, numbers, index.lengths.tolist(), index.docno_rank.tolist()]


def index(folder: Path) -> Read:
    build_index(documents(400), folder, Analyzer(), positions=True, workers=1)
    return lambda: seen(ColumnarIndex.open(folder))


def large_index(folder: Path) -> Read:
    index(folder)
    return lambda: seen(ColumnarIndex.open(folder, verify=False))


def sharded_index(folder: Path) -> Read:
    build_sharded_index(documents(400), folder, Analyzer(), 2)

    def read() -> Any:
        index = ShardedIndex.open(folder)
        shards = [seen(shard) for shard in index.shards if isinstance(shard, ColumnarIndex)]
        return [shards, index.docno_rank.tolist(), index.fingerprint, index.name]

    return read


def cached_index(folder: Path) -> Read:
    source = documents(60)
    return lambda: seen(index_for(source, home=folder))


def lucene_store(folder: Path) -> Read:
    lengths = np.arange(50, dtype=np.int32)
    docs = np.arange(9, dtype=np.int32)
    facts = {"digest": "d" * 64, "num_docs": 50, "path": str(folder), "name": "n"}

    def read() -> Any:
        store = LuceneStore.open(folder, facts["digest"])  # type: ignore[arg-type]
        if store is None:
            store = LuceneStore.create(folder, facts, [b"d%d" % number for number in range(50)])
        kept = (store.postings, store.occurrences)
        found = [get(term, lambda: (docs, docs + 1)) for term in ("cat", "dog") for get in kept]
        postings = [(own.docs.tolist(), own.tfs.tolist()) for own in found if own is not None]
        terms = store.terms("a", "Cats", lambda: ["cat"])
        counted = store.lengths("exact", lambda: lengths).tolist()
        return [store.facts, postings, terms, counted, store.docnos.names(range(50))]

    return read


def texts(folder: Path) -> Read:
    source = documents(300)
    keep_texts(source, build_index(source, folder, Analyzer(), workers=1))
    return lambda: ColumnarIndex.open(folder).texts(range(300))


def lucene_note(folder: Path) -> Read:
    folder.mkdir()
    (folder / NOTE).write_text(json.dumps(sealed({"analysis": {"stemmer": "none", "stopwords": "none"}})))
    return lambda: read_note(folder)


def letor_columns(folder: Path) -> Read:
    path = folder.with_suffix(".txt")
    write_letor(path, made_lists(0))

    def read() -> Any:
        data = read_letor(path, cache=folder)
        return [data.features.tolist(), data.labels.tolist(), data.starts.tolist(), data.queries, data.docnos]

    return read


def pool(folder: Path) -> Read:
    made, topics, qrels = random_collection(5, documents=120, topics=6)

    def read() -> Any:
        kept = stored_pool(folder, made, topics, qrels, depth=7)
        arrays = (kept.value, kept.count, kept.group, *vars(kept.candidates).values())
        return [kept.topics, kept.terms, *(array.tolist() for array in arrays)]

    return read


def results(folder: Path) -> Read:
    write_made(folder, made_results())

    def read() -> Any:
        found = read_results(folder)
        fits = [row.fits for result in found.results for row in result.rows]
        traces = [columns_text(table) for result in found.results for table in result.traces.values()]
        return [tuning_table(found.results, "csv"), fits, traces, found.record]

    return read


def model(folder: Path, **how: Any) -> Read:
    pytest.importorskip("torch", reason="the extra 'neural' is not installed")
    from lmtune.rerank.reranker import learn, load_model, save_model
    from lmtune.rerank.settings import Settings

    settings = Settings(**how, network="mlp:4", epochs=2, batch_size=8)
    save_model(folder, learn(made_lists(0), made_lists(1, queries=8), settings), {"how": "so"})
    test = made_lists(2, queries=8)

    def read() -> Any:
        kept = load_model(folder)
        scorer: Any = kept.scorer
        return [kept.score(test).tolist(), kept.names, scorer.history, scorer.label]

    return read


def network(folder: Path) -> Read:
    from lmtune.rerank.loss_names import parse_loss

    return model(folder, loss=parse_loss("listnet"))


def trees(folder: Path) -> Read:
    from lmtune.rerank.rankers import parse_ranker

    trees = parse_ranker("lambdamart:rounds=3:threads=1:min_rows=2:min_hessian=0.001")
    return model(folder, ranker=trees)


def checkpoint(folder: Path) -> Read:
    torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
    from lmtune.rerank.training.checkpoints import load_checkpoint, save_checkpoint

    save_checkpoint(folder, {"seed": 3}, {"w": torch.arange(60.0)}, {"epoch": 2, "history": [0.5]})

    def read() -> Any:
        found = load_checkpoint(folder, {"seed": 3})
        assert found is not None
        return [{name: tensor.tolist() for name, tensor in found[0].items()}, found[1]]

    return read


MENDED = [cached_index, lucene_store, letor_columns, pool]
"""What is made again where it is damaged."""

REFUSED = [index, large_index, sharded_index, texts, lucene_note, results, network, trees, checkpoint]


@pytest.mark.first_case
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("make", [*MENDED, *REFUSED], ids=lambda make: make.__name__)
def test_a_flipped_bit_is_refused_or_harmless(make: Callable[[Path], Read], tmp_path: Path) -> None:
    home = tmp_path / "home"
    read = make(home)
    expected = read()
    assert read() == expected
    rng = np.random.default_rng(11)
    refused = tried = 0
    for file in sorted(path for path in home.rglob("*") if path.is_file()):
        whole = file.read_bytes()
        for place in rng.choice(len(whole), min(FLIPS, len(whole)), replace=False):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << int(rng.integers(8))
            file.write_bytes(damaged)
            tried += 1
            try:
                assert read() == expected, (file.name, place)
            except InputError as error:
                assert make in REFUSED
                assert "\n" not in str(error)
                refused += 1
            file.write_bytes(whole)
    assert tried >= FLIPS
    assert (refused > 0) == (make in REFUSED)


ODD: list[Any] = [None, 3, "x", [], {}, [[1]], {"a": []}, [{"a": 1}], 1e400]
NO_JSON = [b"[" * 100_000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"{", b"\xff\xfe", b"1" * 6000, b""]


def oddities(whole: bytes) -> Iterator[bytes]:
    """Yield other content for a file of JSON: values of wrong types, also with a checksum that is right."""
    yield from NO_JSON
    # Content nested more than 500 deep is not read, so none is sealed.
    deep, allowed = (json.loads("[" * depth + "]" * depth) for depth in (900, 400))
    for value in (*ODD, deep):
        yield json.dumps(value).encode()
    old = json.loads(whole)
    if not isinstance(old, dict):
        return
    old.pop("crc32", None)
    for key in old:
        for value in (*ODD, deep):
            yield json.dumps(old | {key: value}).encode()
        for value in (*ODD, allowed):
            yield json.dumps(sealed(old | {key: value})).encode()
        yield json.dumps(sealed({name: value for name, value in old.items() if name != key})).encode()


@pytest.mark.first_case
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("make", [*MENDED, *REFUSED], ids=lambda make: make.__name__)
def test_odd_json_is_refused_or_harmless(make: Callable[[Path], Read], tmp_path: Path) -> None:
    home = tmp_path / "home"
    read = make(home)
    read()
    for file in sorted(home.rglob("*.json")):
        whole = file.read_bytes()
        contents = list(oddities(whole))
        for content in random.Random(5).sample(contents, min(TRIED, len(contents))):
            file.write_bytes(content)
            try:
                read()
            except InputError as error:
                assert "\n" not in str(error)
            except Exception as error:
                raise AssertionError((file.name, content[:2000])) from error
        file.write_bytes(whole)
