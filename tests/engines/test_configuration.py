"""An index's settings and mappings, read as lmtune's analysis, model and setting."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_engines import write_collection

from lmtune import Analyzer
from lmtune.cli.main import app
from lmtune.engines.catalogue import ENGINES
from lmtune.engines.configuration import read_elastic, read_engine
from lmtune.engines.deployment import deploy
from lmtune.errors import InputError

BM25 = {"k1": 0.81234567890123456, "b": 1.0 / 3.0}
SETTINGS: list[tuple[str, dict[str, float]]] = [
    ("bm25:lucene", BM25),
    ("lucene-dirichlet", {"lambda": 0.0, "mu": 1000.0 / 3.0}),
    ("jelinek-mercer", {"lambda": 0.1 + 0.2, "mu": 0.0}),
]


def written(path: Path, index: Any) -> Path:
    file = path / "index.json"
    file.write_text(index if isinstance(index, str) else json.dumps(index))
    return file


@pytest.mark.parametrize("engine", ["elasticsearch", "opensearch"])
@pytest.mark.parametrize(("model", "setting"), SETTINGS)
@pytest.mark.parametrize("stemmer", ["porter", "krovetz", "none", "german", "dutch_porter"])
@pytest.mark.parametrize("stopwords", ["lucene", "none", "own"])
def test_what_was_deployed_is_read_back(
    tmp_path: Path, engine: str, model: str, setting: dict[str, float], stemmer: str, stopwords: str
) -> None:
    own = tmp_path / "words.txt"
    own.write_text("zebra\nof\n")
    given = str(own) if stopwords == "own" else stopwords
    analyzer = Analyzer(stopwords=given)
    object.__setattr__(analyzer, "stemmer", stemmer)  # its library need not be here
    file = written(tmp_path, deploy(ENGINES[engine], model, setting, analyzer)["index.json"])
    found = read_elastic(file, given if stopwords == "own" else None)
    free = {name: value for name, value in setting.items() if value}
    assert found == (model, free, stemmer, given, ())


FOLDERS = [("solr", "schema.xml", *own) for own in SETTINGS]
FOLDERS += [("vespa", "schemas/documents.sd", "bm25:vespa", BM25)]


def written_files(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize(("engine", "file", "model", "setting"), FOLDERS)
@pytest.mark.parametrize("stemmer", ["porter", "krovetz", "none", "german", "dutch_porter"])
@pytest.mark.parametrize("stopwords", ["lucene", "none", "own"])
def test_files_of_solr_and_vespa_are_read_back(
    tmp_path: Path,
    engine: str,
    file: str,
    model: str,
    setting: dict[str, float],
    stemmer: str,
    stopwords: str,
) -> None:
    own = tmp_path / "words.txt"
    own.write_text("zebra\nof\n")
    given = str(own) if stopwords == "own" else stopwords
    analyzer = Analyzer(stopwords=given)
    object.__setattr__(analyzer, "stemmer", stemmer)  # its library need not be here
    written_files(tmp_path, deploy(ENGINES[engine], model, setting, analyzer))
    free = {name: value for name, value in setting.items() if value}
    found = read_engine(tmp_path / file, given if stopwords == "own" else None)
    assert found == (model, free, stemmer, given, ())


def test_names_and_usual_values_of_solr_and_vespa_are_known(tmp_path: Path) -> None:
    """Solr has filters by Lucene's names too, in any case; what is not said is what the engine has."""
    files = deploy(ENGINES["solr"], "bm25:lucene", BM25, Analyzer(stemmer="porter"))
    for name, kind in (("PorterStem", "Filter"), ("LowerCase", "Filter"), ("Standard", "Tokenizer")):
        shape = f'class="solr.{name}{kind}Factory"'
        assert shape in files["schema.xml"]
        files["schema.xml"] = files["schema.xml"].replace(shape, f'name="{name.lower()}"')
    written_files(tmp_path, files)
    assert read_engine(tmp_path / "schema.xml") == ("bm25:lucene", BM25, "porter", "lucene", ())
    files = deploy(ENGINES["vespa"], "bm25:vespa", BM25, Analyzer(stemmer="porter"))
    lines = files["schemas/documents.sd"].splitlines()
    without = [line for line in lines if "bm25(contents)." not in line]
    assert len(without) == len(lines) - 2
    other = [
        "rank-profile other {",
        "  first-phase { expression: nativeRank(contents) } # bm25(contents)",
        "}",
    ]
    files["schemas/documents.sd"] = "\n".join([*other, *without, *other])
    written_files(tmp_path, files)
    usual = {"k1": 1.2, "b": 0.75}
    found = read_engine(tmp_path / "schemas/documents.sd")
    assert found == ("bm25:vespa", usual, "porter", "lucene", ())


