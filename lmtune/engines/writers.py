"""Writers of each engine's files: configuration of Lucene-based engines, and scripts for Python packages."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from lmtune.engines.deployment import BY_FIELD, COMBINED, INDEX, PYTHON, Deployment, fill_template

_STOPWORDS = "stopwords.txt"

# lmtune's stemmers -> names of the stem filters of Lucene and of Elasticsearch.
_STEMS = {"porter": "PorterStem", "krovetz": "KStem"}
_ELASTIC = {"porter": "porter_stem", "krovetz": "kstem"}

_LANGUAGES = (
    "arabic catalan danish english finnish french german hungarian italian lithuanian norwegian portuguese "
    "romanian russian spanish swedish turkish"
)
SNOWBALL = {name: name.capitalize() for name in _LANGUAGES.split()} | {"dutch_porter": "Dutch"}
"""lmtune's stemmers, each with Lucene's name of the Snowball language."""

_WORDS = "YOUR WORDS"
_SIMILARITIES = {"bm25": "BM25", "dirichlet": "LMDirichlet", "jelinek-mercer": "LMJelinekMercer"}
_ANSERINI = {"bm25": "bm25", "dirichlet": "qld", "jelinek-mercer": "qljm"}


def _word_list(deployment: Deployment, path: str = _STOPWORDS) -> dict[str, str]:
    """Return the stopword file, or nothing if no stopwords are removed."""
    words = deployment.stopwords
    return {path: "\n".join(words) + "\n"} if words else {}


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def elastic(deployment: Deployment) -> dict[str, str]:
    """Write the index settings and mappings, a query and the commands of Elasticsearch and OpenSearch."""
    filters: dict[str, Any] = {"possessive": {"type": "stemmer", "language": "possessive_english"}}
    if language := SNOWBALL.get(deployment.analyzer.stemmer):
        filters["stems"] = {"type": "snowball", "language": language}
    stemming = "stems" if language else _ELASTIC.get(deployment.analyzer.stemmer)
    if words := deployment.stopwords:
        listed = "_english_" if deployment.analyzer.stopwords == "lucene" else words
        filters["stopwords"] = {"type": "stop", "stopwords": listed}
    fields, similarities, text_query = _similarities_and_query(deployment)
    chain = ["possessive", "lowercase", *(["stopwords"] if words else []), *([stemming] if stemming else [])]
    index = {
        "settings": {
            "number_of_shards": 1,
            "similarity": similarities,
            "analysis": {
                "filter": filters,
                "analyzer": {"tuned": {"type": "custom", "tokenizer": "standard", "filter": chain}},
            },
        },
        "mappings": {
            "properties": {
                field: {"type": "text", "analyzer": "tuned", "similarity": name}
                for field, name in fields.items()
            }
        },
    }
    query = {"size": 1000, "query": text_query}
    name = deployment.names.index
    curl = "curl --fail-with-body -H 'Content-Type: application/json'"
    commands = (
        f'# URL: address of the cluster, such as http://localhost:9200\n{curl} -X PUT "$URL/{name}" '
        f'--data-binary @index.json\n{curl} "$URL/{name}/_search" --data-binary @query.json\n'
    )
    return {"index.json": _json(index), "query.json": _json(query), "commands.sh": commands}


def _similarities_and_query(deployment: Deployment) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
    """Return the name of each field's similarity, the similarities by name, and the query."""
    values, field = deployment.values, deployment.names.field
    if deployment.formula != BY_FIELD:
        similarity = {"type": _SIMILARITIES[deployment.formula], **values}
        return (
            {field: "tuned"},
            {"tuned": similarity},
            {"match": {field: {"query": _WORDS, "operator": "or"}}},
        )
    fields = deployment.fields
    similarities = {
        f"tuned_{name}": {"type": "BM25", "k1": values["k1"], "b": values[f"b_{name}"]} for name in fields
    }
    query = {
        "multi_match": {
            "query": _WORDS,
            "type": "most_fields",
            "operator": "or",
            "fields": _boosted_fields(deployment),
        }
    }
    return {name: f"tuned_{name}" for name in fields}, similarities, query


