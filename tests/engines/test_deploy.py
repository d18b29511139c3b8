"""Deployed settings: what the files hold, what is refused, and that engines rank as lmtune does."""

from __future__ import annotations

import ast
import json
import re
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from made_engines import write_collection
from made_lucene import require_java
from scripts import refusal, run_command

from lmtune import Analyzer, evaluate
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import search
from lmtune.collections.collection import Collection
from lmtune.engines import writers
from lmtune.engines.catalogue import ENGINES
from lmtune.engines.checking import cut
from lmtune.engines.cost import fit_nearest
from lmtune.engines.deployment import README, Names, deploy, nearest_model, supports_setting
from lmtune.errors import InputError
from lmtune.index.analysis import LUCENE_ENGLISH, load_stemmer
from lmtune.index.cache import index_for
from lmtune.index.lucene import java
from lmtune.index.protocol import Index, field_index
from lmtune.io.file_documents import FileDocuments
from lmtune.measures.from_files import topic_values
from lmtune.tuning.experiment.stored import FinalSetting, read_results

FIELDS = ["title", "contents"]
FIXED = {"k1": 1.2, "b": 0.75}
BM25 = {"k1": 0.81234567890123456, "b": 1.0 / 3.0}
SETTINGS = {
    "bm25": ("bm25", BM25),
    "dirichlet": ("two-stage", {"lambda": 0.0, "mu": 1000.0 / 3.0}),
    "jelinek-mercer": ("jelinek-mercer", {"lambda": 0.1 + 0.2, "mu": 0.0}),
    "bm25-fields": (
        "bm25-fields:title,contents",
        {"w_title": 1.0 / 3.0, "w_contents": 2.0 / 3.0, "b_title": 0.125, "b_contents": 0.7, "k1": 1.0 / 7.0},
    ),
}
SETTINGS["bm25f"] = "bm25f:title,contents", SETTINGS["bm25-fields"][1]
PAIRS = [(engine, formula) for engine, own in ENGINES.items() for formula in own.formulas]


def files_of(engine: str, formula: str, **analysis: Any) -> tuple[dict[str, str], dict[str, float]]:
    model, setting = SETTINGS[formula]
    setting = dict(ENGINES[engine].fixed) or setting
    return deploy(ENGINES[engine], model, setting, Analyzer(**analysis)), setting


def check_readable(files: dict[str, str]) -> None:
    for name, text in files.items():
        match Path(name).suffix:
            case ".json":
                json.loads(text)
            case ".xml":
                ElementTree.fromstring(text.encode())
            case ".py":
                compile(text, name, "exec")
            case other:
                assert other in (".txt", ".sh", ".sd"), name
        assert text.endswith("\n")


