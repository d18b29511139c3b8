"""A schema of Vespa and its services: what they say of scores.

Sources: Vespa's references of schemas, rank features and its Lucene linguistics.
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
_ACCEPTED = "a schema of Vespa with one, as lmtune deploy writes it"
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
    """A statement, with those between its braces."""

    head: str
    body: list[_Block]

    @property
    def key(self) -> str:
        """Its first word."""
        return re.split(r"[\s:]", self.head, maxsplit=1)[0]

    @property
    def value(self) -> str:
        """What follows the colon, or stands between the braces."""
        return " ".join(own.head for own in self.body) or self.head.partition(":")[2].strip()

    @property
    def all(self) -> Iterator[_Block]:
        """All statements within, at any depth."""
        for own in self.body:
            yield own
            yield from own.all

    def named(self, key: str) -> list[_Block]:
        """Return all statements within that begin with a word."""
        return [own for own in self.all if own.key == key]


def read_application(path: Path) -> IndexSettings:
    """Read a schema with one rank profile of ``bm25(FIELD)``, below the services.xml with the analysis.

    Raises
    ------
    InputError
        For files that are none, a statement that is not known, and what lmtune does not have.
    """
    schema = _schema(path)
    profile, field = _profile(path, schema)
    _check_field(path, schema, field)
    formula, values = similarity(path, "BM25", _rank_properties(path, profile, field))
    return IndexSettings(formula, values, _analysis(path.parent.parent / "services.xml"))


def _schema(path: Path) -> _Block:
    """Return the schema's block."""
    text = re.sub("#.*", "", read_bytes(path).decode("utf-8", "replace"))
    root = _Block("", [])
    above, pending = [root], ""
    for token in (*_TOKENS.findall(text), "\n"):
        if token not in ("{", "}", "\n", ";"):
            pending += token
            continue
        head, pending = pending.strip(), ""
        if head or (token == "{" and not above[-1].body):
            above[-1].body.append(_Block(head, []))
        if token == "{":
            above.append(above[-1].body[-1])
        elif token == "}":
            above.pop()
            if not above:
                break
    if above != [root] or len(root.body) != 1 or root.body[0].key not in ("schema", "search"):
        raise InputError("not a schema of Vespa", file=path, accepted=_ACCEPTED)
    [schema] = root.body
    check_keys(path, "the schema", {own.key: own.value for own in schema.body}, _SCHEMA)
    for own in (schema, *schema.named("document")):
        _check_inherits_nothing(path, own)
    return schema


def _check_inherits_nothing(path: Path, block: _Block) -> None:
    if "inherits" in block.head.split():
        accepted = "the inherited parts in the schema itself"
        raise InputError("inherited parts are not read", file=path, value=block.head, accepted=accepted)


def _profile(path: Path, schema: _Block) -> tuple[_Block, str]:
    """Return the rank profile whose first phase is BM25, and the field."""
    phases = [
        (own, re.sub(r"\s", "", expression.value))
        for own in schema.named("rank-profile")
        for phase in own.named("first-phase")
        for expression in phase.named("expression")
    ]
    scored = [(own, found[1]) for own, text in phases if (found := re.fullmatch(r"bm25\((\w+)\)", text))]
    if len(scored) != 1:
        raise InputError(
            "not one rank-profile whose first phase is bm25(FIELD)",
            file=path,
            value=[text for _, text in phases],
            accepted=_ACCEPTED,
        )
    [(profile, field)] = scored
    _check_inherits_nothing(path, profile)
    check_keys(path, profile.head, {own.key: own.value for own in profile.body}, _RANKING)
    [phase] = profile.named("first-phase")
    check_keys(path, "first-phase", {own.key: own.value for own in phase.body}, _PHASE)
    return profile, field


def _rank_properties(path: Path, profile: _Block, field: str) -> dict[str, str]:
    """Return BM25's values by name."""
    values: dict[str, str] = {}
    for own in (own for block in profile.named("rank-properties") for own in block.body):
        key, _, value = (part.strip().strip('"') for part in own.head.partition(":"))
        name = re.sub(r"\s", "", key).removeprefix(f"bm25({field}).")
        check_keys(path, "rank-properties", {name: value}, _PROPERTIES)
        if values.setdefault(name, value) != value:
            raise InputError("a property has two values", file=path, value=key, accepted="one")
    return values


def _check_field(path: Path, schema: _Block, name: str) -> None:
    """Raise `InputError` unless a field is indexed for BM25 as it is by default."""
    heads = re.compile(rf"field\s+{name}\s+type\s+string")
    fields = [own for own in schema.named("field") if heads.fullmatch(own.head)]
    if len(fields) != 1:
        accepted = f"field {name} type string"
        raise InputError("the ranked field is not in the schema", file=path, value=name, accepted=accepted)
    [field] = fields
    given = {own.key: own.value for own in field.body}
    check_keys(path, f"field {name}", {"index": "not enabled for bm25", **given}, _FIELD)
    parts = [part.strip() for part in given.get("indexing", "").split("|")]
    check_keys(path, f"indexing of field {name}", dict.fromkeys(parts, ""), _INDEXING)
    if "index" not in parts:
        raise InputError(f"field {name} is not indexed", file=path, value=parts, accepted="indexing: index")


def _analysis(path: Path) -> Analysis:
    """Return the analysis of services.xml, of one language."""
    components = read_xml(path).findall(f".//component[@class='{_LINGUISTICS}']")
    configs = [config for own in components for config in own.findall("config")]
    items = [item for config in configs for item in config.findall("analysis/item")]
    languages = [item.get("key", "") for item in items]
    if len(configs) != 1 or len(items) != 1 or not re.fullmatch("[a-z]{2,3}", languages[0]):
        raise InputError(
            f"not one language's analysis of {_LINGUISTICS}",
            file=path,
            value=languages,
            accepted="services.xml with one, as lmtune deploy writes it",
        )
    [config], [chain] = configs, items
    _check_tags(path, "the analysis", config, _CONFIG)
    _check_tags(path, f"the analysis of {languages[0]}", chain, _CHAIN)
    tokenizers = [_named(path, own) for own in chain.findall("tokenizer")]
    filters = [_named(path, own) for own in chain.findall("tokenFilters/item")]
    return read_chain(path, tokenizers, filters, path.parent / config.findtext("configDir", ""))


def _check_tags(path: Path, place: str, parts: ElementTree.Element, known: Keys) -> None:
    check_keys(path, place, {part.tag: part.text for part in parts}, known)


def _named(path: Path, element: ElementTree.Element) -> Named:
    """Return Lucene's name of a tokenizer or filter, and its parameters."""
    name = (element.findtext("name") or "").strip()
    _check_tags(path, name, element, _PART)
    return name, {own.get("key", ""): (own.text or "").strip() for own in element.iterfind("conf/item")}
