"""The engines that a setting can be deployed to, as data; and how their own files are read."""

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

# What Lucene's similarities do otherwise than the models of `lmtune.models`.
_LUCENE = {
    "bm25": "",
    "dirichlet": (
        "Lucene counts a length once for each query word that the document holds and gives no word less than "
        "nothing: exact for --model lucene-dirichlet, another ranking than dirichlet's."
    ),
    "jelinek-mercer": "Lucene adds one to a word's count in the collection, and to the collection's size.",
}
_ELASTICS = _LUCENE | {BY_FIELD: ""}
_SINGLE = "Values and scores are in single precision: scores as near as that may change places."
_ANALYSIS = "The analysis chain is the tuned one, by Lucene's names."
_STEMMERS = {
    "porter": "",
    "krovetz": "Lucene's KStem has another dictionary than lmtune's krovetz (a few words differ).",
    "none": "",
}
# Percent of the most frequent words whose stem is another by PyStemmer 3.1: experiments/choices/stemmers.py.
_PARTED = {"english": 0.18, "french": 0.15, "german": 2.8, "lithuanian": 0.2, "romanian": 3.8, "swedish": 1.5}
_PARTED |= {"danish": 0.02, "finnish": 0.04, "italian": 0.003, "norwegian": 0.06, "spanish": 0.08}
_OLDER = (
    "Lucene's Snowball is older than lmtune's: {:g}% of the 30,000 most frequent words have another stem."
)
_FILTERS = _STEMMERS | {
    name: _OLDER.format(_PARTED[name]) if name in _PARTED else "" for name in writers.SNOWBALL
}
_SHARDS = (
    "idf and mean length are those of a shard: one here; with several ask with "
    "search_type=dfs_query_then_fetch. An index's similarity is changed while it is closed."
)
_FACTOR = "BM25's factor k1 + 1, where the version has it, changes no order."
_OWN = "The terms are lmtune's own, which the file imports: no analysis of the engine's is used."
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
            "pyserini has no call for Jelinek-Mercer, nor for stopwords of your own: Anserini has flags.",
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
            "N and document frequencies are those of a content node and of its largest index.",
            "How Vespa splits a query before the analysis depends on its version: compare runs.",
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
                "Terrier counts a length once for each query word that the document holds, not once for each "
                "word of the query."
            ),
            "jelinek-mercer": "",
            COMBINED: (
                "Terrier's idf is log((N - df + 0.5) / (df + 0.5)), df the documents that hold the word in "
                "any field; a word that the query has twice counts 1.8 times. Its k1 is fixed: the weights "
                "are multiplied by 1.2 / k1, which ranks alike."
            ),
        },
        writers.pyterrier,
        (_OWN, "The names of the language models' controls depend on Terrier's version; both are set."),
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
        (_OWN, "Older versions may have another idf. Its index does not follow changes of the table."),
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
        install="a Python that has sqlite3",
    ),
}
"""The engines by the name that ``--to`` takes."""

_READERS = {".xml": ("solr", read_schema), ".sd": ("vespa", read_application)}


class EngineSetting(NamedTuple):
    """An index's analysis and model, by lmtune's names, and what differs."""

    model: str
    values: dict[str, float]
    stemmer: str
    stopwords: str
    notes: tuple[str, ...]


def read_engine(path: Path, stopwords: str | None = None) -> EngineSetting:
    """Read an index's configuration.

    Every key is known: what changes scores is taken as the engine does, or refused.

    Parameters
    ----------
    path : pathlib.Path
        Solr's schema (.xml), Vespa's (.sd, with services.xml in the folder above its own, as in an
        application package), else what `lmtune.engines.elastic_index.read_index` reads.
    stopwords : str, optional
        A file that holds the index's own list, where it has one.

    Raises
    ------
    InputError
        For a file that is none, a key that is not known, and what lmtune does not have.
    """
    engine, read = _READERS.get(path.suffix, ("elasticsearch", read_index))
    found = read(path)
    model, (words, stemmer, notes) = ENGINES[engine].computed[found.formula], found.analysis
    known = find_model(model)
    try:
        known.check({**known.default, **found.values, **known.fixed})
    except InputError as error:
        raise InputError(error.message, file=path, value=error.value, accepted=error.accepted) from None
    named = stopwords_name(path, words, stopwords)
    return EngineSetting(model, found.values, stemmer, named, (*notes, *found.notes))
