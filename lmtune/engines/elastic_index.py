"""An index of Elasticsearch or OpenSearch: what its settings and mappings say of scores.

Sources: the references of both (index modules, similarity, mapping parameters, text analysis) and
Elasticsearch's ``StemmerTokenFilterFactory``, ``SnowballTokenFilterFactory`` and ``TextFieldMapper``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lmtune.engines.index_analysis import (
    ENGLISH_STOP,
    LOWERCASE,
    MAX_TOKEN,
    POSSESSIVE,
    STEM,
    Analysis,
    IndexSettings,
    Keys,
    Step,
    analysis_of,
    check_keys,
    keys,
    same_analysis,
    similarity,
    stem_step,
    stop_step,
)
from lmtune.engines.writers import SNOWBALL
from lmtune.errors import InputError
from lmtune.index.analysis import LUCENE_ENGLISH
from lmtune.io.digests import read_json

_ACCEPTED = "settings and mappings of an index, as Elasticsearch gives them or lmtune deploy writes them"
_WORDS_THEMSELVES = ("the words themselves, as stopwords",)
_OLDEST = 6_000_000  # of version.created: Elasticsearch 6 keeps lengths as Lucene 7 does


_INDEX = keys("settings mappings aliases defaults data_stream lifecycle warmers")
# First parts of settings' names; similarity and analysis are read below.
_SETTINGS = keys(
    "allocation analyze append_only auto_expand_replicas blocks cache check_on_startup codec "
    "composite_index compound_format creation_date creation_date_string data_path dense_vector "
    "derived_source downsample esql fielddata flush_after_merge format frozen gc_deletes "
    " hidden highlight history indexing knn lifecycle load_fixed_bitset_filters_eagerly logsdb "
    "mapper mapping max_adjacency_matrix_filters max_docvalue_fields_search max_inner_result_window "
    "max_ngram_diff max_refresh_listeners max_regex_length max_rescore_window max_result_window "
    "max_script_fields max_shingle_diff max_slices_per_scroll max_terms_count merge mode number_of_replicas "
    "number_of_routing_shards number_of_shards optimize_auto_generated_id percolator plugins priority "
    "provided_name queries query recovery refresh_interval remote_store replication requests resize rollup "
    "routing routing_partition_size routing_path search shard soft_deletes sort store time_series "
    "top_metrics_max_size translog unassigned uuid verified_before_close version warmer write "
    "similarity analysis"
)
# Pipelines change documents or answers.
_PIPELINES: Keys = dict.fromkeys(
    ("default_pipeline", "final_pipeline", "search.default_pipeline"), ("_none",)
)
_ANALYSIS = keys("analyzer char_filter filter normalizer tokenizer")
_MAPPINGS = keys(
    "properties _source _meta _routing _size _field_names _doc_count _data_stream_timestamp dynamic "
    "dynamic_templates dynamic_date_formats date_detection numeric_detection runtime subobjects"
)
_TEXTS = ("text", "match_only_text", "search_as_you_type", "annotated_text", "semantic_text", "string")
_FIELD = keys(
    "analyzer search_analyzer search_quote_analyzer similarity fields copy_to store term_vector "
    "fielddata fielddata_frequency_filter eager_global_ordinals index_phrases index_prefixes "
    "position_increment_gap meta include_in_all ignore_above synthetic_source_keep",
    type=("text",),
    index=("true",),
    norms=("true",),
    index_options=("freqs", "positions", "offsets"),
    boost=("1",),
)
_STOPPED = keys("type stopwords", stopwords_path=_WORDS_THEMSELVES)
_ANALYZERS = {
    "standard": {**_STOPPED, "max_token_length": MAX_TOKEN},
    "english": {**_STOPPED, **keys("", refused="stem_exclusion_path", stem_exclusion=("[]",))},
    "custom": keys("type tokenizer filter position_increment_gap", char_filter=("[]",)),
}
_TOKENIZER = keys("", type=("standard",), max_token_length=MAX_TOKEN)
_FILTERS = {
    "lowercase": keys("type", refused="language"),
    "stop": {**_STOPPED, **keys("ignore_case remove_trailing")},
    "stemmer": keys("type language name"),
    "snowball": keys("type language name"),
    "porter_stem": keys("type"),
    "kstem": keys("type"),
}
# Languages of the filter "stemmer", in lower case, by lmtune's stemmers.
_POSSESSIVES = ("possessive_english", "possessiveenglish")
_STEMMERS = {"english": "porter", "porter": "porter", "porter2": "english"}
_STEMMERS |= dict.fromkeys(("light_english", "lightenglish", "kstem"), "krovetz")
_SNOWBALL = {language: name for name, language in SNOWBALL.items()}
_LISTS = {"_english_": LUCENE_ENGLISH, "_none_": frozenset[str]()}


def read_index(path: Path) -> IndexSettings:
    """Read an index's settings and mappings, of one field of text.

    Parameters
    ----------
    path : pathlib.Path
        What ``GET /INDEX`` answers, or the body that makes the index. Settings may be nested, or flat with
        dots, with ``index.`` before their names or not.

    Raises
    ------
    InputError
        For a file that is none, a key that is not known, and an analysis or similarity that lmtune lacks.
    """
    try:
        return _read(path, read_json(path))
    except (AttributeError, KeyError, TypeError, RecursionError):  # of another build
        raise InputError("no index's configuration", file=path, accepted=_ACCEPTED) from None


def _read(path: Path, index: Any) -> IndexSettings:
    if len(index) == 1 and not index.keys() & {"settings", "mappings"}:
        [index] = index.values()  # by the index's name
    check_keys(path, "the index", index, _INDEX)
    flat = _flat_settings(path, index.get("settings", {}))
    field = _field(path, index["mappings"])
    settings = _nested(flat)
    own = settings.get("analysis", {})
    check_keys(path, "analysis", own, _ANALYSIS)
    formula, values = _similarity(path, settings.get("similarity", {}), field)
    documents = field.get("analyzer", "default")
    searching = "default_search" if "default_search" in own.get("analyzer", {}) else documents
    queries = field.get("search_analyzer", searching)
    analysis = same_analysis(path, *(_analysis(path, own, which) for which in (documents, queries)))
    shards = str(flat.get("number_of_shards", 1))
    notes = () if shards == "1" else (f"with {shards} shards, search with search_type=dfs_query_then_fetch",)
    return IndexSettings(formula, values, analysis, notes)


def _flat_settings(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their names with dots, without ``index.``."""
    flat: dict[str, Any] = {}
    for name, value in _flat(settings):
        own = name.removeprefix("index.")
        if flat.setdefault(own, value) != value:
            raise InputError("a setting has two values", file=path, value=own, accepted="one")
        first = own.partition(".")[0]
        check_keys(
            path, "settings", {own if own in _PIPELINES else first: value}, {**_SETTINGS, **_PIPELINES}
        )
    created = str(flat.get("version.created", _OLDEST))
    if created.isdecimal() and int(created) < _OLDEST:
        raise InputError(
            "the index keeps lengths as Lucene did before 7",
            file=path,
            value=created,
            accepted="a newer index",
        )
    return flat