SCHEMA, SERVICES = "schemas/documents.sd", "services.xml"


@pytest.mark.parametrize(
    ("engine", "file", "old", "new", "said"),
    [
        ("solr", "schema.xml", "<schema", "<<", "no index's configuration; accepted: a schema of Solr"),
        ("solr", "schema.xml", "solr.TextField", "solr.StrField", "no index's configuration"),
        ("solr", "schema.xml", "solr.LowerCase", "solr.ASCIIFolding", "lmtune does not have: 'ASCIIFolding'"),
        ("solr", "schema.xml", "solr.StandardTok", "solr.WhitespaceTok", "tokenizer .* 'whitespace'"),
        ("solr", "schema.xml", "solr.BM25", "solr.DFR", "a similarity that lmtune does not have: 'DFR'"),
        (
            "vespa",
            SCHEMA,
            ": bm25(contents)",
            ": nativeRank",
            r"first phase is bm25\(FIELD\): \['nativeRank'\]",
        ),
        ("vespa", SCHEMA, "rank-profile", "profile", r"documents.sd: not one rank-profile .*: \[\]"),
        ("vespa", SCHEMA, ".b: 0.", ".b: half", "bad b: 'half3333"),
        ("vespa", SERVICES, "com.yahoo", "mine", r"services.xml: not one language's analysis of com\.yahoo"),
        ("vespa", SERVICES, "<services", "<<", "services.xml: not one language's analysis"),
        ("vespa", SERVICES, '<item key="en">', '<item key="de"/><item>', r"analysis of .*: \['de', None\]"),
        (
            "vespa",
            SERVICES,
            ">lowercase<",
            ">asciiFolding<",
            "lmtune does not have: 'asciiFolding'; accepted: lower",
        ),
        (
            "vespa",
            SERVICES,
            ">standard<",
            ">whitespace<",
            "a tokenizer that lmtune does not have: 'whitespace'",
        ),
    ],
)
def test_files_that_are_not_understood_are_refused(
    tmp_path: Path, engine: str, file: str, old: str, new: str, said: str
) -> None:
    files = deploy(ENGINES[engine], f"bm25:{'vespa' if engine == 'vespa' else 'lucene'}", BM25, Analyzer())
    assert old in files[file]
    files[file] = files[file].replace(old, new)
    written_files(tmp_path, files)
    with pytest.raises(InputError, match=said):
        read_engine(tmp_path / ("schema.xml" if engine == "solr" else SCHEMA))


def test_what_elasticsearch_answers_is_read(tmp_path: Path) -> None:
    """GET /INDEX has the index's name around, another level, and numbers as text."""
    analysis = {"analyzer": {"mine": {"type": "standard", "stopwords": "_english_"}}}
    settings = {"index": {"analysis": analysis, "similarity": {"default": {"type": "BM25", "b": "0.3"}}}}
    field = {"type": "text", "analyzer": "mine"}
    mappings = {"properties": {"body": field, "id": {"type": "keyword"}}}
    index = {"news": {"aliases": {}, "mappings": mappings, "settings": settings}}
    found = read_elastic(written(tmp_path, index))
    assert found[:4] == ("bm25:lucene", {"k1": 1.2, "b": 0.3}, "none", "lucene")
    assert found.notes == ("its terms keep possessives ('s), lmtune's do not",)
    # Nothing said is Elasticsearch's usual: the analyzer standard, BM25 with 1.2 and .75.
    found = read_elastic(written(tmp_path, {"mappings": {"properties": {"body": {"type": "text"}}}}))
    assert found[:4] == ("bm25:lucene", {"k1": 1.2, "b": 0.75}, "none", "none")
    english = {"mappings": {"properties": {"body": {"type": "text", "analyzer": "english"}}}}
    assert read_elastic(written(tmp_path, english))[2:] == ("porter", "lucene", ())


