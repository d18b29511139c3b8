"""Building an index: its content, whatever the memory and workers; what failure leaves behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib.externals.loky import get_reusable_executor
from made_documents import MadeBatch, MadeDocuments, made_documents
from scripts import run_python

from lmtune.errors import InputError, LostWorkerError
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.index.columnar import ColumnarIndex
from lmtune.index.manifest import INDEX_COLUMNS
from lmtune.io.documents import Document, DocumentSource, ListDocuments
from lmtune.io.file_documents import FileDocuments
from lmtune.parallel import Workers

PLAIN = Analyzer(stemmer="none", stopwords="none")
TEXT = "a the cats Cat running ran élan 東京 x1 3.14 don't STRASSE straße"
WORDS = st.sampled_from(TEXT.split())
DOCNOS = st.text(
    st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1, max_size=5
) | st.sampled_from(["d1", "d10", "d2", "é", "z", "\U0001f600", "\uffee", "-"])
COLLECTIONS = st.dictionaries(DOCNOS, st.lists(WORDS, max_size=30).map(" ".join), min_size=1, max_size=25)


def brute_force(documents: list[Document], analyzer: Analyzer) -> dict[str, list[tuple[int, int]]]:
    inverted: dict[str, list[tuple[int, int]]] = {}
    for number, document in enumerate(documents):
        for term, tf in Counter(analyzer.analyze(document.text)).items():
            inverted.setdefault(term, []).append((number, tf))
    return inverted


def check(index: ColumnarIndex, documents: list[Document], analyzer: Analyzer) -> None:
    expected = brute_force(documents, analyzer)
    assert index.terms() == sorted(expected)
    for term, postings in expected.items():
        found = index.postings(term)
        assert found is not None
        assert list(zip(found.docs.tolist(), found.tfs.tolist(), strict=True)) == postings
        assert found.docs.dtype == found.tfs.dtype == np.int32
    lengths = [len(analyzer.analyze(document.text)) for document in documents]
    assert index.lengths.tolist() == lengths
    docnos = [document.docno for document in documents]
    rank = {docno: rank for rank, docno in enumerate(sorted(docnos))}
    assert index.docno_rank.tolist() == [rank[docno] for docno in docnos]
    assert index.docnos(range(len(docnos))) == docnos
    manifest = index.manifest
    assert index.num_docs == len(documents)
    assert index.total_terms == sum(lengths)
    assert index.unique_terms == len(expected)
    assert manifest.num_postings == sum(map(len, expected.values()))


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(COLLECTIONS, st.sampled_from([40, 400, 4000, 1 << 30]), st.sampled_from(["porter", "none"]))
def test_any_collection_in_any_memory(collection: dict[str, str], memory_bytes: int, stemmer: str) -> None:
    documents = [Document(docno, text) for docno, text in collection.items()]
    analyzer = Analyzer(stemmer=stemmer)
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(
            ListDocuments("random", documents),
            Path(folder, "index"),
            analyzer,
            workers=1,
            memory_bytes=memory_bytes,
        )
        check(index, documents, analyzer)


def test_memory_and_workers_do_not_change_a_byte(tmp_path: Path) -> None:
    source = made_documents(400, per_batch=60)
    settings: list[tuple[int, int]] = [(1, 1 << 30), (1, 2000), (2, 1 << 30), (3, 3000)]
    built = []
    for number, (workers, memory) in enumerate(settings):
        path = tmp_path / str(number)
        index = build_index(source, path, Analyzer(), workers=workers, memory_bytes=memory)
        built.append(files_of(path))
    assert built[1:] == built[:1] * 3
    check(index, [document for batch in source.made for document in batch.documents], Analyzer())


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("workers", "memory"),
    [(1, 1 << 30), (1, 3000), (2, 1 << 30), pytest.param(3, 3000, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("positions", [False, True])
def test_builds_at_once_have_equal_bytes(tmp_path: Path, workers: int, memory: int, positions: bool) -> None:
    """Several analyses in one pass, among them one that drops stopwords and one of Snowball's."""
    source = made_documents(400, per_batch=60)
    analyzers = [Analyzer(), Analyzer("none", "none"), Analyzer("german"), Analyzer("porter", "none")]
    alone = [tmp_path / f"alone{number}" for number in range(4)]
    for path, analyzer in zip(alone, analyzers, strict=True):
        build_index(source, path, analyzer, positions=positions, workers=1)
    together = [tmp_path / f"together{number}" for number in range(4)]
    beside = dict(zip(together[1:], analyzers[1:], strict=True))
    how: Any = {"workers": workers, "memory_bytes": memory, "positions": positions}
    build_index(source, together[0], analyzers[0], beside=beside, **how)
    assert [files_of(path) for path in together] == [files_of(path) for path in alone]
    assert len({files_of(path)["index.json"] for path in together}) == 4