def _flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *above, last = name.split(".")
        inner = nested
        for part in above:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def _field(path: Path, mappings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the field of text."""
    if "properties" not in mappings and len(mappings) == 1:
        [mappings] = mappings.values()  # by a type's name, before Elasticsearch 7
    check_keys(path, "mappings", mappings, _MAPPINGS)
    every = [*_fields(mappings["properties"])]
    texts = [(name, own) for name, own in every if own.get("type") in _TEXTS]
    if len(texts) != 1:
        accepted = "mappings of one"
        raise InputError("not one field of text", file=path, value=[n for n, _ in texts], accepted=accepted)
    [(name, field)] = texts
    check_keys(path, f'field "{name}"', field, _FIELD)
    if copied := [other for other, own in every if name in _listed(own.get("copy_to", []))]:
        raise InputError(f'other fields are copied to "{name}"', file=path, value=copied, accepted="none")
    return field


def _fields(properties: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each field with its name, those within objects and of several kinds of one too."""
    for name, own in properties.items():
        yield f"{before}{name}", own
        for inner in ("properties", "fields"):
            yield from _fields(own.get(inner, {}), f"{before}{name}.")


def _similarity(
    path: Path, similarities: Mapping[str, Any], field: Mapping[str, Any]
) -> tuple[str, dict[str, float]]:
    named = field.get("similarity", "default" if "default" in similarities else "BM25")
    given = similarities.get(named, {"type": named})
    return similarity(path, given.get("type"), given)


def _listed(value: Any) -> list[str]:
    """Return a list's elements, which may be a text with commas or stand under numbers."""
    if isinstance(value, dict):
        value = [value[number] for number in sorted(value, key=lambda number: (len(number), number))]
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _analysis(path: Path, own: Mapping[str, Any], name: str) -> Analysis:
    """Return what the analyzer of a name does."""
    analyzer = own.get("analyzer", {}).get(name, {"type": "standard" if name == "default" else name})
    kind, place = analyzer.get("type", "custom"), f'analyzer "{name}"'
    check_keys(path, place, {"type": kind}, {"type": tuple(_ANALYZERS)})
    check_keys(path, place, analyzer, _ANALYZERS[kind])
    if kind == "standard":
        words = _words(path, place, analyzer.get("stopwords", "_none_"))
        return analysis_of(path, [Step(LOWERCASE), stop_step(words, ignore_case=False)])
    if kind == "english":
        words = _words(path, place, analyzer.get("stopwords", "_english_"))
        steps = [Step(POSSESSIVE), Step(LOWERCASE), stop_step(words, ignore_case=False)]
        return analysis_of(path, [*steps, Step(STEM, stemmer="porter")])
    named = analyzer["tokenizer"]
    tokenizer = own.get("tokenizer", {}).get(named, {"type": named})
    check_keys(path, f'tokenizer "{named}"', tokenizer, _TOKENIZER)
    return analysis_of(path, [_step(path, own, one) for one in _listed(analyzer.get("filter", []))])


def _step(path: Path, own: Mapping[str, Any], name: str) -> Step:
    """Return the filter of a name."""
    given = own.get("filter", {}).get(name, {"type": name})
    kind, place = given.get("type"), f'filter "{name}"'
    check_keys(path, place, {"type": kind}, {"type": tuple(_FILTERS)})
    check_keys(path, place, given, _FILTERS[kind])
    if kind == "stop":
        if given.get("stopwords", "_english_") == "_english_":
            return ENGLISH_STOP
        ignores = str(given.get("ignore_case", False)).lower() == "true"
        return stop_step(_words(path, place, given["stopwords"]), ignore_case=ignores)
    if kind == "snowball":
        language = str(given.get("language", given.get("name", "English")))
        return stem_step(path, place, language[:1].upper() + language[1:], _SNOWBALL)
    if kind == "stemmer":
        language = str(given.get("language", given.get("name", "porter"))).lower()
        if language in _POSSESSIVES:
            return Step(POSSESSIVE)
        return stem_step(path, place, language, {**_STEMMERS})
    return {
        "lowercase": Step(LOWERCASE),
        "porter_stem": Step(STEM, stemmer="porter"),
        "kstem": Step(STEM, stemmer="krovetz"),
    }[kind]


def _words(path: Path, place: str, stopwords: Any) -> frozenset[str]:
    """Return the words of a list; a list's name stands between underscores."""
    given = _listed(stopwords)
    for word in given:
        if word not in _LISTS and word.startswith("_") and word.endswith("_") and word != "_":
            raise InputError(
                f"{place} has a list of stopwords that lmtune does not have",
                file=path,
                value=word,
                accepted=f"{', '.join(_LISTS)}, or the words themselves",
            )
    return frozenset().union(*(_LISTS.get(word, {word}) for word in given))
