"""Read the similarity and analysis of a Vespa application from its schema and services.xml.

Sources: Vespa's reference documentation of schemas, rank features and Lucene linguistics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from lmtune.engines.index_analysis import (
    Analysis,
    IndexSettings,
    Keys,
    Named,
    check_keys,
    keys,
    read_chain,
    read_xml,
    similarity,
)
from lmtune.errors import InputError
from lmtune.io.files import read_bytes

_LINGUISTICS = "com.yahoo.language.lucene.LuceneLinguistics"
_ACCEPTED = "a Vespa schema with one such rank-profile, as lmtune deploy writes it"
_TOKENS = re.compile(r'"[^"\n]*"|[{}\n;]|[^{}\n;"]+|"')
_SCHEMA = keys("document field rank-profile fieldset document-summary", refused="stemming")
_FIELD = keys(
    "indexing summary attribute bolding alias",
    refused="stemming normalizing rank weight",
    index=("enable-bm25",),
    match=("text",),
)
_INDEXING = keys("index summary attribute")
_RANKING = keys(
    "first-phase rank-properties summary-features match-features inputs num-threads-per-search "
    "min-hits-per-thread num-search-partitions",
    refused="second-phase global-phase match-phase rank weight",
)
_PHASE = keys("expression", refused="rank-score-drop-limit keep-rank-count")
_PROPERTIES = keys("k1 b", refused="averageFieldLength")
_CONFIG = keys("configDir analysis")
_CHAIN = keys("tokenizer tokenFilters", refused="charFilters")
_PART = keys("name conf")


class _Block(NamedTuple):
    """A statement of a schema, with the statements between its braces."""

    head: str
    body: list[_Block]

    @property
    def key(self) -> str:
        """The statement's first word."""
        return re.split(r"[\s:]", self.head, maxsplit=1)[0]

    @property
    def value(self) -> str:
        """The text between the braces, or else after the colon."""
        return " ".join(block.head for block in self.body) or self.head.partition(":")[2].strip()

    @property
    def descendants(self) -> Iterator[_Block]:
        """All inner statements, at any depth."""
        for block in self.body:
            yield block
            yield from block.descendants

    def find(self, key: str) -> list[_Block]:
        """Return all inner statements, at any depth, whose first word is `key`."""
        return [block for block in self.descendants if block.key == key]

    def values(self) -> dict[str, str]:
        """Return the values of the direct inner statements, by first word."""
        return {block.key: block.value for block in self.body}


def read_application(path: Path) -> IndexSettings:
    """Read a schema with one rank profile of ``bm25(FIELD)``, and services.xml of the folder above.

    Raises
    ------
    InputError
        For a file that is not a schema or not XML, an unknown statement, and an analysis or ranking that
        lmtune does not support.
    """
    schema = _schema(path)
    profile, field = _profile(path, schema)
    _check_field(path, schema, field)
    formula, values = similarity(path, "BM25", _rank_properties(path, profile, field))
    return IndexSettings(formula, values, _analysis(path.parent.parent / "services.xml"))


def _schema(path: Path) -> _Block:
    """Parse a schema file and check its statements."""
    text = re.sub("#.*", "", read_bytes(path).decode("utf-8", "replace"))
    root = _Block("", [])
    parents, pending = [root], ""
    for token in (*_TOKENS.findall(text), "\n"):
        if token not in ("{", "}", "\n", ";"):
            pending += token
            continue
        head, pending = pending.strip(), ""
        if head or (token == "{" and not parents[-1].body):
            parents[-1].body.append(_Block(head, []))
        if token == "{":
            parents.append(parents[-1].body[-1])
        elif token == "}":
            parents.pop()
            if not parents:
                break
    if parents != [root] or len(root.body) != 1 or root.body[0].key not in ("schema", "search"):
        raise InputError("not a Vespa schema", file=path, accepted=_ACCEPTED)
    [schema] = root.body
    check_keys(path, "the schema", schema.values(), _SCHEMA)
    for block in (schema, *schema.find("document")):
        _check_inherits_nothing(path, block)
    return schema


def _check_inherits_nothing(path: Path, block: _Block) -> None:
    if "inherits" in block.head.split():
        accepted = "the inherited parts in the schema itself"
        raise InputError("inherited parts are not read", file=path, value=block.head, accepted=accepted)