@pytest.mark.parametrize("fate", ["bug", "input error"])
def test_what_fails_leaves_none_of_several(tmp_path: Path, fate: str) -> None:
    source = made_documents(20, per_batch=10, fate=fate)
    with pytest.raises((ZeroDivisionError, InputError)):
        build_index(source, tmp_path / "a", Analyzer(), beside={tmp_path / "b": Analyzer("none")}, workers=1)
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_changes_no_byte(tmp_path: Path, cluster: str) -> None:
    source = made_documents(100, per_batch=20)
    build_index(source, tmp_path / "here", Analyzer(), workers=1)
    with Workers(cluster=cluster).engaged():
        build_index(source, tmp_path / "there", Analyzer())
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")


def test_an_index_of_the_former_format_is_replaced(tmp_path: Path) -> None:
    source = ListDocuments("d", [Document("a", "cat dog")])
    build_index(source, tmp_path / "i", Analyzer())
    for former in ("posting_docs", "posting_tfs", "term_cfs"):
        (tmp_path / "i" / former).write_bytes(b"old")
    build_index(source, tmp_path / "i", Analyzer())
    assert {path.name for path in (tmp_path / "i").iterdir()} == {"index.json", *INDEX_COLUMNS}


def test_documents_without_terms(tmp_path: Path) -> None:
    documents = [Document("b", ""), Document("a", "the of")]
    index = build_index(ListDocuments("empty", documents), tmp_path / "i", Analyzer())
    assert (index.num_docs, index.total_terms, index.unique_terms) == (2, 0, 0)
    assert index.lengths.tolist() == [0, 0]
    assert index.postings("the") is None
    assert index.docno_rank.tolist() == [1, 0]


def test_no_documents(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing: no documents"):
        build_index(ListDocuments("nothing", []), tmp_path / "i", Analyzer())
    empty_batches = MadeDocuments((MadeBatch(()), MadeBatch(())))
    with pytest.raises(InputError, match="no documents"):
        build_index(empty_batches, tmp_path / "i", Analyzer(), workers=2)
    assert not list(tmp_path.iterdir())


def test_duplicate_docnos_name_both_places(tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    one.write_text('{"id": "x", "text": "a"}\n{"id": "twin", "text": "b"}\n')
    other.write_text('{"id": "twin", "text": "c"}\n')
    with pytest.raises(InputError) as caught:
        build_index(FileDocuments("twins", [one, other]), tmp_path / "index", Analyzer())
    assert (caught.value.file, caught.value.line) == (str(other), 1)
    assert f"{one}:2" in str(caught.value)
    assert "'twin'" in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {"one.jsonl", "other.jsonl"}


def test_bad_workers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="workers: 0; accepted: 1 or more"):
        build_index(made_documents(3, per_batch=3), tmp_path / "i", Analyzer(), workers=0)


def test_leaves_other_folders_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"index\.json"):
        build_index(made_documents(3, per_batch=3), tmp_path, Analyzer())
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_replaces_an_index(tmp_path: Path) -> None:
    build_index(made_documents(3, per_batch=3), tmp_path / "i", Analyzer())
    build_index(made_documents(5, per_batch=3), tmp_path / "i", Analyzer())
    assert ColumnarIndex.open(tmp_path / "i").num_docs == 5
    assert [path.name for path in tmp_path.iterdir()] == ["i"]


