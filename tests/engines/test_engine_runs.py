"""Engines that are here rank every topic as lmtune does, asked by the files that `deploy` writes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from made_engines import write_collection
from made_lucene import require_java, require_searcher
from scripts import refusal, run_command, run_python

from lmtune import Analyzer
from lmtune.candidates.ranking import search
from lmtune.collections.collection import Collection
from lmtune.engines.catalogue import ENGINES
from lmtune.engines.checking import DEEPER, Check, check_run
from lmtune.engines.deployment import PYTHON, deploy, nearest_model
from lmtune.engines.running import IN_PYTHON, run_engine
from lmtune.errors import InputError

DATA = Path(__file__).resolve().parents[3] / "shared/data"
BM25 = "bm25", {"k1": 0.81234567890123456, "b": 1.0 / 3.0}
DIRICHLET = "two-stage", {"lambda": 0.0, "mu": 1000.0 / 3.0}
CASES = [*((engine, BM25) for engine in IN_PYTHON), ("lucene", DIRICHLET)]


def held(engine: str, tuned: tuple[str, dict[str, float]], collection: Collection) -> Check:
    """Check an engine, or skip where it is not here."""
    if engine == "lucene":
        require_searcher()
    elif engine == "pyterrier":
        pytest.skip("Terrier's jars are fetched from a network, which no test asks")
    else:
        pytest.importorskip("sqlite3" if engine == "sqlite" else engine, reason=f"{engine} is not installed")
    model, values = nearest_model(ENGINES[engine], *tuned)
    analyzer = collection.analyzer()
    dataset = collection.load(("documents", "topics"))
    try:
        run = run_engine(ENGINES[engine], deploy(ENGINES[engine], model, values, analyzer), dataset)
    except InputError as error:
        if engine == "duckdb" and "extension" in str(error).lower():
            pytest.skip("DuckDB's extension fts is not here and cannot be fetched")
        raise
    assert [*run] == [*dataset.topics]
    return check_run(run, search(collection, model, values, hits=100 + DEEPER))


@pytest.mark.first_case
@pytest.mark.parametrize(("engine", "tuned"), CASES)
@pytest.mark.parametrize("stemmer", ["porter", "none"])
def test_a_small_collection_is_ranked_as_by_lmtune(
    tmp_path: Path, engine: str, tuned: tuple[str, dict[str, float]], stemmer: str
) -> None:
    # It has an empty document, equal documents, terms with marks inside, and a query without a known word.
    collection = Collection(
        str(write_collection(tmp_path / "c")), indexes=tmp_path / "indexes", stemmer=stemmer
    )
    found = held(engine, tuned, collection)
    assert (found.is_match, found.topics, found.depth) == (True, 10, 100), str(found)
    assert "neither a constant factor" not in found.scores


@pytest.mark.first_case
@pytest.mark.parametrize(("engine", "tuned"), CASES)
@pytest.mark.parametrize(("name", "topics"), [pytest.param("cacm", 64, marks=pytest.mark.slow), ("med", 30)])
def test_every_topic_of_the_classics_is_ranked_as_by_lmtune(
    tmp_path_factory: pytest.TempPathFactory,
    engine: str,
    tuned: tuple[str, dict[str, float]],
    name: str,
    topics: int,
) -> None:
    if not (DATA / name).is_dir():
        pytest.skip(f"{name} is not beside the checkout")
    indexes = tmp_path_factory.getbasetemp() / "indexes"
    found = held(engine, tuned, Collection(str(DATA / name), indexes=indexes))
    assert (found.is_match, found.topics) == (True, topics), str(found)


def test_another_analysis_in_the_engine_is_found(tmp_path: Path) -> None:
    collection = Collection(str(write_collection(tmp_path / "c")), indexes=tmp_path / "indexes")
    dataset = collection.load(("documents", "topics"))
    files = deploy(ENGINES["sqlite"], "bm25:sqlite", ENGINES["sqlite"].fixed, Analyzer(stopwords="none"))
    run = run_engine(ENGINES["sqlite"], files, dataset)
    found = check_run(run, search(collection, "bm25:sqlite", ENGINES["sqlite"].fixed, hits=10_000))
    assert not found.is_match
    assert "in scores: another analysis, lengths or formula" in str(found)


def test_an_engine_of_fields_is_given_each_field(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "docs.jsonl").write_text(
        '{"id": "d1", "title": "bird", "contents": "the bird flu"}\n{"id": "d2", "contents": "of a tree"}\n'
    )
    (tmp_path / "c" / "topics.tsv").write_text("1\tflu\n")
    (tmp_path / "c" / "qrels.txt").write_text("1 0 d1 1\n")
    dataset = Collection(str(tmp_path / "c")).load(("documents", "topics"))
    own = "def build(given):\n    return given\n\n"
    own += "def search(given, query, hits):\n    return [(f'{n}:{t}', 1.0) for n, t in given.items()]\n"
    fields = ["title", "contents"]
    assert [*run_engine(ENGINES["pyterrier"], {PYTHON: own}, dataset, fields=fields)["1"]] == [
        "d1:{'title': 'bird', 'contents': 'the bird flu'}",
        "d2:{'title': '', 'contents': 'of a tree'}",
    ]


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    collection = Collection(str(write_collection(tmp_path / "c")))
    dataset, xapian = collection.load(("documents", "topics")), ENGINES["xapian"]
    vespa = deploy(ENGINES["vespa"], "bm25:vespa", {"k1": 1.2, "b": 0.75}, Analyzer())
    with pytest.raises(InputError, match=r"Vespa cannot be run from Python .*another of lucene, .*check-run"):
        run_engine(ENGINES["vespa"], vespa, dataset)
    with pytest.raises(
        InputError, match=r"Xapian is not installed: 'no_such'; accepted: pip install xapian-b"
    ):
        run_engine(xapian, {PYTHON: "import no_such\n"}, dataset)
    with pytest.raises(InputError, match=r"Xapian failed: division by zero; accepted: "):
        run_engine(xapian, {PYTHON: "def build(documents):\n    1 / 0\n"}, dataset)
    with pytest.raises(InputError, match="no documents to index: 'c'; accepted: a collection with documents"):
        run_engine(xapian, {PYTHON: ""}, collection.load(("topics",)))


@pytest.mark.slow
def test_a_quiet_check_says_nothing_but_its_answer(tmp_path: Path) -> None:
    require_java()
    write_collection(tmp_path / "c")
    tune = "tune c --model bm25:lucene --grid 3x3 --restarts 0 --no-approx -m AP --output kept --quiet"
    for line in (tune, "check-engine lucene kept --quiet"):
        out, err = run_python("-m", "lmtune", *line.split(), cwd=tmp_path)
        assert err == "", line
    assert out.startswith("The run matches the setting\n")


def test_the_command(tmp_path: Path) -> None:
    write_collection(tmp_path / "c")
    run = partial(run_command, cwd=tmp_path)
    tune = "tune c --model bm25 --grid 3x3 --restarts 0 --no-approx -m AP --output kept"
    run(tune)
    # SQLite fixes k1 and b: the table says what that costs, and the engine is held against that.
    out = run("check-engine sqlite kept --output parted.csv").out
    assert out.startswith("The run matches the setting\n")
    assert "\ntuned" in out
    assert (tmp_path / "parted.csv").read_text().startswith("topic,reason,rank,")
    assert "does not run here; check its run with lmtune check-run: 'vespa'; accepted: lucene, " in refusal(
        "check-engine vespa kept", cwd=tmp_path
    )
