"""Read the similarity and analysis of an Elasticsearch or OpenSearch index from its settings and mappings.

Sources: the reference documentation of both engines (index modules, similarity, mapping parameters, text
analysis), and Elasticsearch's ``StemmerTokenFilterFactory``, ``SnowballTokenFilterFactory`` and
``TextFieldMapper``.
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

_ACCEPTED = "settings and mappings of an index, from Elasticsearch (GET /INDEX) or lmtune deploy"
_WORDS_THEMSELVES = ("the words themselves, as stopwords",)
_OLDEST = 6_000_000  # lowest version.created: since Elasticsearch 6, lengths are encoded as in Lucene 7


_INDEX = keys("settings mappings aliases defaults data_stream lifecycle warmers")
# First parts of the names of settings. Only similarity and analysis are read; the others change no score.
_SETTINGS: Keys = {
    **keys(
        "allocation analyze append_only auto_expand_replicas blocks cache check_on_startup codec "
        "composite_index compound_format creation_date creation_date_string data_path dense_vector "
        "derived_source downsample esql fielddata flush_after_merge format frozen gc_deletes hidden "
        "highlight history indexing knn lifecycle load_fixed_bitset_filters_eagerly logsdb"
    ),
    **keys(
        "mapper mapping max_adjacency_matrix_filters max_docvalue_fields_search "
        "max_inner_result_window max_ngram_diff max_refresh_listeners max_regex_length "
        "max_rescore_window max_result_window max_script_fields max_shingle_diff "
        "max_slices_per_scroll max_terms_count merge mode number_of_replicas number_of_routing_shards "
        "number_of_shards optimize_auto_generated_id percolator plugins priority provided_name "
        "queries query recovery refresh_interval remote_store replication"
    ),
    **keys(
        "requests resize rollup routing routing_partition_size routing_path search shard soft_deletes "
        "sort store time_series top_metrics_max_size translog unassigned uuid verified_before_close "
        "version warmer write similarity analysis"
    ),
}
# Pipelines can change documents or search results.
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
# Languages of the filter "stemmer", in lower case -> lmtune's stemmers.
_POSSESSIVES = ("possessive_english", "possessiveenglish")
_STEMMERS = {"english": "porter", "porter": "porter", "porter2": "english"}
_STEMMERS |= dict.fromkeys(("light_english", "lightenglish", "kstem"), "krovetz")
_SNOWBALL = {language: name for name, language in SNOWBALL.items()}
_LISTS = {"_english_": LUCENE_ENGLISH, "_none_": frozenset[str]()}


def read_index(path: Path) -> IndexSettings:
    """Read the settings and mappings of an index with one text field.

    Parameters
    ----------
    path : pathlib.Path
        JSON: the response of ``GET /INDEX``, or the request body that creates the index. Settings are
        nested, or flat with dots; the prefix ``index.`` is optional.

    Raises
    ------
    InputError
        For a file that is not an index configuration, an unknown key, and an analysis or similarity that
        lmtune does not support.
    """
    try:
        return _read(path, read_json(path))
    except (AttributeError, KeyError, TypeError, RecursionError):  # JSON of another structure
        raise InputError("not an index configuration", file=path, accepted=_ACCEPTED) from None


def _read(path: Path, index: Any) -> IndexSettings:
    if len(index) == 1 and not index.keys() & {"settings", "mappings"}:
        [index] = index.values()  # GET /INDEX nests the configuration under the index name
    check_keys(path, "the index", index, _INDEX)
    flat = _flat_settings(path, index.get("settings", {}))
    field = _text_field(path, index["mappings"])
    settings = _nested(flat)
    definitions = settings.get("analysis", {})
    check_keys(path, "analysis", definitions, _ANALYSIS)
    formula, values = _similarity(path, settings.get("similarity", {}), field)
    documents = field.get("analyzer", "default")
    default = "default_search" if "default_search" in definitions.get("analyzer", {}) else documents
    queries = field.get("search_analyzer", default)
    analysis = same_analysis(path, *(_analysis(path, definitions, name) for name in (documents, queries)))
    shards = str(flat.get("number_of_shards", 1))
    notes = () if shards == "1" else (f"with {shards} shards, search with search_type=dfs_query_then_fetch",)
    return IndexSettings(formula, values, analysis, notes)


def _flat_settings(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by dotted name, without the prefix ``index.``."""
    flat: dict[str, Any] = {}
    for full_name, value in _flat(settings):
        name = full_name.removeprefix("index.")
        if flat.setdefault(name, value) != value:
            raise InputError("a setting has two values", file=path, value=name, accepted="one")
        first = name.partition(".")[0]
        check_keys(
            path, "settings", {name if name in _PIPELINES else first: value}, {**_SETTINGS, **_PIPELINES}
        )
    created = str(flat.get("version.created", _OLDEST))
    if created.isdecimal() and int(created) < _OLDEST:
        raise InputError(
            "the index encodes document lengths as Lucene before 7",
            file=path,
            value=created,
            accepted="a newer index",
        )
    return flat


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, last = name.split(".")
        inner = nested
        for part in parents:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def _text_field(path: Path, mappings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the mapping of the only text field."""
    if "properties" not in mappings and len(mappings) == 1:
        [mappings] = mappings.values()  # Elasticsearch before 7 nests mappings under a type name
    check_keys(path, "mappings", mappings, _MAPPINGS)
    fields = [*_fields(mappings["properties"])]
    texts = [(name, mapping) for name, mapping in fields if mapping.get("type") in _TEXTS]
    if len(texts) != 1:
        accepted = "mappings with one"
        raise InputError(
            "not exactly one text field", file=path, value=[n for n, _ in texts], accepted=accepted
        )
    [(name, field)] = texts
    check_keys(path, f'field "{name}"', field, _FIELD)
    if copied := [other for other, mapping in fields if name in _as_list(mapping.get("copy_to", []))]:
        raise InputError(f'other fields are copied to "{name}"', file=path, value=copied, accepted="none")
    return field


def _fields(properties: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and mapping of each field, including fields of objects and multi-fields."""
    for name, mapping in properties.items():
        yield f"{prefix}{name}", mapping
        for inner in ("properties", "fields"):
            yield from _fields(mapping.get(inner, {}), f"{prefix}{name}.")


def _similarity(
    path: Path, similarities: Mapping[str, Any], field: Mapping[str, Any]
) -> tuple[str, dict[str, float]]:
    name = field.get("similarity", "default" if "default" in similarities else "BM25")
    definition = similarities.get(name, {"type": name})
    return similarity(path, definition.get("type"), definition)


def _as_list(value: Any) -> list[str]:
    """Return the elements of a list, a comma-separated string or a mapping with numeric keys."""
    if isinstance(value, dict):
        value = [value[number] for number in sorted(value, key=lambda number: (len(number), number))]
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _analysis(path: Path, definitions: Mapping[str, Any], name: str) -> Analysis:
    """Return the analysis of a named analyzer, custom or built in."""
    analyzer = definitions.get("analyzer", {}).get(name, {"type": "standard" if name == "default" else name})
    kind, owner = analyzer.get("type", "custom"), f'analyzer "{name}"'
    check_keys(path, owner, {"type": kind}, {"type": tuple(_ANALYZERS)})
    check_keys(path, owner, analyzer, _ANALYZERS[kind])
    if kind == "standard":
        words = _stopwords(path, owner, analyzer.get("stopwords", "_none_"))
        return analysis_of(path, [Step(LOWERCASE), stop_step(words, ignore_case=False)])
    if kind == "english":
        words = _stopwords(path, owner, analyzer.get("stopwords", "_english_"))
        steps = [Step(POSSESSIVE), Step(LOWERCASE), stop_step(words, ignore_case=False)]
        return analysis_of(path, [*steps, Step(STEM, stemmer="porter")])
    tokenizer_name = analyzer["tokenizer"]
    tokenizer = definitions.get("tokenizer", {}).get(tokenizer_name, {"type": tokenizer_name})
    check_keys(path, f'tokenizer "{tokenizer_name}"', tokenizer, _TOKENIZER)
    filters = _as_list(analyzer.get("filter", []))
    return analysis_of(path, [_step(path, definitions, filter_name) for filter_name in filters])


def _step(path: Path, definitions: Mapping[str, Any], name: str) -> Step:
    """Return the step of a named filter, custom or built in."""
    parameters = definitions.get("filter", {}).get(name, {"type": name})
    kind, owner = parameters.get("type"), f'filter "{name}"'
    check_keys(path, owner, {"type": kind}, {"type": tuple(_FILTERS)})
    check_keys(path, owner, parameters, _FILTERS[kind])
    if kind == "stop":
        if parameters.get("stopwords", "_english_") == "_english_":
            return ENGLISH_STOP
        ignore_case = str(parameters.get("ignore_case", False)).lower() == "true"
        return stop_step(_stopwords(path, owner, parameters["stopwords"]), ignore_case=ignore_case)
    if kind == "snowball":
        language = str(parameters.get("language", parameters.get("name", "English")))
        return stem_step(path, owner, language[:1].upper() + language[1:], _SNOWBALL)
    if kind == "stemmer":
        language = str(parameters.get("language", parameters.get("name", "porter"))).lower()
        if language in _POSSESSIVES:
            return Step(POSSESSIVE)
        return stem_step(path, owner, language, {**_STEMMERS})
    return {
        "lowercase": Step(LOWERCASE),
        "porter_stem": Step(STEM, stemmer="porter"),
        "kstem": Step(STEM, stemmer="krovetz"),
    }[kind]


def _stopwords(path: Path, owner: str, stopwords: Any) -> frozenset[str]:
    """Return the stopwords of a setting that has words, or names of lists such as ``_english_``."""
    entries = _as_list(stopwords)
    for word in entries:
        if word not in _LISTS and word.startswith("_") and word.endswith("_") and word != "_":
            raise InputError(
                f"unsupported stopword list of {owner}",
                file=path,
                value=word,
                accepted=f"{', '.join(_LISTS)}, or the words themselves",
            )
    return frozenset().union(*(_LISTS.get(word, {word}) for word in entries))
