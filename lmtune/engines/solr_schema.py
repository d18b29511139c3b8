"""Read the similarity and analysis of a Solr index from its schema.

Sources: the Solr Reference Guide (field types, field properties, analyzers, similarity) and Solr's
similarity factories. Their defaults differ from Lucene's in part.
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

_ACCEPTED = "a Solr schema with one text fieldType, as lmtune deploy writes it"
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
_DEFAULTS = {"lambda": 0.7}  # LMJelinekMercerSimilarityFactory; Lucene's default is 0.1


def read_schema(path: Path) -> IndexSettings:
    """Read a schema with one text field type and one text field; stopword files are in the same folder.

    Raises
    ------
    InputError
        For a file that is not a schema, an unknown element or attribute, and an analysis or similarity that
        lmtune does not support.
    """
    schema = read_xml(path)
    elements = [
        element for child in schema for element in (child if child.tag in ("types", "fields") else [child])
    ]
    _check_tags(path, "the schema", [*schema, *elements], _SCHEMA)
    types = [
        element
        for element in elements
        if element.tag in _TYPES and _class_name(element).endswith("TextField")
    ]
    if len(types) != 1 or _class_name(types[0]) != "TextField":
        raise InputError("not an index configuration", file=path, accepted=_ACCEPTED)
    [text_type] = types
    owner = f'fieldType "{text_type.get("name")}"'
    check_keys(path, owner, text_type.attrib, _PROPERTIES)
    _check_tags(path, owner, text_type, _KIND)
    _check_phrases(path, schema, text_type)
    _check_field(path, elements, text_type.get("name"))
    formula, values = _similarity(path, text_type, schema)
    return IndexSettings(formula, values, _analysis(path, text_type))


def _check_tags(path: Path, owner: str, elements: Any, known: Keys) -> None:
    check_keys(path, owner, {element.tag: "" for element in elements}, known)


def _class_name(element: ElementTree.Element) -> str:
    """Return the name of an element's class, without its package."""
    return element.get("class", "").rpartition(".")[2]


def _check_phrases(path: Path, schema: ElementTree.Element, text_type: ElementTree.Element) -> None:
    """Raise `InputError` if a word that the tokenizer splits becomes a phrase query."""
    version = schema.get("version", "1.0")
    if text_type.get("autoGeneratePhraseQueries") is None and version in ("1.0", "1.1", "1.2", "1.3"):
        raise InputError(
            "words that the tokenizer splits are searched as phrases before version 1.4",
            file=path,
            value=version,
            accepted='a newer version, or autoGeneratePhraseQueries="false"',
        )


def _check_field(path: Path, elements: list[ElementTree.Element], type_name: str | None) -> None:
    """Raise `InputError` unless exactly one field has the text type, and no field is copied to it."""
    fields = [element for element in elements if element.tag in _FIELDS and element.get("type") == type_name]
    if len(fields) != 1:
        value = [field.get("name") for field in fields]
        raise InputError("not exactly one text field", file=path, value=value, accepted="a schema with one")
    [field] = fields
    name = field.get("name")
    check_keys(path, f'field "{name}"', field.attrib, _PROPERTIES)
    copies = [element for element in elements if element.tag == "copyField"]
    copied = [element.get("source") for element in copies if element.get("dest") == name]
    if copied:
        raise InputError(f'other fields are copied to "{name}"', file=path, value=copied, accepted="none")


def _similarity(
    path: Path, text_type: ElementTree.Element, schema: ElementTree.Element
) -> tuple[str, dict[str, float]]:
    """Return the formula and values of the type's similarity, or else of the schema's."""
    candidates = (text_type.find("similarity"), schema.find("similarity"))
    element = next((candidate for candidate in candidates if candidate is not None), None)
    if element is None:
        return similarity(path, "BM25", {})
    name = _class_name(element).removesuffix("Factory").removesuffix("Similarity")
    _check_tags(path, f"similarity {name}", element, _VALUES)
    parameters = {value.get("name", ""): value.text for value in element}
    attributes = {key: value for key, value in element.attrib.items() if key != "class"}
    if attributes:
        raise InputError(
            "Solr does not read attributes of a similarity",
            file=path,
            value=attributes,
            accepted='elements, such as <float name="k1">',
        )
    if name == "Schema":  # SchemaSimilarityFactory: each field type has its similarity, BM25 by default
        check_keys(path, "the schema's similarity", parameters, {})
        return similarity(path, "BM25", {})
    return similarity(path, name, parameters, _DEFAULTS)


def _analysis(path: Path, text_type: ElementTree.Element) -> Analysis:
    """Return the analysis of documents and queries."""
    analyzers = text_type.findall("analyzer")
    by_type: dict[str | None, ElementTree.Element] = {
        analyzer.get("type"): analyzer for analyzer in analyzers
    }
    documents = by_type.get("index", by_type.get(None))
    if documents is None or len(by_type) != len(analyzers):
        raise InputError(
            "no analyzer of documents, or several", file=path, value=[*by_type], accepted="one analyzer"
        )
    queries = by_type.get("query", documents)
    return same_analysis(path, *(_chain(path, analyzer) for analyzer in (documents, queries)))


def _chain(path: Path, analyzer: ElementTree.Element) -> Analysis:
    check_keys(path, "the analyzer", analyzer.attrib, {"type": ("index", "query"), "class": REFUSED})
    _check_tags(path, "the analyzer", analyzer, _CHAIN)
    tokenizers = [_component(element, "Tokenizer") for element in analyzer.findall("tokenizer")]
    filters = [_component(element, "Filter") for element in analyzer.findall("filter")]
    return read_chain(path, tokenizers, filters, path.parent)


def _component(element: ElementTree.Element, kind: str) -> Named:
    """Return a tokenizer or filter: Lucene's name, from its name or class attribute, and its parameters."""
    name = element.get("name") or _class_name(element).removesuffix(f"{kind}Factory")
    return name, {key: value for key, value in element.attrib.items() if key not in ("name", "class")}
