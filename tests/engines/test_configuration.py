"""An index's settings and mappings, read as lmtune's analysis, model and setting."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from made_engines import write_collection
from scripts import refusal, run_command

from lmtune import Analyzer
from lmtune.engines.catalogue import ENGINES, read_engine
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
    found = read_engine(file, given if stopwords == "own" else None)
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
    other = "rank-profile other { first-phase { expression: nativeRank(contents) } } # bm25(contents)\n"
    files["schemas/documents.sd"] = "\n".join(without).replace(
        "rank-profile tuned", f"{other}rank-profile tuned"
    )
    written_files(tmp_path, files)
    usual = {"k1": 1.2, "b": 0.75}
    found = read_engine(tmp_path / "schemas/documents.sd")
    assert found == ("bm25:vespa", usual, "porter", "lucene", ())


SCHEMA, SERVICES = "schemas/documents.sd", "services.xml"


@pytest.mark.parametrize(
    ("engine", "file", "old", "new", "said"),
    [
        ("solr", "schema.xml", "<schema", "<<", r"schema.xml:\d+: not XML: .*; accepted: XML"),
        ("solr", "schema.xml", "solr.TextField", "solr.StrField", "not an index configuration"),
        ("solr", "schema.xml", "solr.LowerCase", "solr.ASCIIFolding", "unsupported filter: 'ASCIIFolding'"),
        ("solr", "schema.xml", "solr.StandardTok", "solr.WhitespaceTok", "tokenizer: 'whitespace'"),
        ("solr", "schema.xml", "solr.BM25", "solr.DFR", "unsupported similarity: 'DFR'"),
        ("vespa", SCHEMA, ": bm25(contents)", ": nativeRank", r"first phase bm25\(FIELD\): \['nativeRank'\]"),
        ("vespa", SCHEMA, "rank-profile", "profile", "unknown key of the schema: 'profile'"),
        ("vespa", SCHEMA, ".b: 0.", ".b: half", "bad b: 'half3333"),
        ("vespa", SERVICES, "com.yahoo", "mine", r"services.xml: not exactly one language in com\.yahoo"),
        ("vespa", SERVICES, "<services", "<<", r"services.xml:\d+: not XML"),
        ("vespa", SERVICES, '<item key="en">', '<item key="de"/><item>', r"one language in .*: \['de', ''\]"),
        ("vespa", SERVICES, ">lowercase<", ">asciiFolding<", "unsupported filter: 'asciiFolding'"),
        ("vespa", SERVICES, ">standard<", ">whitespace<", "unsupported tokenizer: 'whitespace'"),
    ],
)
def test_unknown_parts_refused(tmp_path: Path, engine: str, file: str, old: str, new: str, said: str) -> None:
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
    found = read_engine(written(tmp_path, index))
    assert found[:4] == ("bm25:lucene", {"k1": 1.2, "b": 0.3}, "none", "lucene")
    assert found.notes == ("the index keeps possessives ('s) in its terms, lmtune does not",)
    # Nothing said is Elasticsearch's usual: the analyzer standard, BM25 with 1.2 and 0.75.
    found = read_engine(written(tmp_path, {"mappings": {"properties": {"body": {"type": "text"}}}}))
    assert found[:4] == ("bm25:lucene", {"k1": 1.2, "b": 0.75}, "none", "none")
    english = {"mappings": {"properties": {"body": {"type": "text", "analyzer": "english"}}}}
    assert read_engine(written(tmp_path, english))[2:] == ("porter", "lucene", ())


def chain(*filters: str, **analyzer: Any) -> dict[str, Any]:
    own = {"type": "custom", "tokenizer": "standard", "filter": filters, **analyzer}
    field = {"type": "text", "analyzer": "mine"}
    return {
        "settings": {"analysis": {"analyzer": {"mine": own}}},
        "mappings": {"properties": {"body": field}},
    }


def english(field: str, **own: Any) -> dict[str, Any]:
    analyzers = {"default": {"type": "english", **own}}
    return {
        "settings": {"analysis": {"analyzer": analyzers}},
        "mappings": {"properties": {field: {"type": "text"}}},
    }


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (chain(["lowercase"]), "not an index configuration"),  # type: ignore[arg-type]
        ([], "not an index configuration; accepted: settings and mappings"),
        ({"settings": {}}, "not an index configuration"),
        ({"settings": [], "mappings": {"properties": {}}}, "not an index configuration"),
        ({"mappings": {"properties": {}}}, r"not exactly one text field: \[\]; accepted: mappings with one"),
        (chain("lowercase", "asciifolding"), "unsupported type of filter \"asciifolding\": 'asciifolding'"),
        (chain("lowercase", "porter_stem", "stop"), r"order of filters: .*; accepted: lowercase and "),
        (chain("lowercase", "kstem", "porter_stem"), "order of filters"),
        (chain("lowercase", tokenizer="whitespace"), 'unsupported type of tokenizer "whitespace": \'wh.*'),
        (
            {"mappings": {"properties": {"body": {"type": "text", "similarity": "boolean"}}}},
            "unsupported similarity: 'boolean'; accepted: BM25, LegacyBM25, LMDir",
        ),
        (
            {
                "settings": {"similarity": {"default": {"type": "BM25", "k1": "high"}}},
                "mappings": {"properties": {"body": {"type": "text"}}},
            },
            "bad k1: 'high'; accepted: a number",
        ),
        (english("body", stopwords=["zebra"]), r"custom stopword list: \['zebra'\]; accepted: --stopw"),
    ],
)
def test_what_lmtune_does_not_have_is_refused(tmp_path: Path, index: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_engine(written(tmp_path, index))


def test_tuning_starts_from_an_engine(tmp_path: Path) -> None:
    write_collection(tmp_path / "c")
    files = deploy(ENGINES["elasticsearch"], "bm25:lucene", BM25, Analyzer(stemmer="none"))
    written(tmp_path, files["index.json"])

    run = partial(run_command, cwd=tmp_path)
    tune = "tune c --grid 3x3 --restarts 0 --no-approx -m AP --from-engine index.json"
    out = run(f"{tune} --output kept --model bm25:lucene").out
    assert "keep the default, k1 = 0.812, b = 0.333\n" in out
    record = json.loads((tmp_path / "kept/made.json").read_text())
    assert record["plan"]["model"] == "bm25:lucene"
    assert record["collections"][0]["analysis"] == {"stemmer": "none", "stopwords": "lucene"}
    # And round again: deployed, an equal analysis.
    run("deploy kept --to elasticsearch --output again")
    assert read_engine(tmp_path / "again/index.json")[2:] == ("none", "lucene", ())
    for more, said in (
        ("--model bm25", "--model conflicts with --from-engine: 'bm25'; accepted: no --model: the file has"),
        ("--stemmer porter", "--stemmer conflicts with --from-engine: 'porter'; accepted: no --stemmer"),
        ("--baseline k1=1,b=1", "--baseline conflicts with --from-engine"),
    ):
        assert said in refusal(f"{tune} {more}", cwd=tmp_path)


def test_settings_are_read_in_every_form(tmp_path: Path) -> None:
    """Nested, flat, with index. or not, below a type's name: as Elasticsearch itself reads them."""
    mappings = {"properties": {"id": {"type": "keyword"}, "body": {"type": "text"}}}
    own = {"type": "BM25", "k1": "0.4", "b": 0.1}
    flat = {f"similarity.default.{name}": value for name, value in own.items()}
    for settings in (
        {"index": {"similarity": {"default": own}}},
        {"similarity": {"default": own}, "index": {"number_of_shards": 1}},
        {"number_of_shards": 1, **flat},
        {"index": {"number_of_shards": "1", **flat}},
        {f"index.{name}": value for name, value in flat.items()},
        {"index": {"similarity.default": own}},
    ):
        for mapped in (mappings, {"_doc": mappings}):
            index = {"settings": settings, "mappings": mapped}
            for whole in (index, {"news": index}):
                found = read_engine(written(tmp_path, whole))
                assert found[:2] == ("bm25:lucene", {"k1": 0.4, "b": 0.1}), settings
    filters = {"a": {"type": "stop", "stopwords": "of, Zebra", "ignore_case": "true"}}
    for listed in (["lowercase", "a"], "lowercase, a", {"0": "lowercase", "1": "a"}):
        analysis = {"filter": filters, "analyzer": {"default": {"tokenizer": "standard", "filter": listed}}}
        (tmp_path / "words.txt").write_text("zebra\nof\n")
        index = {"settings": {"analysis": analysis}, "mappings": mappings}
        assert read_engine(written(tmp_path, index), str(tmp_path / "words.txt")).stemmer == "none"
    # Where case counts, Zebra is no lower-case term.
    filters["a"] = {"type": "stop", "stopwords": "of, Zebra"}
    (tmp_path / "words.txt").write_text("of\n")
    assert read_engine(written(tmp_path, index), str(tmp_path / "words.txt")).stemmer == "none"
    twice = {"similarity": {"default": own}, "index": {"similarity": {"default": {**own, "b": 0.2}}}}
    with pytest.raises(InputError, match=r"two values: 'similarity.default.b'; accepted: one"):
        read_engine(written(tmp_path, {"settings": twice, "mappings": mappings}))


