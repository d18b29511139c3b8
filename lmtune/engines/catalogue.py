"""Catalogue of the engines that settings can be deployed to, and reader of their configuration files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lmtune.engines import writers
from lmtune.engines.deployment import BY_FIELD, COMBINED, Engine
from lmtune.engines.elastic_index import read_index
from lmtune.engines.index_analysis import stopwords_name
from lmtune.engines.solr_schema import read_schema
from lmtune.engines.vespa_schema import read_application
from lmtune.errors import InputError
from lmtune.models.model import find_model

# Differences between Lucene's similarities and the models of `lmtune.models`.
_LUCENE = {
    "bm25": "",
    "dirichlet": (
        "Lucene adds the length term once for each query term in the document, and no term scores below 0: "
        "exact for --model lucene-dirichlet, other rankings than --model dirichlet."
    ),
    "jelinek-mercer": "Lucene adds one to a term's collection frequency, and to the collection's size.",
}
_ELASTICS = _LUCENE | {BY_FIELD: ""}
_SINGLE = "Parameters and scores are in single precision: documents of nearly equal score may change places."
_ANALYSIS = "The analysis chain is the tuned one, built from Lucene's filters."
_STEMMERS = {
    "porter": "",
    "krovetz": "Lucene's KStem and lmtune's krovetz have different dictionaries (a few words differ).",
    "none": "",
}
# Percentage of the most frequent words with another stem by PyStemmer 3.1 (experiments/choices/stemmers.py).
_OTHER_STEMS = {"english": 0.18, "french": 0.15, "german": 2.8, "lithuanian": 0.2, "romanian": 3.8}
_OTHER_STEMS |= {"danish": 0.02, "finnish": 0.04, "italian": 0.003, "norwegian": 0.06, "spanish": 0.08}
_OTHER_STEMS |= {"swedish": 1.5}
_OLDER = (
    "Lucene has an older Snowball than lmtune: {:g}% of the 30,000 most frequent words have another stem."
)
_FILTERS = _STEMMERS | {
    name: _OLDER.format(_OTHER_STEMS[name]) if name in _OTHER_STEMS else "" for name in writers.SNOWBALL
}
_SHARDS = (
    "idf and mean length are computed for each shard. The files make one; with several, search with "
    "search_type=dfs_query_then_fetch. To change the similarity of an existing index, close it first."
)
_FACTOR = "Some versions multiply BM25 by k1 + 1; this changes no ranking."
_OWN = "The script analyses text with lmtune's analyzer, not with the engine's."
_ELASTIC = (_ANALYSIS, _SINGLE, _SHARDS, _FACTOR)
_FIXED = {"k1": 1.2, "b": 0.75}

ENGINES = {
    "elasticsearch": Engine(
        "Elasticsearch", _ELASTICS, writers.elastic, _ELASTIC, stemmers=_FILTERS, is_named=True
    ),
    "opensearch": Engine(
        "OpenSearch", _ELASTICS, writers.elastic, _ELASTIC, stemmers=_FILTERS, is_named=True
    ),
    "solr": Engine(
        "Solr", _ELASTICS, writers.solr, (_ANALYSIS, _SINGLE, _FACTOR), stemmers=_FILTERS, is_named=True
    ),
    "lucene": Engine(
        "Lucene (Anserini, pyserini)",
        _LUCENE,
        writers.anserini,
        (
            _ANALYSIS,
            _SINGLE,
            "pyserini supports neither Jelinek-Mercer nor custom stopwords; Anserini has options for both.",
        ),
        stemmers=_STEMMERS,
        install="pip install pyserini",
    ),
    "vespa": Engine(
        "Vespa",
        {"bm25": ""},
        writers.vespa,
        (
            _ANALYSIS,
            "N and document frequencies are computed for each content node, from its largest index.",
            "Some versions of Vespa split a query before the analysis: check a run with lmtune check-run.",
            _FACTOR,
        ),
        variant="vespa",
        stemmers=_FILTERS,
        is_named=True,
    ),
    "pyterrier": Engine(
        "PyTerrier (Terrier)",
        {
            "bm25": "",
            "dirichlet": (
                "Terrier adds the length term once for each query term in the document, not once for each "
                "query term."
            ),
            "jelinek-mercer": "",
            COMBINED: (
                "Terrier's idf is log((N - df + 0.5) / (df + 0.5)), df the documents with the term in any "
                "field. A term that occurs twice in the query counts 1.8 times. Its k1 is fixed: the weights "
                "are multiplied by 1.2 / k1, which gives the same ranking."
            ),
        },
        writers.pyterrier,
        (_OWN, "The control names of the language models depend on Terrier's version; both are set."),
        variant="terrier",
        install="pip install python-terrier",
    ),
    "bm25s": Engine(
        "bm25s", {"bm25": ""}, writers.bm25s, (_OWN,), variant="bm25s", install="pip install bm25s"
    ),
    "tantivy": Engine(
        "tantivy",
        {"bm25": ""},
        writers.tantivy,
        (_OWN, _SINGLE, _FACTOR),
        _FIXED,
        "tantivy",
        install="pip install tantivy",
    ),
    "xapian": Engine(
        "Xapian",
        {"bm25": ""},
        writers.xapian,
        (_OWN, _FACTOR),
        variant="xapian",
        install="pip install xapian-bindings-binary",
    ),
    "duckdb": Engine(
        "DuckDB (fts)",
        {"bm25": ""},
        writers.duckdb,
        (_OWN, "Older versions may have another idf. The index is not updated when the table changes."),
        variant="duckdb",
        install="pip install duckdb",
    ),
    "sqlite": Engine(
        "SQLite (FTS5)",
        {"bm25": ""},
        writers.sqlite,
        (_OWN, _FACTOR),
        _FIXED,
        "sqlite",
        install="a Python with sqlite3",
    ),
}
"""The engines by name, as in the option ``--to``."""

_READERS = {".xml": ("solr", read_schema), ".sd": ("vespa", read_application)}


class EngineSetting(NamedTuple):
    """An index's model, parameter values and analysis, by lmtune's names, and notes on differences."""

    model: str
    values: dict[str, float]
    stemmer: str
    stopwords: str
    notes: tuple[str, ...]


def read_engine(path: Path, stopwords: str | None = None) -> EngineSetting:
    """Read the configuration of an existing index.

    Every key of the configuration must be known. A key that changes scores is either computed as the engine
    does, or refused.

    Parameters
    ----------
    path : pathlib.Path
        A Solr schema (.xml); a Vespa schema (.sd, with services.xml in the folder above the schema's folder,
        as in an application package); otherwise a file of `lmtune.engines.elastic_index.read_index`.
    stopwords : str, optional
        A file with the index's stopwords, if they are not one of lmtune's lists.

    Raises
    ------
    InputError
        For a file that is not a configuration, an unknown key, and a key that lmtune does not support.
    """
    engine, read = _READERS.get(path.suffix, ("elasticsearch", read_index))
    settings = read(path)
    model, (words, stemmer, notes) = ENGINES[engine].computed[settings.formula], settings.analysis
    known = find_model(model)
    try:
        known.check({**known.default, **settings.values, **known.fixed})
    except InputError as error:
        raise InputError(error.message, file=path, value=error.value, accepted=error.accepted) from None
    list_name = stopwords_name(path, words, stopwords)
    return EngineSetting(model, settings.values, stemmer, list_name, (*notes, *settings.notes))