@pytest.mark.parametrize("workers", [1, 2])
def test_progress_counts_to_the_end(tmp_path: Path, workers: int) -> None:
    source = made_documents(100, per_batch=20)
    seen: list[tuple[int, int]] = []
    caller = threading.get_ident()

    def progress(done: int, total: int) -> None:
        assert threading.get_ident() == caller
        seen.append((done, total))

    build_index(source, tmp_path / "i", Analyzer(), workers=workers, progress=progress)
    assert seen == [((at + 1) * (5 << 20), source.size) for at in range(5)]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_an_input_error_arrives_as_it_is(tmp_path: Path, workers: int) -> None:
    source = made_documents(100, per_batch=20, fate="input error")
    with pytest.raises(InputError) as caught:
        build_index(source, tmp_path / "i", Analyzer(), workers=workers)
    assert str(caught.value) == "made.jsonl:7: bad line: 'x'; accepted: y"
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fate", "error", "text"),
    [
        ("bug", ZeroDivisionError, "made to fail"),
        ("unpicklable", RuntimeError, "made to fail oddly"),
        ("end", LostWorkerError, r"a worker process ended unexpectedly \(EXIT\(3\)\)"),
    ],
)
def test_a_failing_worker(tmp_path: Path, fate: str, error: type[Exception], text: str) -> None:
    source = made_documents(100, per_batch=20, fate=fate)
    with pytest.raises(error, match=text):
        build_index(source, tmp_path / "i", Analyzer(), workers=2)
    assert not list(tmp_path.iterdir())
    assert not children()


def test_a_worker_that_prints(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    get_reusable_executor().shutdown(wait=True)  # workers keep the stderr of the test that started them
    source = made_documents(100, per_batch=20, fate="print")
    assert build_index(source, tmp_path / "i", Analyzer(), workers=2).num_docs == 100
    assert sorted(capfd.readouterr().err.splitlines()) == ["neither", "not a reply"]


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    source = made_documents(100, per_batch=20, fate="sleep")
    progressed = threading.Event()

    def interrupt() -> None:
        assert progressed.wait(60)
        signal.raise_signal(signal.SIGINT) if os.name == "nt" else os.kill(os.getpid(), 2)

    thread = threading.Thread(target=interrupt)
    thread.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        build_index(source, tmp_path / "i", Analyzer(), workers=2, progress=lambda *_: progressed.set())
    thread.join()
    assert time.monotonic() - started < 60  # the worker would sleep for ten minutes
    assert not list(tmp_path.iterdir())
    assert not children()


@pytest.mark.slow
def test_a_script_without_a_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        f"sys.path[:] = {sys.path!r}\n"
        "from pathlib import Path\n"
        "from made_documents import made_documents\n"
        "from lmtune.index.analysis import Analyzer\n"
        "from lmtune.index.builder import build_index\n"
        "source = made_documents(100, per_batch=20)\n"
        f"print(build_index(source, Path({str(tmp_path)!r}, 'i'), Analyzer(), workers=2))\n"
    )
    assert run_python(str(script)).out.count("num_docs=100") == 1


def children() -> list[str]:
    """List the workers that this process has started and that still run."""
    if shutil.which("ps") is None:
        pytest.skip("no ps here to look for processes left behind")
    listed = subprocess.run(["ps", "-ww", "-o", "ppid=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 1) for line in listed.stdout.splitlines()]
    return [name for parent, name in rows if int(parent) == os.getpid() and "popen_loky" in name]


@pytest.mark.first_case
@pytest.mark.parametrize(
    "collection", ["cranfield", "cacm", "med", pytest.param("npl", marks=pytest.mark.slow)]
)
def test_a_classic_collection(tmp_path: Path, shared_data: Path, collection: str) -> None:
    source: DocumentSource = FileDocuments(collection, [shared_data / collection / "docs.jsonl"])
    documents = [document for batch in source.batches() for document in batch.read()]
    index = build_index(source, tmp_path / "i", Analyzer(), memory_bytes=1 << 20)
    check(index, documents, Analyzer())
    assert index.doc_numbers([d.docno for d in documents]).tolist() == [*range(len(documents))]