STEMMERS = [
    ({"type": "stemmer"}, "porter"),
    ({"type": "stemmer", "name": "light_english"}, "krovetz"),
    ({"type": "stemmer", "language": "porter2", "name": "english"}, "english"),
    ({"type": "stemmer", "language": "lightEnglish"}, "krovetz"),
    ({"type": "snowball"}, "english"),
    ({"type": "snowball", "name": "german"}, "german"),
    ({"type": "kstem"}, "krovetz"),
    ({"type": "porter_stem"}, "porter"),
]


@pytest.mark.parametrize(("made", "stemmer"), STEMMERS)
def test_stemmers_of_elasticsearch_are_known(tmp_path: Path, made: dict[str, str], stemmer: str) -> None:
    index = chain("own", "lowercase", "made")
    possessive = {"type": "stemmer", "name": "possessive_english"}
    index["settings"]["analysis"]["filter"] = {"own": possessive, "made": made}
    assert read_engine(written(tmp_path, index))[2:] == (stemmer, "none", ())


FIELD, SETTINGS_OF = "field", "settings"


@pytest.mark.parametrize(
    ("place", "given", "said"),
    [
        (FIELD, {"norms": False}, 'unsupported norms of field "body": False; accepted: true'),
        (FIELD, {"index": "false"}, "unsupported index of field \"body\": 'false'; accepted: true"),
        (FIELD, {"index_options": "docs"}, "unsupported index_options .*: 'docs'; accepted: freqs"),
        (FIELD, {"boost": 2}, "unsupported boost .*: 2; accepted: 1"),
        (FIELD, {"search_analyzer": "english"}, "documents and queries have different analyzers"),
        (FIELD, {"fields": {"raw": {"type": "text"}}}, r"not exactly one text field: \['body', 'body.raw'\]"),
        (FIELD, {"copied": True}, "unknown key of field \"body\": 'copied'; accepted: the file without it"),
        ("properties", {"top": {"properties": {"in": {"type": "text"}}}}, r"\['body', 'top.in'\]"),
        ("properties", {"top": {"type": "search_as_you_type"}}, r"exactly one text field: \['body', 'top'\]"),
        ("properties", {"top": {"type": "keyword", "copy_to": "body"}}, 'other fields are copied to "body"'),
        ("mappings", {"_boost": {}}, "unknown key of mappings: '_boost'"),
        ("index", {"template": {}}, "unknown key of the index: 'template'"),
        (SETTINGS_OF, {"made_up": 1}, "unknown key of settings: 'made_up'"),
        (SETTINGS_OF, {"default_pipeline": "p"}, "unsupported default_pipeline .*: 'p'; accepted: _none"),
        (SETTINGS_OF, {"search": {"default_pipeline": "p"}}, "unsupported search.default_pipeline"),
        (SETTINGS_OF, {"version": {"created": "2040099"}}, "lengths as Lucene before 7: '2040099'"),
        ("similarity", {"k1": -1}, "bad k1: -1; accepted: a number from 0"),
        ("similarity", {"k1": 1e300}, "bad k1: 1e\\+300; accepted: a number from 0"),
        ("similarity", {"k1": 10**400}, "not finite or too large"),
        ("similarity", {"b": 1.5}, "index.json: b is outside its domain: 1.5; accepted: 0 <= b <= 1"),
        ("similarity", {"mu": 5}, "unknown key of similarity BM25: 'mu'"),
        ("similarity", {"type": "LMDirichlet"}, "unknown key of similarity LMDirichlet: 'k1'"),
        ("similarity", {"type": "scripted"}, "unsupported similarity: 'scripted'"),
        ("analyzer", {"char_filter": ["html_strip"]}, r"unsupported char_filter .*: \['html_strip'\]"),
        ("analyzer", {"stopwords": ["of"]}, "unknown key of analyzer \"default\": 'stopwords'"),
        ("analyzer", {"type": "german"}, "unsupported type of analyzer .*: 'german'; accepted: standard"),
        ("analyzer", {"type": "english", "stem_exclusion": ["w"]}, "unknown key of analyzer|stem_exclusion"),
        ("analysis", {"made_up": {"x": 1}}, "unknown key of analysis: 'made_up'"),
        ("analysis", {"analyzer": {"default_search": {"type": "english"}}}, "queries have different"),
        (
            "analysis",
            {"tokenizer": {"standard": {"type": "standard", "max_token_length": 5}}},
            'unsupported max_token_length of tokenizer "standard": 5; accepted: 255',
        ),
        ("filter", {"type": "lowercase", "language": "turkish"}, "unsupported key of filter .*: 'language'"),
        ("filter", {"type": "stop", "stopwords": "_german_"}, "unsupported stopword list .*: '_german_'"),
        ("filter", {"type": "stop", "stopwords_path": "w.txt"}, "accepted: the words themselves, as"),
        ("filter", {"type": "stop", "made_up": 1}, "unknown key of filter \"own\": 'made_up'"),
        ("filter", {"type": "stemmer", "language": "lovins"}, "unsupported stemmer .*: 'lovins'; accepted"),
        ("filter", {"type": "snowball", "language": "Kp"}, "unsupported stemmer .*: 'Kp'; accepted: Arabic"),
        ("filter", {"type": "keyword_marker", "keywords": []}, 'unsupported type of filter "own"'),
    ],
)
def test_keys_of_elasticsearch_refused(tmp_path: Path, place: str, given: dict[str, Any], said: str) -> None:
    parts: dict[str, dict[str, Any]] = {
        "field": {"type": "text"},
        "similarity": {"type": "BM25", "k1": 0.4, "b": 0.1},
        "analyzer": {"tokenizer": "standard", "filter": ["lowercase", "own"]},
        "filter": {"type": "stop"},
    }
    parts["properties"] = {"body": parts["field"], "id": {"type": "keyword"}}
    parts["mappings"] = {"properties": parts["properties"]}
    parts["analysis"] = {"analyzer": {"default": parts["analyzer"]}, "filter": {"own": parts["filter"]}}
    parts["settings"] = {"similarity": {"default": parts["similarity"]}, "analysis": parts["analysis"]}
    parts["index"] = {"settings": parts["settings"], "mappings": parts["mappings"]}
    path = written(tmp_path, parts["index"])
    assert read_engine(path)[:4] == ("bm25:lucene", {"k1": 0.4, "b": 0.1}, "none", "lucene")
    target = parts[place]
    for key, value in given.items():
        inner = place == "analysis" and key == "analyzer"
        target[key] = {**target["analyzer"], **value} if inner else value
    with pytest.raises(InputError, match=said):
        read_engine(written(tmp_path, parts["index"]))


