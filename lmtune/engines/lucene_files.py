"""Files of engines built on Lucene's analysis: Elasticsearch, OpenSearch, Solr, Anserini, Vespa."""

from __future__ import annotations

import json
from typing import Any

from lmtune.engines.deployment import BY_FIELD, INDEX, PYTHON, Deployment

_STOPWORDS = "stopwords.txt"

# The names of Lucene's stem filters, by those of lmtune's stemmers that the catalogue names.
_ELASTIC = {"porter": "porter_stem", "krovetz": "kstem", "none": None}
_SOLR = {"porter": "PorterStemFilterFactory", "krovetz": "KStemFilterFactory", "none": None}
_SERVICE = {"porter": "porterStem", "krovetz": "kStem", "none": None}

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
    stemming = "stems" if language else _ELASTIC[deployment.analyzer.stemmer]
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


_SCHEMA = """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- Solr reads the values in single precision. -->
<schema name="{index}" version="1.6">
  <uniqueKey>id</uniqueKey>
  <similarity class="solr.SchemaSimilarityFactory"/>
  <fieldType name="string" class="solr.StrField"/>
  <fieldType name="plong" class="solr.LongPointField" docValues="true"/>
{types}
  <field name="id" type="string" indexed="true" stored="true" required="true"/>
  <field name="_version_" type="plong" indexed="false" stored="false"/>
{fields}
</schema>
"""
_TYPE = """\
  <fieldType name="{name}" class="solr.TextField" positionIncrementGap="100">
    <analyzer>
      <tokenizer class="solr.StandardTokenizerFactory"/>
{filters}
    </analyzer>
    <similarity class="solr.{similarity}SimilarityFactory">
{values}
    </similarity>
  </fieldType>"""


def solr(deployment: Deployment) -> dict[str, str]:
    """Write a schema, its stopwords, and a query, of Solr."""
    fields, similarities, _ = _matched(deployment)
    filters = "\n".join(f'      <filter class="solr.{one}"/>' for one in _solr_filters(deployment))
    types = []
    for name, own in similarities.items():
        kind = own.pop("type")
        values = "\n".join(f'      <float name="{key}">{value!r}</float>' for key, value in own.items())
        types.append(_TYPE.format(name=name, similarity=kind, filters=filters, values=values))
    shown = 'indexed="true" stored="true"'
    texts = [f'  <field name="{own}" type="{name}" {shown}/>' for own, name in fields.items()]
    schema = _SCHEMA.format(index=deployment.names.index, types="\n".join(types), fields="\n".join(texts))
    query = (
        "# URL is Solr's, such as http://localhost:8983/solr; the simple parser without operators takes all\n"
        f'# words as they are\ncurl "$URL/{deployment.names.index}/select" --data-urlencode "q={_WORDS}" \\\n'
        f'  --data-urlencode "qf={" ".join(_boosted(deployment))}" -d defType=simple \\\n'
        "  -d q.operators= -d q.op=OR -d fl=id,score -d rows=1000\n"
    )
    return {"schema.xml": schema, **_word_list(deployment), "query.sh": query}


def _solr_filters(deployment: Deployment) -> list[str]:
    """Return the filters' classes, each with its attributes but for the last quotation mark."""
    stemmer = deployment.analyzer.stemmer
    stop = f'StopFilterFactory" words="{_STOPWORDS}' if deployment.stopwords else None
    language = SNOWBALL.get(stemmer)
    snowball = f'SnowballPorterFilterFactory" language="{language}' if language else None
    chain = ("EnglishPossessiveFilterFactory", "LowerCaseFilterFactory", stop, snowball or _SOLR.get(stemmer))
    return [*filter(None, chain)]


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