@pytest.mark.parametrize(("engine", "formula"), PAIRS)
@pytest.mark.parametrize("stemmer", ["porter", "none"])
def test_files_are_readable_and_exact(engine: str, formula: str, stemmer: str, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("don't\nzebra\n")
    for stopwords in ("lucene", "none", str(tmp_path / "words.txt")):
        files, setting = files_of(engine, formula, stemmer=stemmer, stopwords=stopwords)
        check_readable(files)
        whole = "\n".join(text for name, text in files.items() if name != README)
        numbers = {float(text) for text in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?\b", whole)}
        free = {name: value for name, value in setting.items() if value != 0.0}
        assert numbers >= set(free.values())
        for name, value in free.items():
            assert f"{name} = {value!r}" in files[README]
        assert ("zebra" in whole) == (stopwords not in ("lucene", "none")), whole


@pytest.mark.parametrize("engine", [name for name, own in ENGINES.items() if own.is_named])
def test_index_and_field_have_the_names_that_are_given(engine: str) -> None:
    names = Names("news", "body")
    files = deploy(ENGINES[engine], *SETTINGS["bm25"], Analyzer(), names)
    check_readable(files)
    assert "The field body must have the text that was tuned on. JSON lines: contents, or" in files[README]
    whole = "\n".join(f"{name}\n{text}" for name, text in files.items() if name != README)
    usual = deploy(ENGINES[engine], *SETTINGS["bm25"], Analyzer())
    before = "\n".join(f"{name}\n{text}" for name, text in usual.items() if name != README)
    assert len(re.findall(r"(?<!with-)\bbody\b", whole)) == len(re.findall(r"\bcontents\b", before)) >= 2
    assert not re.findall(r"\bcontents\b", whole)
    assert len(re.findall(r"\bnews\b", whole)) >= 1
    with pytest.raises(InputError, match="have no such name: 'body'; accepted: no --field-name"):
        deploy(ENGINES["solr"], *SETTINGS["bm25-fields"], Analyzer(), names)
    for other in ("lucene", "bm25s", "sqlite"):
        setting = FIXED if ENGINES[other].fixed else BM25
        with pytest.raises(InputError, match="'news'; accepted: no --index-name"):
            deploy(ENGINES[other], "bm25", setting, Analyzer(), names)
    for index, field, said in (
        ("News", "body", "lower-case letters"),
        ("news", 'a"', "letters, digits and _"),
    ):
        with pytest.raises(InputError, match=said):
            Names(index, field)


def test_elasticsearch_has_the_tuned_similarity_and_chain(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("zebra\naß\n")
    files, _ = files_of("elasticsearch", "bm25", stemmer="none", stopwords=str(tmp_path / "words.txt"))
    settings = json.loads(files["index.json"])["settings"]
    assert settings["similarity"]["tuned"] == {"type": "BM25", **BM25}
    assert settings["analysis"]["filter"]["stopwords"]["stopwords"] == ["aß", "zebra"]
    assert settings["analysis"]["analyzer"]["tuned"]["filter"] == ["possessive", "lowercase", "stopwords"]
    for formula, kind in (("dirichlet", "LMDirichlet"), ("jelinek-mercer", "LMJelinekMercer")):
        files, setting = files_of("opensearch", formula, stopwords="none")
        settings = json.loads(files["index.json"])["settings"]
        assert settings["similarity"]["tuned"] == {"type": kind} | {n: v for n, v in setting.items() if v}
        chain = settings["analysis"]["analyzer"]["tuned"]["filter"]
        assert chain == ["possessive", "lowercase", "porter_stem"]


def made_of_fields(folder: Path) -> tuple[Index, list[dict[str, str]]]:
    """Return an index of sixty documents of two fields, and them."""
    rng, words = np.random.default_rng(0), [f"w{n}" for n in range(12)]
    lines = [
        {"id": f"d{n}", "title": " ".join(rng.choice(words, 3)), "contents": " ".join(rng.choice(words, 20))}
        for n in range(60)
    ]
    (folder / "made.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    documents = FileDocuments("made", [folder / "made.jsonl"])
    return index_for(documents, Analyzer(), home=folder, fields=FIELDS), lines


def test_elasticsearchs_query_of_fields_ranks_as_tuned(tmp_path: Path) -> None:
    """Its files are read as its manual says: each field by its own similarity, boosted, added up."""
    index, _ = made_of_fields(tmp_path)
    topics = {"1": "w1 w2 w2", "2": "w3 w4 w5"}
    files, setting = files_of("elasticsearch", "bm25-fields")
    made, query = json.loads(files["index.json"]), json.loads(files["query.json"])["query"]["multi_match"]
    assert (query["type"], query["operator"]) == ("most_fields", "or")
    scores = {topic: dict.fromkeys(range(60), 0.0) for topic in topics}
    for boosted in query["fields"]:
        field, boost = boosted.split("^")
        own = made["mappings"]["properties"][field]
        similarity = made["settings"]["similarity"][own["similarity"]]
        assert (own["analyzer"], similarity.pop("type")) == ("tuned", "BM25")
        pool = CandidatePool.build(field_index(index, field), topics, model="bm25")
        for t, topic in enumerate(topics):
            docs = pool.candidates.doc[pool.candidates.rows(t)]
            vector = np.array([similarity["k1"], similarity["b"]])
            found, _ = pool.formula.differentiate(pool.topic_documents(t, np.arange(docs.size)), vector)
            for doc, score in zip(docs.tolist(), found.tolist(), strict=True):
                scores[topic][doc] += float(boost) * score
    tuned = CandidatePool.build(index, topics, model=SETTINGS["bm25-fields"][0])
    for t, topic in enumerate(topics):
        docs = tuned.candidates.doc[tuned.candidates.rows(t)]
        documents_of_topic = tuned.topic_documents(t, np.arange(docs.size))
        wanted, _ = tuned.formula.differentiate(documents_of_topic, np.array([*setting.values()]))
        np.testing.assert_allclose([scores[topic][doc] for doc in docs.tolist()], wanted, rtol=1e-12)


def test_solrs_query_of_fields_ranks_as_tuned(tmp_path: Path) -> None:
    """Lucene's parser, which Solr's is, makes the query of the boosts in the file, and scores each field."""
    require_java()
    index, lines = made_of_fields(tmp_path)
    files, setting = files_of("solr", "bm25-fields")
    (asked,) = re.findall(r'"qf=([^"]+)"', files["query.sh"])
    boosts = {name: float(boost) for name, _, boost in (own.partition("^") for own in asked.split())}
    schema = ElementTree.fromstring(files["schema.xml"].encode())
    tuned = CandidatePool.build(index, {"1": "w3 w4 w5 w5"}, model=SETTINGS["bm25-fields"][0])
    docs = tuned.candidates.doc
    given = tuned.topic_documents(0, np.arange(docs.size))
    wanted, _ = tuned.formula.differentiate(given, np.array([*setting.values()]))
    searched = LuceneFields(lines, boosts)
    each = [searched.query("w3 w4 w5 w5", {name: boosts[name]}).toString() for name in sorted(boosts)]
    assert searched.query("w3 w4 w5 w5", boosts).toString() == " ".join(each)
    assert each[0].startswith("(contents:w3 contents:w4 contents:w5 contents:w5)^0.6")
    found = np.zeros(60)
    for name in boosts:
        kind = schema.find(f"field[@name='{name}']")
        assert kind is not None
        own = schema.find(f"fieldType[@name='{kind.get('type')}']/similarity")
        assert own is not None
        assert own.get("class") == "solr.BM25SimilarityFactory"
        values = {one.get("name"): float(one.text or "") for one in own}
        found += searched.scores(name, "w3 w4 w5 w5", values["k1"], values["b"])
    np.testing.assert_allclose(found[docs], wanted, rtol=1e-5)


class LuceneFields:
    """A Lucene index in memory, of documents of several fields."""

    def __init__(self, lines: list[dict[str, str]], boosts: dict[str, float]) -> None:
        self.jnius, self.boosts = java.start(), boosts
        self.analyzer = self.made("analysis.core.WhitespaceAnalyzer")
        place = self.made("store.ByteBuffersDirectory")
        writer = self.made("index.IndexWriter", place, self.made("index.IndexWriterConfig", self.analyzer))
        kept = self.jnius.autoclass("org.apache.lucene.document.Field$Store").NO
        for line in lines:
            document = self.made("document.Document")
            for name in boosts:
                document.add(self.made("document.TextField", name, line[name], kept))
            writer.addDocument(document)
        writer.close()
        reader = self.jnius.autoclass("org.apache.lucene.index.DirectoryReader").open(place)
        self.reader = self.jnius.cast("org.apache.lucene.index.IndexReader", reader)

    def made(self, name: str, *given: Any) -> Any:
        return self.jnius.autoclass(f"org.apache.lucene.{name}")(*given)

    def query(self, words: str, boosts: dict[str, float]) -> Any:
        weights, real = self.jnius.autoclass("java.util.HashMap")(), self.jnius.autoclass("java.lang.Float")
        for name, boost in boosts.items():
            weights.put(name, real(boost))
        return self.made("queryparser.simple.SimpleQueryParser", self.analyzer, weights, 0).parse(words)

    def scores(self, field: str, words: str, k1: float, b: float) -> Any:
        searcher = self.made("search.IndexSearcher", self.reader)
        searcher.setSimilarity(self.made("search.similarities.BM25Similarity", k1, b))
        scores = np.zeros(self.reader.numDocs())
        for hit in searcher.search(self.query(words, {field: self.boosts[field]}), scores.size).scoreDocs:
            scores[hit.doc] = hit.score
        return scores


def test_terriers_bm25f_is_the_tuned_one_but_for_idf(tmp_path: Path) -> None:
    """Its files are read as Terrier has it: k1 = 1.2, fields normalised by b = c, then weighted by w."""
    index, lines = made_of_fields(tmp_path)
    files, setting = files_of("pyterrier", "bm25f")
    tree = {
        node.targets[0].id: ast.unparse(node.value)
        for node in ast.parse(files["search.py"]).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    controls = eval(tree["CONTROLS"], {"K1": float(tree["K1"])})
    fields = ast.literal_eval(tree["FIELDS"])
    terms = [{name: line[name].split() for name in fields} for line in lines]
    means = [np.mean([len(own[name]) for own in terms]) for name in fields]
    for word in ("w1", "w5", "w11"):
        pool = CandidatePool.build(index, {"1": word}, model=SETTINGS["bm25f"][0])
        docs = pool.candidates.doc[pool.candidates.rows(0)]
        ours, _ = pool.formula.differentiate(
            pool.topic_documents(0, np.arange(docs.size)), np.array([*setting.values()])
        )
        theirs = []
        for doc in docs.tolist():
            tf = 0.0
            for n, name in enumerate(fields):
                own, c = terms[doc][name], controls[f"c.{n}"]
                tf += controls[f"w.{n}"] * own.count(word) / (1.0 - c + c * len(own) / means[n])
            theirs.append(2.2 * tf / (1.2 + tf))
        df = max(sum(word in own[name] for own in terms) for name in fields)
        idf = np.log1p((60 - df + 0.5) / (df + 0.5))
        np.testing.assert_allclose(ours / idf, np.array(theirs) / 2.2, rtol=1e-12)
    assert "df the documents with the term in any field" in files[README]


def test_bm25f_is_refused_elsewhere_with_the_nearest() -> None:
    model, setting = SETTINGS["bm25f"]
    for engine, alike in (("solr", "bm25-fields:title,contents"), ("vespa", "bm25:vespa")):
        with pytest.raises(
            InputError, match=f"cannot express bm25f:title,contents.*--model {alike}, the nea"
        ):
            deploy(ENGINES[engine], model, setting, Analyzer())
    assert nearest_model(ENGINES["elasticsearch"], model, setting) == ("bm25-fields:title,contents", setting)
    assert nearest_model(ENGINES["pyterrier"], model, setting) == (model, setting)


def test_solr_has_the_tuned_similarity_and_chain() -> None:
    files, _ = files_of("solr", "bm25")
    kind = ElementTree.fromstring(files["schema.xml"].encode()).find("fieldType[@name='tuned']")
    assert kind is not None
    assert [one.get("class") for one in kind.findall("analyzer/filter")] == [
        f"solr.{name}FilterFactory" for name in ("EnglishPossessive", "LowerCase", "Stop", "PorterStem")
    ]
    assert {one.get("name"): float(one.text or "") for one in kind.findall("similarity/float")} == BM25
    assert set(files["stopwords.txt"].split()) == LUCENE_ENGLISH


@pytest.mark.parametrize("engine", ENGINES)
def test_what_no_engine_has_is_refused_with_the_nearest(engine: str) -> None:
    for model, setting in (
        ("two-stage", {"lambda": 0.4, "mu": 1000.0}),
        ("sdm", {"lambda": 0.0, "mu": 1000.0}),
        ("bm25+rm3", BM25),
    ):
        with pytest.raises(InputError, match=f"cannot express {re.escape(model)}.*--model .*nearest"):
            deploy(ENGINES[engine], model, setting, Analyzer())


def test_the_nearest_is_what_the_engine_computes() -> None:
    nearest = {name: engine.models[0] for name, engine in ENGINES.items()}
    assert nearest == {
        **dict.fromkeys(("elasticsearch", "opensearch", "solr", "lucene"), "lucene-dirichlet"),
        "pyterrier": "dirichlet",
        **{name: f"bm25:{name}" for name in ("vespa", "bm25s", "duckdb", "sqlite", "tantivy", "xapian")},
    }


@pytest.mark.parametrize("engine", ["sqlite", "tantivy"])
def test_fixed_parameters_are_refused_with_what_they_are(engine: str) -> None:
    with pytest.raises(InputError, match=r"has k1 = 1\.2 and b = 0\.75 fixed: {'k1': 0\.8"):
        deploy(ENGINES[engine], "bm25", {"k1": 0.8, "b": 0.75}, Analyzer())


def test_a_stemmer_that_a_chain_lacks_is_refused() -> None:
    with pytest.raises(InputError, match=r"yiddish.*porter, krovetz, none"):
        files_of("vespa", "bm25", stemmer="yiddish")
    with pytest.raises(InputError, match=r"german.*porter, krovetz, none$"):
        files_of("lucene", "bm25", stemmer="german")
    files, _ = files_of("bm25s", "bm25", stemmer="german")
    assert "'stemmer': 'german'" in files["search.py"]


# Words that are inflected, of which Snowball's version now and Lucene's have the same stems.
WORDS = {
    "arabic": "المدارس والكتاب يكتبون",
    "catalan": "informacions ciutats treballaven",
    "danish": "husene bilerne arbejdede",
    "dutch_porter": "voor huizen fietsen gelopen",
    "english": "running nationality happily relational stemmed",
    "finnish": "taloissa kirjoja kaupungeista",
    "french": "nationales continuellement mangerions chevaux",
    "german": "häuser laufenden schönheiten aufeinander",
    "hungarian": "házakban könyveket városokból",
    "italian": "nazionali parlavano velocemente",
    "lithuanian": "namuose knygomis miestams",
    "norwegian": "husene bilene arbeidet",
    "portuguese": "informações casas trabalhavam",
    "romanian": "casele frumoase lucrează",
    "russian": "домами книгами работали",
    "spanish": "naciones hablaban rápidamente",
    "swedish": "husen bilarna arbetade",
    "turkish": "evlerde kitapları şehirlerden",
}


def test_lucenes_snowball_stems_as_lmtunes_does() -> None:
    require_java()
    jnius = java.start()
    assert WORDS.keys() == writers.SNOWBALL.keys()
    for name, words in WORDS.items():
        own = jnius.autoclass(f"org.tartarus.snowball.ext.{writers.SNOWBALL[name]}Stemmer")()
        for word in words.split():
            own.setCurrent([*word], len(word))
            own.stem()
            assert own.getCurrent() == load_stemmer(name)(word), (name, word)


@pytest.mark.parametrize("engine", ["elasticsearch", "solr", "vespa"])
def test_other_languages_stemmers_are_lucenes(engine: str) -> None:
    files, _ = files_of(engine, "bm25", stemmer="swedish")
    assert "Swedish" in "".join(files.values())
    assert "1.5% of the 30,000 most frequent words have another stem" in files[README]
    check_readable(files)
    assert "Snowball" not in files_of(engine, "bm25", stemmer="turkish")[0][README]


def test_the_readme_says_where_the_formula_differs_from_what_was_tuned() -> None:
    def said(engine: str, model: str) -> str:
        return deploy(ENGINES[engine], model, BM25, Analyzer())[README]

    assert "The engine computes --model bm25:lucene; tune that" in said("solr", "bm25")
    assert "it stores each length in a byte" in said("solr", "bm25")
    for engine, model in (("solr", "lucene-bm25"), ("lucene", "bm25:lucene"), ("vespa", "bm25:vespa")):
        assert "The formula is exact" in said(engine, model)
        assert "byte" not in said(engine, model)
    assert "it has exact lengths" in said("vespa", "lucene-bm25")
    assert "repeated query terms count once" in said("duckdb", "bm25")
    assert "its idf is log((N - df + 0.5) / (df + 0.5))\n" in said("pyterrier", "bm25")


def test_what_no_engine_computes_of_bm25_is_refused() -> None:
    for model in ("bm25:plus", "bm25:l", "bm25:atire+rm3"):
        with pytest.raises(InputError, match=f"Vespa cannot express {re.escape(model)}.*--model bm25:vespa"):
            deploy(ENGINES["vespa"], model, BM25, Analyzer())


@pytest.mark.parametrize("engine", [name for name, own in ENGINES.items() if own.stemmers])
def test_the_remark_on_krovetz_is_for_krovetz_alone(engine: str) -> None:
    for stemmer in ("porter", "krovetz"):
        analyzer = Analyzer()
        object.__setattr__(analyzer, "stemmer", stemmer)  # its library need not be here
        readme = deploy(ENGINES[engine], "bm25", BM25, analyzer)[README]
        assert ("KStem and" in readme) == (stemmer == "krovetz")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a small collection."""
    return write_collection(tmp_path_factory.mktemp("home") / "c").parent


def test_the_command_writes_what_was_tuned(home: Path) -> None:
    run = partial(run_command, cwd=home)
    tune = "tune c --model bm25 --stemmer none --grid 3x3 --restarts 0 --no-approx -m AP -m P@5 --output kept"
    run(tune)
    final = {
        (row["measure"], row["method"]): row["final"]
        for row in json.loads((home / "kept/table.json").read_text())
    }
    out, err = run("deploy kept --to elasticsearch --output made --measure P@5 --method ranknet")
    assert out == "", err
    index = json.loads((home / "made/index.json").read_text())["settings"]
    assert index["similarity"]["tuned"] == {"type": "BM25", **final["P@5", "RankNet"]["params"]}
    assert "porter_stem" not in index["analysis"]["analyzer"]["tuned"]["filter"]
    check_readable({path.name: path.read_text() for path in (home / "made").iterdir()})
    run("deploy kept --to solr --output made")  # its own folder is replaced
    made = ["README.txt", "made.json", "query.sh", "schema.xml", "stopwords.txt"]
    assert sorted(path.name for path in (home / "made").iterdir()) == made
    out = run("deploy kept --to opensearch --index-name news-1 --field-name body").out
    assert '"$URL/news-1/_search"' in out and '"body": {' in out and 'contents"' not in out
    out = run("deploy kept --to bm25s").out
    assert out.startswith("--- README.txt\n")
    recommended = {
        row["measure"]: row["setting"]
        for row in json.loads((home / "kept/table.json").read_text())
        if row["recommended"]
    }
    assert f"K1 = {recommended['AP']['k1']!r}" in out
    for line, said in (
        ("deploy kept --to nothing", "accepted: elasticsearch, opensearch"),
        ("deploy kept", "--to"),
        ("deploy c --to solr", "lmtune tune --output"),
        ("deploy kept --to solr --output kept", "would replace"),
    ):
        assert said in refusal(line, cwd=home), line
    # What it cannot express is refused below what the nearest costs, measured on the same topics.
    out, err = run("deploy kept --to sqlite --output no --measure P@5", status=2)
    assert "has k1 = 1.2 and b = 0.75 fixed" in err.splitlines()[-1]
    assert not (home / "no").exists()
    assert out.startswith(
        "Nearest setting for SQLite (FTS5)\n\n  Setting   bm25:sqlite with k1 = 1.2, b = 0.75\n"
    )
    means = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line[:5] in ("tuned", "neare")}
    for system, how in (
        ("tuned", "--from kept --measure P@5"),
        ("nearest", "--stemmer none --model bm25:sqlite --set k1=1.2 --set b=0.75"),
    ):
        run(f"search c {how} --output {system}.run")
        evaluated = evaluate(home / "c/qrels.txt", home / f"{system}.run", ["P@5", "AP"])
        expected = evaluated.to_numpy()[0].tolist()
        assert means[system][:2] == [f"{value:.4f}" for value in expected]
    (home / "c").rename(home / "away")
    out, err = run("deploy kept --to sqlite", status=2)
    (home / "away").rename(home / "c")
    assert out == ""
    assert "cannot compare the nearest setting" in err
    assert "fixed" in err.splitlines()[-1]


def test_what_the_nearest_stemmer_costs_is_measured_held_out(home: Path) -> None:
    run = partial(run_command, cwd=home)
    tune = "tune c --model bm25:lucene --stemmer english --grid 3x3 --restarts 0 --no-approx -m AP --folds 2"
    run(f"{tune} --output english")
    out, err = run("deploy english --to lucene --output no", status=2)
    assert "no known filter for this stemmer: 'english'; accepted: results of lmtune tune --ste" in err
    assert not (home / "no").exists()
    means = {line.split()[0]: line.split()[1] for line in out.splitlines() if line[:5] in ("tuned", "neare")}
    result = read_results(home / "english").results[0]
    row = result.recommended
    assert row is not None
    assert means["tuned"] == f"{row.mean:.4f}"
    chosen: list[str] = []
    values: dict[str, float] = {}
    qrels = home / "c/qrels.txt"
    for fold, fit in zip(result.folds, row.fits, strict=True):
        found = {}
        for stemmer in ("porter", "none"):
            own = Collection(str(home / "c"), indexes=home / "indexes", stemmer=stemmer)
            found[stemmer] = topic_values(
                qrels, cut(search(own, "bm25:lucene", fit.params).rankings, 1000), "AP"
            )
        best = max(found, key=lambda name: found[name]["AP"].loc[[*fold.train]].mean())
        chosen.append(best)
        values |= {topic: found[best]["AP"].loc[topic] for topic in fold.test}
    assert means["nearest"] == f"{np.mean([*values.values()]):.4f}"
    for name in {*chosen}:
        assert f"{name} in {chosen.count(name)} fold" in out.splitlines()[2]


def test_the_nearest_of_another_formula_is_climbed_to(home: Path) -> None:
    collection = Collection(str(home / "c"), stemmer="none")
    tuned = FinalSetting("two-stage", {"lambda": 0.5, "mu": 700.0}, collection)
    for engine, model, given in (
        ("lucene", "lucene-dirichlet", {"lambda": 0.0, "mu": 700.0}),
        ("xapian", "bm25:xapian", {"k1": 0.9, "b": 0.4}),
        ("tantivy", "bm25:tantivy", FIXED),
    ):
        assert nearest_model(ENGINES[engine], tuned.model, tuned.values) == (model, given)
        found = fit_nearest(ENGINES[engine], tuned, "AP")
        assert found.model == model
        assert supports_setting(ENGINES[engine], found.model, found.values)
        means = {}
        for label, values in (("given", given), ("found", found.values)):
            own = cut(search(collection, model, values).rankings, 1000)
            means[label] = evaluate(home / "c/qrels.txt", {label: own}, ["AP"])["AP"].item()
        assert means["found"] >= means["given"] - 1e-12
    assert nearest_model(ENGINES["lucene"], "bm25:plus", BM25) == ("bm25:lucene", BM25)