def test_shards_are_noted(tmp_path: Path) -> None:
    index = {"settings": {"number_of_shards": "5"}, "mappings": {"properties": {"body": {"type": "text"}}}}
    [*_, note] = read_engine(written(tmp_path, index)).notes
    assert note == "with 5 shards, search with search_type=dfs_query_then_fetch"


SOLR = """<?xml version="1.0"?>
<schema name="x" version="1.6">
  <uniqueKey>id</uniqueKey>
  <fieldType name="string" class="solr.StrField"/>
  <fieldType name="text" class="solr.TextField">
    <analyzer>
      <tokenizer class="solr.StandardTokenizerFactory"/>
      <filter class="solr.LowerCaseFilterFactory"/>
    </analyzer>
    <similarity class="solr.BM25SimilarityFactory"><float name="k1">0.4</float></similarity>
  </fieldType>
  <field name="id" type="string"/>
  <field name="contents" type="text"/>
</schema>
"""
STOP = '<filter class="solr.StopFilterFactory" words="w.txt"'
LOWER = '<filter class="solr.LowerCaseFilterFactory"/>'


def solr(folder: Path, old: str = "", new: str = "", stopwords: str | None = None) -> Any:
    assert old in SOLR
    (folder / "schema.xml").write_text(SOLR.replace(old, new, 1) if old else SOLR)
    return read_engine(folder / "schema.xml", stopwords)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('type="text"/>', 'type="text" omitNorms="true"/>', 'omitNorms of field "contents"'),
        ('type="text"/>', 'type="text" omitTermFreqAndPositions="true"/>', "omitTermFreqAndPositions"),
        ('type="text"/>', 'type="text" indexed="false"/>', 'unsupported indexed of field "contents"'),
        ('type="text"/>', 'type="text" made_up="1"/>', "unknown key of field \"contents\": 'made_up'"),
        ('"solr.TextField"', '"solr.TextField" omitNorms="true"', 'omitNorms of fieldType "text"'),
        ('"solr.TextField"', '"solr.TextField" autoGeneratePhraseQueries="true"', "autoGeneratePhraseQ"),
        ('"solr.TextField"', '"solr.SortableTextField"', "accepted: a Solr schema with one text fieldType"),
        ('version="1.6"', 'version="1.3"', "splits are searched as phrases before version 1.4: '1.3'"),
        ('version="1.6"', "", "splits are searched as phrases before version 1.4: '1.0'"),
        ("<analyzer>", '<analyzer type="query">', r"no analyzer of documents.*: \['query'\]"),
        ("<analyzer>", '<analyzer class="x.EnglishAnalyzer">', "unsupported key of the analyzer: 'class'"),
        ("<tokenizer", '<charFilter class="solr.HTMLStripCharFilterFactory"/><tokenizer', "'charFilter'"),
        ("<tokenizer", '<tokenizer maxTokenLength="9"', "maxTokenLength of the tokenizer: '9'; accepted"),
        (LOWER, f"{LOWER}{STOP}/>", "w.txt: stopword file not found"),
        (LOWER, f'{LOWER}{STOP} made_up="1"/>', "unknown key of filter Stop: 'made_up'"),
        (LOWER, f'{LOWER}{STOP} format="x"/>', "unsupported format of filter Stop: 'x'"),
        (LOWER, f'{LOWER}<filter name="snowballPorter" protected="p.txt"/>', "unsupported key of filter"),
        (LOWER, f'{LOWER}<filter name="snowballPorter" language="Kp"/>', "unsupported stemmer .*: 'Kp'"),
        ('<float name="k1">0.4</float>', '<float name="k2">0.4</float>', "unknown key of similarity BM25"),
        ('Factory"><float', 'Factory" k1="0.4"><float', "does not read attributes of a similarity"),
        ('<field name="id"', '<copyField source="id" dest="contents"/><field name="id"', "are copied to"),
        ('<field name="id"', '<field name="t" type="text"/><field name="id"', r"\['t', 'contents'\]"),
        ('<field name="id"', '<dynamicField name="*_t" type="text"/><field name="id"', r"\['\*_t', 'c"),
        ('<field name="id"', '<include href="x"/><field name="id"', "unknown key of the schema: 'include'"),
        ('<?xml version="1.0"?>', '<?xml version="1.0" encoding="UTF-7"?>', "schema.xml:.*not XML"),
        ('<?xml version="1.0"?>', '<?xml version="1.0" encoding="none"?>', "schema.xml:.*not XML"),
    ],
)
def test_solr_schemas_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert solr(tmp_path)[:2] == ("bm25:lucene", {"k1": 0.4, "b": 0.75})
    with pytest.raises(InputError, match=said):
        solr(tmp_path, old, new)