def _boosted_fields(deployment: Deployment) -> list[str]:
    """Return the fields in query syntax: ``name^weight``, or the name of a field without weight."""
    return [f"{name}^{deployment.values[f'w_{name}']!r}" for name in deployment.fields] or [
        deployment.names.field
    ]


def solr(deployment: Deployment) -> dict[str, str]:
    """Write a schema, its stopwords and a query of Solr."""
    fields, similarities, _ = _similarities_and_query(deployment)
    filters = []
    for name, parameters in _filters(deployment, _STOPWORDS):
        attributes = "".join(f' {key}="{value}"' for key, value in parameters.items())
        filters.append(f'      <filter class="solr.{name}FilterFactory"{attributes}/>')
    types = []
    for name, similarity in similarities.items():
        kind = similarity.pop("type")
        values = "\n".join(
            f'      <float name="{key}">{value!r}</float>' for key, value in similarity.items()
        )
        types.append(
            fill_template(
                "field_type.xml", name=name, similarity=kind, filters="\n".join(filters), values=values
            )
        )
    attributes = 'indexed="true" stored="true"'
    texts = [f'  <field name="{field}" type="{name}" {attributes}/>' for field, name in fields.items()]
    joined = {"types": "\n".join(types), "fields": "\n".join(texts)}
    schema = fill_template("schema.xml", index=deployment.names.index, **joined)
    query = (
        "# URL: address of Solr, such as http://localhost:8983/solr. The simple parser without operators\n"
        "# reads the query as plain words.\n"
        f'curl "$URL/{deployment.names.index}/select" --data-urlencode "q={_WORDS}" \\\n'
        f'  --data-urlencode "qf={" ".join(_boosted_fields(deployment))}" -d defType=simple \\\n'
        "  -d q.operators= -d q.op=OR -d fl=id,score -d rows=1000\n"
    )
    return {"schema.xml": schema, **_word_list(deployment), "query.sh": query}


def _filters(deployment: Deployment, words: str) -> list[tuple[str, dict[str, str]]]:
    """Return the token filters: Lucene's class name of each, and its parameters."""
    chain: list[tuple[str, dict[str, str]]] = [("EnglishPossessive", {}), ("LowerCase", {})]
    stemmer = deployment.analyzer.stemmer
    if deployment.stopwords:
        chain.append(("Stop", {"words": words}))
    if language := SNOWBALL.get(stemmer):
        chain.append(("SnowballPorter", {"language": language}))
    return [*chain, (_STEMS[stemmer], {})] if stemmer in _STEMS else chain


def anserini(deployment: Deployment) -> dict[str, str]:
    """Write the commands of Anserini and the calls of pyserini."""
    analyzer, name = deployment.analyzer, _ANSERINI[deployment.formula]
    stop = {"lucene": "", "none": " -keepStopwords"}.get(analyzer.stopwords, f" -stopwords {_STOPWORDS}")
    analysis = f"-stemmer {analyzer.stemmer}{stop}"
    values = " ".join(f"-{name}.{key} {value!r}" for key, value in deployment.values.items())
    commands = (
        "# bin/run.sh comes with Anserini\n"
        "bin/run.sh io.anserini.index.IndexCollection -collection JsonCollection -input DOCUMENTS \\\n"
        f"  -generator DefaultLuceneDocumentGenerator -index {INDEX} -threads 4 {analysis}\n"
        f"bin/run.sh io.anserini.search.SearchCollection -index {INDEX} -topicReader TsvString \\\n"
        f"  -topics TOPICS {analysis} -hits 1000 -{name} {values} -output RUN\n"
    )
    files = {"anserini.sh": commands}
    if analyzer.stopwords not in ("lucene", "none"):
        return files | _word_list(deployment)
    if deployment.formula != "jelinek-mercer":
        files[PYTHON] = _pyserini(deployment)
    return files


def _pyserini(deployment: Deployment) -> str:
    analyzer, name = deployment.analyzer, _ANSERINI[deployment.formula]
    stem = f"stemmer={analyzer.stemmer!r}" if analyzer.stemmer != "none" else "stemming=False"
    return fill_template(
        "pyserini.py",
        index=INDEX,
        flags=["-stemmer", analyzer.stemmer, *(["-keepStopwords"] if analyzer.stopwords == "none" else [])],
        analyzer=f"{stem}, stopwords={analyzer.stopwords == 'lucene'}",
        name=name,
        values=", ".join(f"{key}={value!r}" for key, value in deployment.values.items()),
    )


