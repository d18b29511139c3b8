"""The embedded dataset, checked against the packages through pydoc and inspect."""

from __future__ import annotations

import inspect
import os
import pydoc
import re
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import lmtune.collections.pydocs
from lmtune.collections.collection import Collection
from lmtune.collections.dataset import Dataset, check_dataset, split_topics
from lmtune.collections.docstrings import public_docstrings
from lmtune.collections.pydocs import load_pydocs, write_pydocs
from lmtune.errors import InputError
from lmtune.io.qrels import read_qrels
from lmtune.io.topics import read_topics

PRINT_DIGEST = """
import hashlib, json
from lmtune.collections.pydocs import load_pydocs
data = load_pydocs()
everything = [data.documents.digest(), list(data.topics.items()),
              [(topic, list(judged.items())) for topic, judged in data.qrels.items()]]
print(hashlib.sha256(json.dumps(everything).encode()).hexdigest())
"""
IMPORT_MUCH = """
import numpy.testing, pandas.core.api, pandas.io.formats.format, scipy.linalg.blas
import scipy.stats.contingency, scipy.signal.windows, scipy.io, numpy.f2py, numba
import pandas as pd
@pd.api.extensions.register_series_accessor("lmtune_test")
class Accessor:
    "An accessor that somebody registered." + 50 * " And more words."
    def __init__(self, series): pass
"""


@pytest.fixture(scope="module")
def pydocs() -> Dataset:
    return load_pydocs()


@pytest.fixture(scope="module")
def documents(pydocs: Dataset) -> dict[str, str]:
    source = pydocs.documents
    assert source is not None
    read = [document for batch in source.batches() for document in batch.read()]
    assert len({document.docno for document in read}) == len(read)
    return dict(read)


