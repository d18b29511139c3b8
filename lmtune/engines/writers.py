"""Files of the engines: of those built on Lucene's analysis, and of Python packages."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from lmtune.engines.deployment import BY_FIELD, COMBINED, INDEX, PYTHON, Deployment, fill_template

_STOPWORDS = "stopwords.txt"

# The names of Lucene's stem filters, and Elasticsearch's, by lmtune's stemmers.
_STEMS = {"porter": "PorterStem", "krovetz": "KStem"}
_ELASTIC = {"porter": "porter_stem", "krovetz": "kstem"}

_LANGUAGES = (
    "arabic catalan danish english finnish french german hungarian italian lithuanian norwegian portuguese "
    "romanian russian spanish swedish turkish"
)
SNOWBALL = {name: name.capitalize() for name in _LANGUAGES.split()} | {"dutch_porter": "Dutch"}
"""Lucene's names of Snowball's languages, by lmtune's stemmers."""

_WORDS = "YOUR WORDS"
_SIMILARITIES = {"bm25": "BM25", "dirichlet": "LMDirichlet", "jelinek-mercer": "LMJelinekMercer"}
_ANSERINI = {"bm25": "bm25", "dirichlet": "qld", "jelinek-mercer": "qljm"}


def _word_list(deployment: Deployment, path: str = _STOPWORDS) -> dict[str, str]:
    """Return the file of stopwords, none where none are dropped."""
    words = deployment.stopwords
    return {path: "\n".join(words) + "\n"} if words else {}


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def elastic(deployment: Deployment) -> dict[str, str]:
    """Write settings and mappings, a query, and the commands, of Elasticsearch and OpenSearch."""
    filters: dict[str, Any] = {"possessive": {"type": "stemmer", "language": "possessive_english"}}
    if language := SNOWBALL.get(deployment.analyzer.stemmer):
        filters["stems"] = {"type": "snowball", "language": language}
    stemming = "stems" if language else _ELASTIC.get(deployment.analyzer.stemmer)
    if words := deployment.stopwords:
        listed = "_english_" if deployment.analyzer.stopwords == "lucene" else words
        filters["stopwords"] = {"type": "stop", "stopwords": listed}
    fields, similarities, asked = _matched(deployment)
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
    query = {"size": 1000, "query": asked}
    name = deployment.names.index
    curl = "curl --fail-with-body -H 'Content-Type: application/json'"
    commands = (
        f'# URL is the cluster\'s, such as http://localhost:9200\n{curl} -X PUT "$URL/{name}" '
        f'--data-binary @index.json\n{curl} "$URL/{name}/_search" --data-binary @query.json\n'
    )
    return {"index.json": _json(index), "query.json": _json(query), "commands.sh": commands}


def _matched(deployment: Deployment) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
    """Return the similarity's name of each field, the similarities by name, and the query."""
    values, field = deployment.values, deployment.names.field
    if deployment.formula != BY_FIELD:
        similarity = {"type": _SIMILARITIES[deployment.formula], **values}
        return (
            {field: "tuned"},
            {"tuned": similarity},
            {"match": {field: {"query": _WORDS, "operator": "or"}}},
        )
    fields = deployment.fields
    own = {f"tuned_{name}": {"type": "BM25", "k1": values["k1"], "b": values[f"b_{name}"]} for name in fields}
    asked = {
        "multi_match": {
            "query": _WORDS,
            "type": "most_fields",
            "operator": "or",
            "fields": _boosted(deployment),
        }
    }
    return {name: f"tuned_{name}" for name in fields}, own, asked


def _boosted(deployment: Deployment) -> list[str]:
    """Return the fields as queries name them, with their weights where they have some."""
    return [f"{name}^{deployment.values[f'w_{name}']!r}" for name in deployment.fields] or [
        deployment.names.field
    ]


def solr(deployment: Deployment) -> dict[str, str]:
    """Write a schema, its stopwords, and a query, of Solr."""
    fields, similarities, _ = _matched(deployment)
    filters = []
    for name, given in _filters(deployment, _STOPWORDS):
        more = "".join(f' {key}="{value}"' for key, value in given.items())
        filters.append(f'      <filter class="solr.{name}FilterFactory"{more}/>')
    types = []
    for name, own in similarities.items():
        kind = own.pop("type")
        values = "\n".join(f'      <float name="{key}">{value!r}</float>' for key, value in own.items())
        types.append(
            fill_template(
                "field_type.xml", name=name, similarity=kind, filters="\n".join(filters), values=values
            )
        )
    shown = 'indexed="true" stored="true"'
    texts = [f'  <field name="{own}" type="{name}" {shown}/>' for own, name in fields.items()]
    joined = {"types": "\n".join(types), "fields": "\n".join(texts)}
    schema = fill_template("schema.xml", index=deployment.names.index, **joined)
    query = (
        "# URL is Solr's, such as http://localhost:8983/solr; the simple parser without operators takes all\n"
        f'# words as they are\ncurl "$URL/{deployment.names.index}/select" --data-urlencode "q={_WORDS}" \\\n'
        f'  --data-urlencode "qf={" ".join(_boosted(deployment))}" -d defType=simple \\\n'
        "  -d q.operators= -d q.op=OR -d fl=id,score -d rows=1000\n"
    )
    return {"schema.xml": schema, **_word_list(deployment), "query.sh": query}