def vespa(deployment: Deployment) -> dict[str, str]:
    """Write Vespa's files: a schema with a rank profile, services.xml with the analysis, and a query.

    Vespa allows no hyphen in names: underscores replace them.
    """
    index, field = deployment.names.index.replace("-", "_"), deployment.names.field
    stopwords = f"en/{_STOPWORDS}"
    filters = "\n".join(_filter_item(*named) for named in _filters(deployment, stopwords))
    values = "\n".join(
        f"            bm25({field}).{key}: {value!r}" for key, value in deployment.values.items()
    )
    query = {
        "yql": f'select * from {index} where {{grammar: "any"}}userInput(@words)',
        "words": "YOUR WORDS",
        "language": "en",
        "ranking": "tuned",
        "hits": 400,
    }
    return {
        f"schemas/{index}.sd": fill_template("schema.sd", index=index, field=field, values=values),
        "services.xml": fill_template("services.xml", index=index, filters=filters),
        **_word_list(deployment, f"linguistics/{stopwords}"),
        "query.json": _json(query),
    }


def _filter_item(name: str, parameters: dict[str, str]) -> str:
    """Return a filter as an element of Vespa's Lucene linguistics."""
    vespa_name = "lowercase" if name == "LowerCase" else name[0].lower() + name[1:]
    conf = "".join(f'<conf><item key="{key}">{value}</item></conf>' for key, value in parameters.items())
    return f"              <item><name>{vespa_name}</name>{conf}</item>"


# lmtune's formulas -> Terrier's models and their controls. Older versions of Terrier call the parameter c,
# newer ones name it; both are set. With a large k_3 a term counts as often as it occurs in the query.
# Hiemstra's lambda is the weight of the document, lmtune's lambda that of the collection.
_CONTROLS = {
    "bm25": ("BM25", '{"bm25.k_1": K1, "bm25.b": B, "bm25.k_3": 1e9}'),
    "dirichlet": ("DirichletLM", '{"c": MU, "dirichletlm.mu": MU}'),
    "jelinek-mercer": ("Hiemstra_LM", '{"c": 1.0 - LAMBDA, "hiemstra_lm.lambda": 1.0 - LAMBDA}'),
}


def _write(deployment: Deployment, name: str, constants: str = "") -> dict[str, str]:
    values = [f"{name.upper()} = {value!r}" for name, value in deployment.values.items()]
    text = fill_template(
        f"{name}.py",
        formula=deployment.formula,
        setting=deployment.setting,
        analysis=deployment.analyzer.settings,
        constants="\n".join([*values, constants]),
    )
    return {PYTHON: text}


bm25s, duckdb, sqlite, tantivy, xapian = (
    partial(_write, name=name) for name in ("bm25s", "duckdb", "sqlite", "tantivy", "xapian")
)


def pyterrier(deployment: Deployment) -> dict[str, str]:
    """Write a Python script for PyTerrier."""
    if deployment.formula == COMBINED:
        return _pyterrier_fields(deployment)
    model, controls = _CONTROLS[deployment.formula]
    return _write(deployment, "pyterrier", f"MODEL = {model!r}\nCONTROLS = {controls}\n")


def _pyterrier_fields(deployment: Deployment) -> dict[str, str]:
    """Write a Python script for Terrier's BM25F.

    Terrier numbers the fields and fixes k1 = 1.2; scaling the weights by 1.2 / k1 ranks as the tuned k1 does.
    """
    values, fields = deployment.values, deployment.fields
    controls = "".join(
        f'    "w.{n}": {len(fields)} * {values["w_" + name]!r} * 1.2 / K1, '
        f'"c.{n}": {values["b_" + name]!r},\n'
        for n, name in enumerate(fields)
    )
    constants = f'FIELDS = {fields!r}\nMODEL = "BM25F"\nCONTROLS = {{\n{controls}}}\n'
    return _write(deployment._replace(values={"k1": values["k1"]}), "pyterrier_fields", constants)
