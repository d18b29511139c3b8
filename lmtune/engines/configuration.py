"""What an index of Elasticsearch, OpenSearch or Solr means here: analysis, model and setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from lmtune.engines.catalogue import ENGINES
from lmtune.errors import InputError, check_choice
from lmtune.indexing.stopwords import LISTS, LUCENE_ENGLISH, load_stopwords
from lmtune.options import read
from lmtune.storage.digests import read_json
from lmtune.storage.files import read_bytes

# Each similarity's formula, and its values with Lucene's defaults by lmtune's names.
_SIMILARITIES = {
    "BM25": ("bm25", {"k1": 1.2, "b": 0.75}),
    "LMDirichlet": ("dirichlet", {"mu": 2000.0}),
    "LMJelinekMercer": ("jelinek-mercer", {"lambda": 0.1}),
}
# Filters of Lucene's, and languages of their filter "stemmer", by lmtune's stemmers.
_STEMMERS = {"porter_stem": "porter", "kstem": "krovetz", "english": "porter", "porter": "porter"}
_STEMMERS |= {"porter2": "english", "light_english": "krovetz"}
_POSSESSIVE = "possessive_english"
_SOLR = "solr."
_SOLR_FILTERS = {
    f"{_SOLR}{name}FilterFactory": made
    for name, made in {
        "LowerCase": {"type": "lowercase"},
        "EnglishPossessive": {"type": "stemmer", "language": _POSSESSIVE},
        "Stop": {"type": "stop"},
        "PorterStem": {"type": "porter_stem"},
        "KStem": {"type": "kstem"},
    }.items()
}
_ACCEPTED = "settings and mappings of an index, as Elasticsearch gives them or lmtune deploy writes them"


class EngineSetting(NamedTuple):
    """An index's analysis and model, by lmtune's names, and what differs."""

    model: str
    values: dict[str, float]
    stemmer: str
    stopwords: str
    notes: tuple[str, ...]


def read_elastic(path: Path, stopwords: str | None = None) -> EngineSetting:
    """Read an index's settings and mappings, of one field of text.

    Parameters
    ----------
    path : pathlib.Path
        What ``GET /INDEX`` answers, or the body that makes the index.
    stopwords : str, optional
        A file that holds the index's own list, where it has one.

    Raises
    ------
    InputError
        For a file that is none, and an analysis or similarity that lmtune does not have.
    """
    try:
        return _read(path, read_json(path), stopwords)
    except (AttributeError, KeyError, TypeError):  # of another build
        raise InputError("no index's configuration", file=path, accepted=_ACCEPTED) from None


def read_engine(path: Path, stopwords: str | None = None) -> EngineSetting:
    """Read an index's configuration: Solr's schema where the name ends in .xml, else as `read_elastic`."""
    if path.suffix != ".xml":
        return read_elastic(path, stopwords)
    try:
        schema = ElementTree.fromstring(read_bytes(path))
    except ElementTree.ParseError:
        schema = ElementTree.Element("none")
    kinds = [own for own in schema.iter("fieldType") if own.get("class") == f"{_SOLR}TextField"]
    if len(kinds) != 1 or len(kinds[0].findall("analyzer")) != 1:
        accepted = "a schema of Solr with one fieldType of text and one analyzer, as lmtune deploy writes it"
        raise InputError("no index's configuration", file=path, accepted=accepted)
    return _read(path, _as_elastic(path, schema, kinds[0]), stopwords)


def _as_elastic(path: Path, schema: ElementTree.Element, kind: ElementTree.Element) -> dict[str, Any]:
    """Return a schema's field of text as Elasticsearch's settings and mappings."""
    tokenizer = " ".join(own.get("class", "") for own in kind.iter("tokenizer"))
    check_choice(
        f"{path}: a tokenizer that lmtune does not have", tokenizer, [f"{_SOLR}StandardTokenizerFactory"]
    )
    filters: dict[str, Any] = {}
    for number, own in enumerate(kind.iter("filter")):
        check_choice(f"{path}: a filter that lmtune does not have", own.get("class"), _SOLR_FILTERS)
        made = filters[str(number)] = dict(_SOLR_FILTERS[own.get("class", "")])
        if made["type"] == "stop" and (words := own.get("words")) is not None:
            made["stopwords"] = sorted(load_stopwords(str(path.parent / words)))
    scored = next(
        (own for own in (kind.find("similarity"), schema.find("similarity")) if own is not None), None
    )
    similarity: dict[str, Any] = {"type": "BM25"}
    if scored is not None and scored.get("class") != f"{_SOLR}SchemaSimilarityFactory":
        name = scored.get("class", "").removeprefix(_SOLR).removesuffix("SimilarityFactory")
        similarity = {"type": name} | {own.get("name", ""): own.text for own in scored}
    chain = {"type": "custom", "tokenizer": "standard", "filter": [*filters]}
    return {
        "settings": {
            "analysis": {"filter": filters, "analyzer": {"default": chain}},
            "similarity": {"default": similarity},
        },
        "mappings": {"properties": {"text": {"type": "text"}}},
    }


def _read(path: Path, index: Any, stopwords: str | None) -> EngineSetting:
    if len(index) == 1 and not index.keys() & {"settings", "mappings"}:
        [index] = index.values()  # by the index's name
    settings = index.get("settings", {})
    settings = settings.get("index", settings)
    texts = {name: own for name, own in index["mappings"]["properties"].items() if own.get("type") == "text"}
    chains, similarities = settings.get("analysis", {}), settings.get("similarity", {})
    if len(texts) != 1:
        raise InputError("not one field of text", file=path, value=[*texts], accepted="mappings of one")
    [field] = texts.values()
    named = field.get("similarity", "default" if "default" in similarities else "BM25")
    similarity = similarities.get(named, {"type": named})
    check_choice(f"{path}: a similarity that lmtune does not have", similarity.get("type"), _SIMILARITIES)
    formula, usual = _SIMILARITIES[similarity["type"]]
    values = {name: read(float, str(similarity.get(name, value)), name) for name, value in usual.items()}
    words, stemmer, notes = _analysis(path, chains, field.get("analyzer", "default"))
    return EngineSetting(
        ENGINES["elasticsearch"].computed[formula], values, stemmer, _named(path, words, stopwords), notes
    )


def _analysis(
    path: Path, chains: Mapping[str, Any], name: str
) -> tuple[frozenset[str], str, tuple[str, ...]]:
    """Return an analyzer's stopwords, its stemmer, and what differs from lmtune's analysis."""
    own = chains.get("analyzer", {}).get(name, {"type": "standard" if name == "default" else name})
    if own.get("type") == "english":
        return _listed(own.get("stopwords", "_english_")), "porter", ()
    built_in = own.get("type") == "standard"
    tokenizer = "standard" if built_in else own.get("tokenizer")
    check_choice(f"{path}: an analyzer or tokenizer that lmtune does not have", tokenizer, ("standard",))
    words, stemmer = _listed(own.get("stopwords", "_none_")), "none"
    kinds, order = [], {"lowercase": 0, _POSSESSIVE: 0, "stop": 1, **dict.fromkeys(_STEMMERS, 2)}
    for filter_name in ["lowercase"] if built_in else own.get("filter", []):
        made = chains.get("filter", {}).get(filter_name, {"type": filter_name})
        kind = made.get("language", "english") if made.get("type") == "stemmer" else made.get("type")
        check_choice(f"{path}: a filter that lmtune does not have", kind, order)
        words |= _listed(made.get("stopwords", "_english_")) if kind == "stop" else frozenset()
        stemmer = _STEMMERS.get(kind, stemmer)
        kinds.append(kind)
    places = [order[kind] for kind in kinds]
    if places != sorted(places) or places.count(2) > 1:
        accepted = f"lowercase and {_POSSESSIVE}, then stop, then one that stems"
        raise InputError("lmtune has no such order of filters", file=path, value=kinds, accepted=accepted)
    lacks = {"lowercase": "capital letters", _POSSESSIVE: "possessives ('s)"}
    kept = tuple(
        f"its terms keep {text}, lmtune's do not" for kind, text in lacks.items() if kind not in kinds
    )
    return words, stemmer, kept


def _listed(stopwords: str | Sequence[str]) -> frozenset[str]:
    """Return the words of a list, whose names stand between underscores."""
    given = stopwords.split(",") if isinstance(stopwords, str) else stopwords
    lists = {"_english_": LUCENE_ENGLISH, "_none_": frozenset[str]()}
    return frozenset().union(*(lists.get(word, {word}) for word in given))


def _named(path: Path, words: frozenset[str], file: str | None) -> str:
    """Return what lmtune calls stopwords: one of its lists, or the file that holds them."""
    for name in (*LISTS, *filter(None, [file])):
        if load_stopwords(name) == words:
            return name
    raise InputError(
        "the index has stopwords of its own",
        file=path,
        value=sorted(words),
        accepted="--stopwords, a file of these",
    )