_PYSERINI = """\
\"\"\"pyserini; documents are texts by docno. anserini.sh makes the same index.\"\"\"

import os

from pyserini.analysis import get_lucene_analyzer
from pyserini.index.lucene import LuceneIndexer
from pyserini.search.lucene import LuceneSearcher


def build(documents, path="{index}"):
    indexer = LuceneIndexer(args=["-index", os.path.abspath(path), *{flags!r}], threads=1)
    for docno, text in documents.items():
        if text.strip():  # Anserini takes no empty one
            indexer.add_doc_dict({{"id": docno, "contents": text}})
    indexer.close()
    return opened(path)


def opened(path="{index}"):
    searcher = LuceneSearcher(os.path.abspath(path))  # Java stays in the folder that it began in
    searcher.set_analyzer(get_lucene_analyzer({analyzer}))
    searcher.set_{name}({values})
    return searcher


def search(index, query, hits=1000):
    return [(hit.docid, hit.score) for hit in index.search(query, k=hits)]
"""


def _pyserini(deployment: Deployment) -> str:
    own, name = deployment.analyzer, _ANSERINI[deployment.formula]
    stem = f"stemmer={own.stemmer!r}" if own.stemmer != "none" else "stemming=False"
    return _PYSERINI.format(
        index=INDEX,
        flags=["-stemmer", own.stemmer, *(["-keepStopwords"] if own.stopwords == "none" else [])],
        analyzer=f"{stem}, stopwords={own.stopwords == 'lucene'}",
        name=name,
        values=", ".join(f"{key}={value!r}" for key, value in deployment.values.items()),
    )


_PROFILE = """\
schema {index} {{
    document {index} {{
        field id type string {{
            indexing: attribute | summary
        }}
        # Feed "en" here, so that services.xml's analysis is taken.
        field language type string {{
            indexing: set_language
        }}
        field {field} type string {{
            indexing: index | summary
            index: enable-bm25
        }}
    }}
    fieldset default {{
        fields: {field}
    }}
    rank-profile tuned {{
        rank-properties {{
{values}
        }}
        first-phase {{
            expression: bm25({field})
        }}
    }}
}}
"""

_SERVICES = """\
<?xml version="1.0" encoding="utf-8"?>
<services version="1.0">
  <container id="default" version="1.0">
    <component id="linguistics" class="com.yahoo.language.lucene.LuceneLinguistics"
               bundle="lucene-linguistics">
      <config name="com.yahoo.language.lucene.lucene-analysis">
        <configDir>linguistics</configDir>
        <analysis>
          <item key="en">
            <tokenizer><name>standard</name></tokenizer>
            <tokenFilters>
{filters}
            </tokenFilters>
          </item>
        </analysis>
      </config>
    </component>
    <document-processing/>
    <document-api/>
    <search/>
  </container>
  <content id="content" version="1.0">
    <min-redundancy>1</min-redundancy>
    <documents><document type="{index}" mode="index"/></documents>
  </content>
</services>
"""

_CONFIGURED = '<name>{}</name><conf><item key="{}">{}</item></conf>'


def vespa(deployment: Deployment) -> dict[str, str]:
    """Write a schema with its rank profile, services with the analysis, and a query, of Vespa.

    Its names have no hyphen: there is _ instead.
    """
    stopwords, language = f"en/{_STOPWORDS}", SNOWBALL.get(stemmer := deployment.analyzer.stemmer)
    index, field = deployment.names.index.replace("-", "_"), deployment.names.field
    stemming = f"<name>{_SERVICE.get(stemmer)}</name>" if _SERVICE.get(stemmer) else ""
    if language:
        stemming = _CONFIGURED.format("snowballPorter", "language", language)
    stop = _CONFIGURED.format("stop", "words", stopwords)
    chain = ["<name>englishPossessive</name>", "<name>lowercase</name>"]
    chain += [*([stop] if deployment.stopwords else []), *([stemming] if stemming else [])]
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
        f"schemas/{index}.sd": _PROFILE.format(index=index, field=field, values=values),
        "services.xml": _SERVICES.format(
            index=index, filters="\n".join(f"              <item>{one}</item>" for one in chain)
        ),
        **_word_list(deployment, f"linguistics/{stopwords}"),
        "query.json": _json(query),
    }