def chain(*filters: str, **analyzer: Any) -> dict[str, Any]:
    own = {"type": "custom", "tokenizer": "standard", "filter": filters, **analyzer}
    field = {"type": "text", "analyzer": "mine"}
    return {
        "settings": {"analysis": {"analyzer": {"mine": own}}},
        "mappings": {"properties": {"body": field}},
    }


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (chain(["lowercase"]), "no index's configuration"),  # type: ignore[arg-type]
        ([], "no index's configuration; accepted: settings and mappings"),
        ({"settings": {}}, "no index's configuration"),
        ({"settings": [], "mappings": {"properties": {}}}, "no index's configuration"),
        ({"mappings": {"properties": {}}}, r"not one field of text: \[\]; accepted: mappings of one"),
        (
            chain("lowercase", "asciifolding"),
            "a filter that lmtune does not have: 'asciifolding'; accepted: low",
        ),
        (chain("lowercase", "porter_stem", "stop"), r"order of filters: .*; accepted: lowercase and "),
        (chain("lowercase", "kstem", "porter_stem"), "order of filters"),
        (chain("lowercase", tokenizer="whitespace"), "tokenizer that lmtune does not have: 'wh"),
        (
            {"mappings": {"properties": {"body": {"type": "text", "similarity": "boolean"}}}},
            "similarity that lmtune does not have: 'boolean'; accepted: BM25, LMDirichlet",
        ),
        (
            {
                "settings": {"similarity": {"default": {"type": "BM25", "k1": "high"}}},
                "mappings": {"properties": {"body": {"type": "text"}}},
            },
            "bad k1: 'high'; accepted: a number",
        ),
        (
            chain("lowercase", type="standard", stopwords=["zebra"]),
            r"of its own: \['zebra'\]; accepted: --stopw",
        ),
    ],
)
def test_what_lmtune_does_not_have_is_refused(tmp_path: Path, index: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_elastic(written(tmp_path, index))


def test_tuning_starts_from_an_engine(tmp_path: Path) -> None:
    write_collection(tmp_path / "c")
    files = deploy(ENGINES["elasticsearch"], "bm25:lucene", BM25, Analyzer(stemmer="none"))
    written(tmp_path, files["index.json"])

    def run(line: str) -> tuple[int, str, str]:
        with contextlib.chdir(tmp_path):
            done = CliRunner().invoke(app, line.split())
        return done.exit_code, done.stdout, done.stderr

    tune = "tune c --grid 3x3 --restarts 0 --no-approx -m AP --from-engine index.json"
    code, out, err = run(f"{tune} --output kept --model bm25:lucene")
    assert code == 0, err
    assert "the default k1 = .812, b = .333" in out
    record = json.loads((tmp_path / "kept/made.json").read_text())
    assert record["plan"]["model"] == "bm25:lucene"
    assert record["collections"][0]["analysis"] == {"stemmer": "none", "stopwords": "lucene"}
    # And round again: deployed, an equal analysis.
    assert run("deploy kept --to elasticsearch --output again")[0] == 0
    assert read_elastic(tmp_path / "again/index.json")[2:] == ("none", "lucene", ())
    for more, said in (
        ("--model bm25", "--model beside --from-engine: 'bm25'; accepted: no --model: it has bm25:lucene"),
        ("--stemmer porter", "--stemmer beside --from-engine: 'porter'; accepted: no --stemmer: it has none"),
        ("--baseline k1=1,b=1", "--baseline beside --from-engine"),
    ):
        code, out, err = run(f"{tune} {more}")
        assert (code, out) == (2, ""), more
        assert said in err.splitlines()[-1]