def test_solr_has_defaults_and_lists_of_its_own(tmp_path: Path) -> None:
    """Its Jelinek-Mercer factory's lambda is 0.7; lists of stopwords have Snowball's form too."""
    jelinek = '<similarity class="solr.LMJelinekMercerSimilarityFactory"/>'
    old = SOLR[SOLR.index("<similarity") : SOLR.index("</similarity>") + len("</similarity>")]
    assert solr(tmp_path, old, jelinek)[:2] == ("jelinek-mercer", {"lambda": 0.7})
    given = jelinek.replace("/>", '><float name="lambda">0.2</float></similarity>')
    assert solr(tmp_path, old, given)[1] == {"lambda": 0.2}
    (tmp_path / "own.txt").write_text("und\nder\n")
    own = str(tmp_path / "own.txt")
    for form, text in (
        ('format="snowball"', " | a list\nund  | and\nder | the\n\n"),
        ("", "# a comment\nund\n\nder\ntwo words\nNot\n"),
        ('ignoreCase="true"', "UND\nder\n"),
    ):
        (tmp_path / "w.txt").write_text(text)
        assert solr(tmp_path, LOWER, f"{LOWER}{STOP} {form}/>", own).stopwords == own, form
    typed = SOLR[SOLR.index("<analyzer>") : SOLR.index("<similarity")]
    both = typed.replace("<analyzer>", '<analyzer type="index">') + typed.replace(
        "<analyzer>", '<analyzer type="query">'
    )
    assert solr(tmp_path, typed, both)[1] == {"k1": 0.4, "b": 0.75}
    stems = both.replace(LOWER, f'{LOWER}<filter name="porterStem"/>', 1)
    with pytest.raises(InputError, match="documents and queries have different analyzers"):
        solr(tmp_path, typed, stems)