def run_python(code: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def locate(name: str) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pydoc.locate(name)


@pytest.mark.slow
def test_it_is_the_same_in_every_process() -> None:
    first = run_python(PRINT_DIGEST, "-W", "error", PYTHONHASHSEED="1")
    second = run_python(IMPORT_MUCH + PRINT_DIGEST, PYTHONHASHSEED="2", SCIPY_ARRAY_API="1")
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert first.stdout == second.stdout
    assert len(first.stdout) == 65
    assert first.stderr == ""


def test_counts_are_what_the_three_packages_have(pydocs: Dataset, documents: dict[str, str]) -> None:
    packages = Counter(docno.partition(".")[0] for docno in documents)
    assert set(packages) == {"numpy", "scipy", "pandas"} == set(pydocs.versions)
    assert min(packages.values()) > 1000
    assert 4500 < len(documents) < 5500
    assert 1400 < len(pydocs.topics) < 2500


@pytest.mark.slow
def test_without_pandas_its_topics_are_missing(
    pydocs: Dataset, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for name in [name for name in sys.modules if name.startswith("pandas.")]:
        monkeypatch.setitem(sys.modules, name, None)
    versions = {name: pydocs.versions[name] for name in ("numpy", "scipy")}
    monkeypatch.setattr(lmtune.collections.pydocs, "_versions", lambda: versions)
    with caplog.at_level("INFO"):
        smaller = load_pydocs()
    assert "pydocs has no topics from pandas: pip install -c constraints.txt '.[report]'" in caplog.text
    assert smaller.versions == versions
    assert 1000 < len(smaller.topics) < len(pydocs.topics) - 500
    assert {*smaller.topics.values()} < {*pydocs.topics.values()}
    docnos = {docno for judged in smaller.qrels.values() for docno in judged}
    assert {docno.partition(".")[0] for docno in docnos} == {*versions}


def test_documents_have_docnos_and_words_but_no_see_also(documents: dict[str, str]) -> None:
    for docno, text in documents.items():
        assert re.fullmatch(r"[A-Za-z_][\w.]+", docno)
        assert re.search(r"[A-Za-z]", text), docno
        assert not re.search(r"^\s*see also\s*\n\s*---", text, re.IGNORECASE | re.MULTILINE), docno
        assert "seealso::" not in text


def test_documents_are_docstrings_without_their_beginning(documents: dict[str, str]) -> None:
    for docno in sorted(documents)[::40]:
        found = inspect.getdoc(locate(docno)) or ""
        words = documents[docno].split()
        assert words[:10] and " ".join(words[:10]) in " ".join(found.split()), docno
        assert len(words) < len(found.split())


def test_topics_are_summaries_of_their_first_document(pydocs: Dataset) -> None:
    for topic, judged in pydocs.qrels.items():
        found = " ".join((inspect.getdoc(locate(next(iter(judged)))) or "").split())
        assert pydocs.topics[topic] in found
        # Nothing but call signatures comes before a summary.
        assert re.fullmatch(r"([\w.]+\(.*\)( -> \S+)? (-- )?)?", found.partition(pydocs.topics[topic])[0])


def test_topics_are_numbered_in_docno_order(pydocs: Dataset) -> None:
    assert list(pydocs.topics) == [str(number) for number in range(1, len(pydocs.topics) + 1)]
    own = [next(iter(judged)) for judged in pydocs.qrels.values()]
    assert own == sorted(set(own))
    assert list(pydocs.qrels) == list(pydocs.topics)


def test_relevant_documents_are_named_in_see_also(pydocs: Dataset) -> None:
    endings = {}
    for names in public_docstrings().values():
        endings[names[0]] = {name.rpartition(".")[2] for name in names}
    for judged in pydocs.qrels.values():
        own, *linked = (docno for docno, gain in judged.items() if gain == 1)
        assert len(linked) >= 2
        see_also = re.split(r"see also\n\s*---", inspect.getdoc(locate(own)) or "", flags=re.I)[1]
        words = set(re.findall(r"\w+", see_also))
        for docno in linked:
            assert endings[docno] & words, (own, docno)


def test_known_links_resolve(pydocs: Dataset) -> None:
    relevant = {}
    for judged in pydocs.qrels.values():
        own, *linked = (docno for docno, gain in judged.items() if gain == 1)
        relevant[own] = set(linked)
    assert relevant["numpy.allclose"] == {"numpy.isclose", "numpy.all", "numpy.any", "numpy.equal"}
    # The entry "prod" of the method means the function.
    assert relevant["numpy.matrix.prod"] == {"numpy.prod", "numpy.ndarray.prod"}
    assert "scipy.linalg.pinv" in relevant["numpy.linalg.pinv"]


def test_nonrelevant_documents_are_the_other_siblings(pydocs: Dataset, documents: dict[str, str]) -> None:
    for judged in list(pydocs.qrels.values())[::25]:
        own = next(iter(judged))
        parent = own.rpartition(".")[0]
        siblings = {docno for docno in documents if docno.rpartition(".")[0] == parent}
        nonrelevant = {docno for docno, gain in judged.items() if gain == 0}
        relevant = {docno for docno, gain in judged.items() if gain == 1}
        assert nonrelevant == siblings - relevant
        assert relevant | nonrelevant == set(judged) <= set(documents)


def test_no_text_or_name_depends_on_the_machine(documents: dict[str, str]) -> None:
    for docno, text in documents.items():
        assert "on this platform" not in text, docno
        assert "SCIPY_ARRAY_API" not in text, docno
        assert not re.search(r"float(96|128)|complex(192|256)", docno), docno


def test_parts_belong_together(pydocs: Dataset, documents: dict[str, str]) -> None:
    numbers = {docno: number for number, docno in enumerate(documents)}
    checked = check_dataset(
        pydocs, doc_numbers=lambda judged: np.array([numbers.get(docno, -1) for docno in judged])
    )
    assert checked == (pydocs, 0, 0)
    assert split_topics(pydocs).skipped == []


def test_files_read_back_and_are_written_only_once(pydocs: Dataset, tmp_path: Path) -> None:
    written = write_pydocs(tmp_path, pydocs)
    assert written.changed
    assert read_topics(written.topics_file) == pydocs.topics
    assert read_qrels(written.qrels_file) == pydocs.qrels
    times = [path.stat().st_mtime_ns for path in written[:2]]
    assert not write_pydocs(tmp_path, pydocs).changed
    assert [path.stat().st_mtime_ns for path in written[:2]] == times
    written.topics_file.write_text("stale")
    assert write_pydocs(tmp_path, pydocs).changed
    assert read_topics(written.topics_file) == pydocs.topics
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["qrels.pydocs.txt", "topics.pydocs.txt"]


def test_a_folder_in_the_way_is_one_line(pydocs: Dataset, tmp_path: Path) -> None:
    (tmp_path / "topics" / "topics.pydocs.txt").mkdir(parents=True)
    with pytest.raises(InputError, match=r"topics\.pydocs\.txt: cannot write"):
        write_pydocs(tmp_path, pydocs)
    assert not (tmp_path / "qrels").exists()


def test_python_without_docstrings_is_refused() -> None:
    result = run_python("import lmtune.collections.pydocs as p; p.load_pydocs()", "-OO")
    assert result.returncode == 1
    assert "accepted: Python without -OO" in result.stderr.splitlines()[-1]


def test_other_judgments_are_not_kept_as_pydocs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.txt").write_text("1 0 numpy.argsort 1\n")
    Collection("pydocs", qrels=str(tmp_path / "few.txt")).load(["topics", "qrels"])
    assert not (tmp_path / "qrels").exists()
    Collection("pydocs").load(["topics", "qrels"])
    assert (tmp_path / "qrels/qrels.pydocs.txt").exists()


def test_kept_pages_are_read_where_they_are_whole_and_of_these_versions(
    pydocs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def make() -> object:
        made.append(1)
        return pages()

    pages = lmtune.collections.pydocs._pages
    monkeypatch.setattr(lmtune.collections.pydocs, "_pages", make)
    path = tmp_path / "home" / "pydocs.pages"
    for damage in ("none yet", "none", "damaged", "other", "none"):
        if damage == "damaged":
            path.write_bytes(path.read_bytes().replace(b"numpy", b"NumPy", 1))
        elif damage == "other":
            monkeypatch.setattr("lmtune.collections.pydocs._CACHE_FORMAT", "another")
        assert load_pydocs(path.parent) == pydocs
        assert made == ([] if damage == "none" else [1])
        made.clear()
    path.unlink()
    path.mkdir()  # in the way
    assert load_pydocs(path.parent) == pydocs