def _profile(path: Path, schema: _Block) -> tuple[_Block, str]:
    """Return the only rank profile with BM25 as its first phase, and the ranked field."""
    phases = [
        (profile, re.sub(r"\s", "", expression.value))
        for profile in schema.find("rank-profile")
        for phase in profile.find("first-phase")
        for expression in phase.find("expression")
    ]
    scored = [
        (profile, match[1]) for profile, text in phases if (match := re.fullmatch(r"bm25\((\w+)\)", text))
    ]
    if len(scored) != 1:
        raise InputError(
            "not exactly one rank-profile with first phase bm25(FIELD)",
            file=path,
            value=[text for _, text in phases],
            accepted=_ACCEPTED,
        )
    [(profile, field)] = scored
    _check_inherits_nothing(path, profile)
    check_keys(path, profile.head, profile.values(), _RANKING)
    [phase] = profile.find("first-phase")
    check_keys(path, "first-phase", phase.values(), _PHASE)
    return profile, field


def _rank_properties(path: Path, profile: _Block, field: str) -> dict[str, str]:
    """Return the configured BM25 parameters by name."""
    values: dict[str, str] = {}
    for statement in (inner for block in profile.find("rank-properties") for inner in block.body):
        key, _, value = (part.strip().strip('"') for part in statement.head.partition(":"))
        name = re.sub(r"\s", "", key).removeprefix(f"bm25({field}).")
        check_keys(path, "rank-properties", {name: value}, _PROPERTIES)
        if values.setdefault(name, value) != value:
            raise InputError("a property has two values", file=path, value=key, accepted="one")
    return values


def _check_field(path: Path, schema: _Block, name: str) -> None:
    """Raise `InputError` unless a field is indexed for BM25 with default options."""
    head = re.compile(rf"field\s+{name}\s+type\s+string")
    fields = [field for field in schema.find("field") if head.fullmatch(field.head)]
    if len(fields) != 1:
        accepted = f"field {name} type string"
        raise InputError("the ranked field is not in the schema", file=path, value=name, accepted=accepted)
    [field] = fields
    values = field.values()
    check_keys(path, f"field {name}", {"index": "not enabled for bm25", **values}, _FIELD)
    parts = [part.strip() for part in values.get("indexing", "").split("|")]
    check_keys(path, f"indexing of field {name}", dict.fromkeys(parts, ""), _INDEXING)
    if "index" not in parts:
        raise InputError(f"field {name} is not indexed", file=path, value=parts, accepted="indexing: index")


def _analysis(path: Path) -> Analysis:
    """Read the analysis from services.xml, which must configure exactly one language."""
    components = read_xml(path).findall(f".//component[@class='{_LINGUISTICS}']")
    configs = [config for component in components for config in component.findall("config")]
    items = [item for config in configs for item in config.findall("analysis/item")]
    languages = [item.get("key", "") for item in items]
    if len(configs) != 1 or len(items) != 1 or not re.fullmatch("[a-z]{2,3}", languages[0]):
        raise InputError(
            f"not exactly one language in {_LINGUISTICS}",
            file=path,
            value=languages,
            accepted="services.xml with one, as lmtune deploy writes it",
        )
    [config], [chain] = configs, items
    _check_tags(path, "the analysis", config, _CONFIG)
    _check_tags(path, f"the analysis of {languages[0]}", chain, _CHAIN)
    tokenizers = [_component(path, element) for element in chain.findall("tokenizer")]
    filters = [_component(path, element) for element in chain.findall("tokenFilters/item")]
    return read_chain(path, tokenizers, filters, path.parent / config.findtext("configDir", ""))


def _check_tags(path: Path, owner: str, parts: ElementTree.Element, known: Keys) -> None:
    check_keys(path, owner, {part.tag: part.text for part in parts}, known)


def _component(path: Path, element: ElementTree.Element) -> Named:
    """Return a tokenizer or filter: Lucene's name and the parameters."""
    name = (element.findtext("name") or "").strip()
    _check_tags(path, name, element, _PART)
    return name, {item.get("key", ""): (item.text or "").strip() for item in element.iterfind("conf/item")}