def _filters(deployment: Deployment, words: str) -> list[tuple[str, dict[str, str]]]:
    """Return the filters by Lucene's names of their classes, each with its parameters."""
    chain: list[tuple[str, dict[str, str]]] = [("EnglishPossessive", {}), ("LowerCase", {})]
    stemmer = deployment.analyzer.stemmer
    if deployment.stopwords:
        chain.append(("Stop", {"words": words}))
    if language := SNOWBALL.get(stemmer):
        chain.append(("SnowballPorter", {"language": language}))
    return [*chain, (_STEMS[stemmer], {})] if stemmer in _STEMS else chain


def anserini(deployment: Deployment) -> dict[str, str]:
    """Write the commands of Anserini and the calls of pyserini."""
    own, name = deployment.analyzer, _ANSERINI[deployment.formula]
    stop = {"lucene": "", "none": " -keepStopwords"}.get(own.stopwords, f" -stopwords {_STOPWORDS}")
    analysis = f"-stemmer {own.stemmer}{stop}"
    values = " ".join(f"-{name}.{key} {value!r}" for key, value in deployment.values.items())
    commands = (
        "# bin/run.sh is Anserini's\n"
        "bin/run.sh io.anserini.index.IndexCollection -collection JsonCollection -input DOCUMENTS \\\n"
        f"  -generator DefaultLuceneDocumentGenerator -index {INDEX} -threads 4 {analysis}\n"
        f"bin/run.sh io.anserini.search.SearchCollection -index {INDEX} -topicReader TsvString \\\n"
        f"  -topics TOPICS {analysis} -hits 1000 -{name} {values} -output RUN\n"
    )
    files = {"anserini.sh": commands}
    if own.stopwords not in ("lucene", "none"):
        return files | _word_list(deployment)
    if deployment.formula != "jelinek-mercer":
        files[PYTHON] = _pyserini(deployment)
    return files


def _pyserini(deployment: Deployment) -> str:
    own, name = deployment.analyzer, _ANSERINI[deployment.formula]
    stem = f"stemmer={own.stemmer!r}" if own.stemmer != "none" else "stemming=False"
    return fill_template(
        "pyserini.py",
        index=INDEX,
        flags=["-stemmer", own.stemmer, *(["-keepStopwords"] if own.stopwords == "none" else [])],
        analyzer=f"{stem}, stopwords={own.stopwords == 'lucene'}",
        name=name,
        values=", ".join(f"{key}={value!r}" for key, value in deployment.values.items()),
    )


def vespa(deployment: Deployment) -> dict[str, str]:
    """Write a schema with its rank profile, services with the analysis, and a query, of Vespa.

    Its names have no hyphen: there is _ instead.
    """
    index, field = deployment.names.index.replace("-", "_"), deployment.names.field
    stopwords = f"en/{_STOPWORDS}"
    filters = "\n".join(_item(*one) for one in _filters(deployment, stopwords))
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


def _item(name: str, given: dict[str, str]) -> str:
    """Return a filter of Vespa's Lucene linguistics."""
    own = "lowercase" if name == "LowerCase" else name[0].lower() + name[1:]
    more = "".join(f'<conf><item key="{key}">{value}</item></conf>' for key, value in given.items())
    return f"              <item><name>{own}</name>{more}</item>"


# Terrier's models by ours, with their controls: what older versions call c has a name in newer ones.
# k_3 makes a word count as often as the query has it; Hiemstra's lambda is the document's share.
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
    """Write Python for PyTerrier."""
    if deployment.formula == COMBINED:
        return _pyterrier_fields(deployment)
    model, controls = _CONTROLS[deployment.formula]
    return _write(deployment, "pyterrier", f"MODEL = {model!r}\nCONTROLS = {controls}\n")


def _pyterrier_fields(deployment: Deployment) -> dict[str, str]:
    """Write Python for Terrier's BM25F, whose fields have numbers and whose k1 = 1.2 the weights change."""
    values, fields = deployment.values, deployment.fields
    controls = "".join(
        f'    "w.{n}": {len(fields)} * {values["w_" + own]!r} * 1.2 / K1, "c.{n}": {values["b_" + own]!r},\n'
        for n, own in enumerate(fields)
    )
    constants = f'FIELDS = {fields!r}\nMODEL = "BM25F"\nCONTROLS = {{\n{controls}}}\n'
    return _write(deployment._replace(values={"k1": values["k1"]}), "pyterrier_fields", constants)
