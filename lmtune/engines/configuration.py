"""What an index of Elasticsearch, OpenSearch, Solr or Vespa means here: analysis, model and setting."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from lmtune.engines.catalogue import ENGINES
from lmtune.engines.lucene_files import SNOWBALL
from lmtune.errors import InputError, check_choice
from lmtune.indexing.analysis import LISTS, LUCENE_ENGLISH, load_stopwords
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
_STEMMERS |= {f"snowball {language}": name for name, language in SNOWBALL.items()}
_POSSESSIVE = "possessive_english"
# Elasticsearch's filters by Lucene's names, in lower case, which Vespa and, of classes, Solr have.
_FILTERS = {
    "lowercase": {"type": "lowercase"},
    "englishpossessive": {"type": "stemmer", "language": _POSSESSIVE},
    "stop": {"type": "stop"},
    "porterstem": {"type": "porter_stem"},
    "kstem": {"type": "kstem"},
    "snowballporter": {"type": "snowball"},
}
_SOLR, _LINGUISTICS = "solr.", "com.yahoo.language.lucene.LuceneLinguistics"
_PROFILE = re.compile(r"\brank-profile\s+\S+\s.*?(?=\brank-profile\s|\Z)", re.DOTALL)
_FIRST_PHASE = re.compile(r"\bfirst-phase\s*\{\s*expression\s*[:{]\s*([^\n}]*)")
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
    """Read an index's configuration: Solr's schema (.xml), Vespa's (.sd), else as `read_elastic`.

    Vespa's services.xml stands in the folder above the schema's, as in its application packages.
    """
    if path.suffix == ".xml":
        return _read(path, _solr(path), stopwords)
    if path.suffix == ".sd":
        return _read(path, _vespa(path), stopwords)._replace(model=ENGINES["vespa"].computed["bm25"])
    return read_elastic(path, stopwords)


def _xml(path: Path) -> ElementTree.Element:
    """Return a file's root, an empty one where it is no XML."""
    try:
        return ElementTree.fromstring(read_bytes(path))
    except ElementTree.ParseError:
        return ElementTree.Element("none")


def _solr(path: Path) -> dict[str, Any]:
    """Return a schema's field of text as Elasticsearch's settings and mappings."""
    schema = _xml(path)
    kinds = [own for own in schema.iter("fieldType") if own.get("class") == f"{_SOLR}TextField"]
    if len(kinds) != 1 or len(kinds[0].findall("analyzer")) != 1:
        accepted = "a schema of Solr with one fieldType of text and one analyzer, as lmtune deploy writes it"
        raise InputError("no index's configuration", file=path, accepted=accepted)
    [kind] = kinds
    own = (kind.find("similarity"), schema.find("similarity"))
    scored = next((one for one in own if one is not None), None)
    similarity: dict[str, Any] = {"type": "BM25"}
    if scored is not None and scored.get("class") != f"{_SOLR}SchemaSimilarityFactory":
        name = scored.get("class", "").removeprefix(_SOLR).removesuffix("SimilarityFactory")
        similarity = {"type": name} | {value.get("name", ""): value.text for value in scored}
    tokenizers = [_lucene_name(one, "Tokenizer") for one in kind.iter("tokenizer")]
    filters = [(_lucene_name(one, "Filter"), one.attrib) for one in kind.iter("filter")]
    return _as_elastic(path, tokenizers, filters, path.parent, similarity)


def _lucene_name(element: ElementTree.Element, kind: str) -> str:
    """Return the name of a tokenizer or filter, which Solr has it by or its class is called after."""
    return element.get("name") or element.get("class", "").removeprefix(_SOLR).removesuffix(f"{kind}Factory")


def _vespa(path: Path) -> dict[str, Any]:
    """Return a schema's rank profile and the analysis of its services as Elasticsearch's."""
    schema = re.sub("#.*", "", read_bytes(path).decode("utf-8", "replace"))
    ranked = [
        (own, found[1].strip()) for own in _PROFILE.findall(schema) if (found := _FIRST_PHASE.search(own))
    ]
    scored = [(own, found[1]) for own, phase in ranked if (found := re.fullmatch(r"bm25\((\w+)\)", phase))]
    if len(scored) != 1:
        raise InputError(
            "not one rank-profile whose first phase is bm25(FIELD)",
            file=path,
            value=[phase for _, phase in ranked],
            accepted="a schema of Vespa with one, as lmtune deploy writes it",
        )
    [(profile, field)] = scored
    values = dict(re.findall(rf"\bbm25\({field}\)\.(\w+)\s*:\s*(\S+)", profile))
    services = path.parent.parent / "services.xml"
    config = _xml(services).find(f".//component[@class='{_LINGUISTICS}']/config")
    chains = [] if config is None else config.findall("analysis/item")
    if config is None or len(chains) != 1:
        raise InputError(
            f"not one language's analysis of {_LINGUISTICS}",
            file=services,
            value=[own.get("key") for own in chains],
            accepted="services.xml with one, as lmtune deploy writes it",
        )
    [chain] = chains
    filters = [
        (own.findtext("name", ""), {one.get("key", ""): one.text or "" for one in own.iterfind("conf/item")})
        for own in chain.iterfind("tokenFilters/item")
    ]
    tokenizers = [own.findtext("name", "") for own in chain.iterfind("tokenizer")]
    folder = services.parent / config.findtext("configDir", "")
    return _as_elastic(services, tokenizers, filters, folder, {"type": "BM25", **values})


def _as_elastic(
    path: Path,
    tokenizers: Sequence[str],
    filters: Sequence[tuple[str, Mapping[str, str]]],
    folder: Path,
    similarity: Mapping[str, Any],
) -> dict[str, Any]:
    """Return an analysis by Lucene's names, files of stopwords in a folder, as an index of Elasticsearch."""
    check_choice(f"{path}: a tokenizer that lmtune does not have", " ".join(tokenizers).lower(), ["standard"])
    made: dict[str, Any] = {}
    for number, (name, given) in enumerate(filters):
        known = name.lower() if name.lower() in _FILTERS else name
        check_choice(f"{path}: a filter that lmtune does not have", known, _FILTERS)
        made[str(number)] = dict(_FILTERS[known])
        if known == "stop" and "words" in given:
            made[str(number)]["stopwords"] = sorted(load_stopwords(str(folder / given["words"])))
        if known == "snowballporter":
            made[str(number)]["language"] = given.get("language", "English")
    chain = {"type": "custom", "tokenizer": "standard", "filter": [*made]}
    return {
        "settings": {
            "analysis": {"filter": made, "analyzer": {"default": chain}},
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
        kind = made.get("type")
        if kind in ("stemmer", "snowball"):
            language = made.get("language", "English")
            kind = language.lower() if kind == "stemmer" else f"snowball {language}"
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