VESPA = """schema doc {
    document doc {
        field text type string {
            indexing: index | summary
            index: enable-bm25
        }
    }
    rank-profile r {
        rank-properties {
            bm25(text).k1: 0.4
            bm25(text).b: 0.1
        }
        first-phase {
            expression: bm25(text)
        }
    }
}
"""
SERVICES_XML = """<services><container><component class="com.yahoo.language.lucene.LuceneLinguistics">
<config><configDir>lucene</configDir><analysis><item key="en"><tokenizer><name>standard</name></tokenizer>
<tokenFilters><item><name>lowercase</name></item></tokenFilters></item></analysis></config>
</component></container></services>"""


def vespa(folder: Path, old: str = "", new: str = "") -> Any:
    assert old in VESPA or old in SERVICES_XML
    (folder / "schemas").mkdir(exist_ok=True)
    (folder / "services.xml").write_text(SERVICES_XML.replace(old, new, 1) if old else SERVICES_XML)
    (folder / "schemas/doc.sd").write_text(VESPA.replace(old, new, 1) if old else VESPA)
    return read_engine(folder / "schemas/doc.sd")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("expression: bm25(text)", "expression: bm25( text )"),
        ("expression: bm25(text)", "expression { bm25(text) }"),
        ("expression: bm25(text)", "expression\n{\n bm25(text)\n}"),
        ("bm25(text).k1: 0.4\n", "bm25(text).k1: 0.4; "),
        ("bm25(text).k1: 0.4\n", '"bm25(text).k1" : "0.4"\n'),
        ("bm25(text).k1: 0.4\n", "bm25( text ).k1: 0.4 # ours\n"),
        ("rank-profile r {", "rank-profile r\n    {"),
        ("index: enable-bm25", "index { enable-bm25 }"),
        ("rank-profile r {", "rank-profile r {\n num-threads-per-search: 1\n"),
    ],
)
def test_a_schema_of_vespa_is_read_in_every_form(tmp_path: Path, old: str, new: str) -> None:
    assert vespa(tmp_path)[:2] == vespa(tmp_path, old, new)[:2] == ("bm25:vespa", {"k1": 0.4, "b": 0.1})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("bm25(text).b: 0.1", "bm25(text).averageFieldLength: 5", "rank-properties: 'averageFieldLength'"),
        ("bm25(text).b: 0.1", "bm25(title).b: 0.1", "unknown key of rank-properties: 'bm25\\(title\\).b'"),
        ("bm25(text).b: 0.1", "bm25(text).k1: 0.1", "a property has two values: 'bm25\\(text\\).k1'"),
        ("        first-phase {", "second-phase { expression: x }\nfirst-phase {", "'second-phase'"),
        ("        first-phase {", "global-phase { expression: x }\nfirst-phase {", "'global-phase'"),
        ("        first-phase {", "made-up: 1\nfirst-phase {", "unknown key of rank-profile r: 'made-up'"),
        ("expression:", "rank-score-drop-limit: 1\nexpression:", "first-phase: 'rank-score-drop-limit'"),
        ("rank-profile r {", "rank-profile r inherits s {", "inherited parts are not read: 'rank-profile r"),
        ("schema doc {", "schema doc inherits other {", "inherited parts are not read: 'schema doc"),
        ("document doc {", "document doc inherits other {", "inherited parts are not read: 'document doc"),
        ("schema doc {", "schema doc {\nstemming: none\n", "unsupported key of the schema: 'stemming'"),
        ("schema doc {", "schema doc {\nmade-up: none\n", "unknown key of the schema: 'made-up'"),
        ("index: enable-bm25", "index: enable-bm25\nstemming: none", "key of field text: 'stemming'"),
        ("index: enable-bm25", "index: enable-bm25\nnormalizing: none", "key of field text: 'normalizing'"),
        ("index: enable-bm25", "index: enable-bm25\nmatch: word", "match of field text: 'word'"),
        ("index: enable-bm25", "", "unsupported index of field text: .*; accepted: enable-bm25"),
        ("index | summary", "summary", r"field text is not indexed: \['summary'\]"),
        ("index | summary", "lowercase | index", "unknown key of indexing of field text: 'lowercase'"),
        ("field text type string", "field body type string", "ranked field is not in the schema: 'text'"),
        ("type string", "type array<string>", "the ranked field is not in the schema: 'text'"),
        ("schema doc {", "schema doc {{", "doc.sd: not a Vespa schema"),
        ("<tokenFilters>", "<charFilters/><tokenFilters>", "key of the analysis of en: 'charFilters'"),
        ("<analysis>", "<made_up/><analysis>", "unknown key of the analysis: 'made_up'"),
        ("</tokenizer>", "<made_up/></tokenizer>", "unknown key of standard: 'made_up'"),
        ('key="en"', 'key="profile=x"', r"not exactly one language in .*: \['profile=x'\]"),
    ],
)
def test_vespa_schemas_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        vespa(tmp_path, old, new)
