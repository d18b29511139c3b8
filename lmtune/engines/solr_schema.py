"""A schema of Solr: what it says of scores.

Sources: the Solr Reference Guide (field types, field properties, analyzers, similarity) and Solr's
similarity factories, whose defaults are not all Lucene's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from lmtune.engines.index_analysis import (
    REFUSED,
    Analysis,
    IndexSettings,
    Keys,
    Named,
    check_keys,
    keys,
    read_chain,
    read_xml,
    same_analysis,
    similarity,
)
from lmtune.errors import InputError

_ACCEPTED = "a schema of Solr with one fieldType of text, as lmtune deploy writes it"
_TYPES, _FIELDS = ("fieldType", "fieldtype"), ("field", "dynamicField")
_SCHEMA = keys(
    "fieldType fieldtype field dynamicField types fields copyField uniqueKey similarity defaultSearchField"
)
_PROPERTIES = keys(
    "name class type default stored docValues multiValued required large uninvertible termVectors "
    "termPositions termOffsets termPayloads omitPositions storeOffsetsWithPositions sortMissingFirst "
    "sortMissingLast useDocValuesAsStored positionIncrementGap enableGraphQueries synonymQueryStyle "
    "docValuesFormat postingsFormat",
    indexed=("true",),
    omitNorms=("false",),
    omitTermFreqAndPositions=("false",),
    autoGeneratePhraseQueries=("false",),
)
_KIND = keys("analyzer similarity")
_CHAIN = keys("tokenizer filter", refused="charFilter")
_VALUES = keys("str bool int long float double")
_DEFAULTS = {"lambda": 0.7}  # of LMJelinekMercerSimilarityFactory; Lucene's engines otherwise have 0.1


def read_schema(path: Path) -> IndexSettings:
    """Read a schema with one type and one field of text; its stopwords are beside it.

    Raises
    ------
    InputError
        For a file that is none, a part or attribute that is not known, and what lmtune does not have.
    """
    schema = read_xml(path)
    parts = [part for own in schema for part in (own if own.tag in ("types", "fields") else [own])]
    _check_tags(path, "the schema", [*schema, *parts], _SCHEMA)
    kinds = [own for own in parts if own.tag in _TYPES and _class(own).endswith("TextField")]
    if len(kinds) != 1 or _class(kinds[0]) != "TextField":
        raise InputError("no index's configuration", file=path, accepted=_ACCEPTED)
    [kind] = kinds
    place = f'fieldType "{kind.get("name")}"'
    check_keys(path, place, kind.attrib, _PROPERTIES)
    _check_tags(path, place, kind, _KIND)
    _check_phrases(path, schema, kind)
    _check_field(path, parts, kind.get("name"))
    formula, values = _similarity(path, kind, schema)
    return IndexSettings(formula, values, _analysis(path, kind))


def _check_tags(path: Path, place: str, parts: Any, known: Keys) -> None:
    check_keys(path, place, {part.tag: "" for part in parts}, known)


def _class(element: ElementTree.Element) -> str:
    """Return a class's name without its package."""
    return element.get("class", "").rpartition(".")[2]


def _check_phrases(path: Path, schema: ElementTree.Element, kind: ElementTree.Element) -> None:
    """Raise `InputError` where words that the tokenizer splits are searched as phrases."""
    version = schema.get("version", "1.0")
    if kind.get("autoGeneratePhraseQueries") is None and version in ("1.0", "1.1", "1.2", "1.3"):
        raise InputError(
            "words with marks inside are searched as phrases before version 1.4",
            file=path,
            value=version,
            accepted='a newer version, or autoGeneratePhraseQueries="false"',
        )


def _check_field(path: Path, parts: list[ElementTree.Element], kind: str | None) -> None:
    """Raise `InputError` unless one field is of a type, by itself."""
    fields = [own for own in parts if own.tag in _FIELDS and own.get("type") == kind]
    if len(fields) != 1:
        value = [own.get("name") for own in fields]
        raise InputError("not one field of text", file=path, value=value, accepted="a schema with one")
    [field] = fields
    name = field.get("name")
    check_keys(path, f'field "{name}"', field.attrib, _PROPERTIES)
    copied = [own.get("source") for own in parts if own.tag == "copyField" and own.get("dest") == name]
    if copied:
        raise InputError(f'other fields are copied to "{name}"', file=path, value=copied, accepted="none")


def _similarity(
    path: Path, kind: ElementTree.Element, schema: ElementTree.Element
) -> tuple[str, dict[str, float]]:
    """Return the formula and values of a type's similarity, or else of the schema's."""
    own = next((one for one in (kind.find("similarity"), schema.find("similarity")) if one is not None), None)
    if own is None:
        return similarity(path, "BM25", {})
    name = _class(own).removesuffix("Factory").removesuffix("Similarity")
    _check_tags(path, f"similarity {name}", own, _VALUES)
    given = {value.get("name", ""): value.text for value in own}
    attributes = {key: value for key, value in own.attrib.items() if key != "class"}
    if attributes:
        raise InputError(
            "Solr does not read attributes of a similarity",
            file=path,
            value=attributes,
            accepted='elements, such as <float name="k1">',
        )
    if name == "Schema":  # its fields' own
        check_keys(path, "the schema's similarity", given, {})
        return similarity(path, "BM25", {})
    return similarity(path, name, given, _DEFAULTS)


def _analysis(path: Path, kind: ElementTree.Element) -> Analysis:
    """Return the analysis of documents and queries."""
    chains: dict[str | None, ElementTree.Element] = {own.get("type"): own for own in kind.findall("analyzer")}
    documents = chains.get("index", chains.get(None))
    if documents is None or len(chains) != len(kind.findall("analyzer")):
        raise InputError(
            "no analyzer of documents, or several", file=path, value=[*chains], accepted="one analyzer"
        )
    queries = chains.get("query", documents)
    return same_analysis(path, *(_chain(path, own) for own in (documents, queries)))


def _chain(path: Path, analyzer: ElementTree.Element) -> Analysis:
    check_keys(path, "the analyzer", analyzer.attrib, {"type": ("index", "query"), "class": REFUSED})
    _check_tags(path, "the analyzer", analyzer, _CHAIN)
    tokenizers = [_named(own, "Tokenizer") for own in analyzer.findall("tokenizer")]
    filters = [_named(own, "Filter") for own in analyzer.findall("filter")]
    return read_chain(path, tokenizers, filters, path.parent)


def _named(element: ElementTree.Element, kind: str) -> Named:
    """Return Lucene's name of a tokenizer or filter, by name or class, and its parameters."""
    name = element.get("name") or _class(element).removesuffix(f"{kind}Factory")
    return name, {key: value for key, value in element.attrib.items() if key not in ("name", "class")}
