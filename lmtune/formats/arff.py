"""Examples with several labels in ARFF, as MEKA and Mulan have them."""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, PathLike
from lmtune.formats.compression import is_compressed
from lmtune.formats.files import read_bytes, read_lines
from lmtune.formats.labelled import LabelledExamples, Lists

_ATTRIBUTE = re.compile(
    r"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s'"]\S*)\s*(\{.*\}|numeric|real|integer)\s*""",
    re.I,
)
_COUNT = re.compile(r"""[\s:'"]-C\s+(-?\d{1,6})\b""", re.I)
_TRUE = ("1", "t", "true", "y", "yes")
_LABELS = "NAME.xml beside it as Mulan has it, or '-C N' in the relation's name as MEKA has it"

_Attribute = dict[str, int] | None
"""Places of a nominal attribute's values; None for a number."""


@dataclass
class _Table:
    """A file's header."""

    path: PathLike
    relation: str = ""
    names: list[str] = field(default_factory=list)
    kinds: list[_Attribute] = field(default_factory=list)


def read_arff(path: PathLike) -> LabelledExamples:
    """Read an ARFF file of MEKA or Mulan, dense or sparse.

    Which attributes are labels is told by Mulan's ``NAME.xml`` in the same folder (for
    ``NAME-train.arff`` and ``NAME-test.arff`` as well), else by MEKA's option in the relation's name:
    ``-C 6`` for the first six attributes, ``-C -6`` for the last six. Labels have two values, of
    which the second means that the example has it. Numbers are features as they are; a nominal
    attribute becomes a feature of value 1 for each of its values but the first.

    Parameters
    ----------
    path : path-like
        The file, plain or compressed.

    Raises
    ------
    InputError
        With file and line: at attributes of other types, missing or unknown values, rows of another
        length; where it is not told which attributes are labels.
    """
    table = _Table(path)
    lines = read_lines(path)
    _read_header(table, lines)
    labels = _labels(table)
    cells, values = _all_cells(table, lines)
    if cells.starts.size == 1:
        raise InputError("no examples", file=path, accepted="rows after @data")
    attribute, place = cells.ids, np.full(len(table.kinds), -1)
    place[labels] = np.arange(len(labels))
    is_label = place[attribute] >= 0
    # The first feature of each attribute: as many as it has values, less one.
    widths = np.array([1 if kind is None else len(kind) - 1 for kind in table.kinds])
    widths[labels] = 0
    first = np.cumsum(widths) - widths
    nominal = np.array([kind is not None for kind in table.kinds])[attribute]
    feature = first[attribute] + np.where(nominal, values - 1, 0).astype(np.int64)
    values = np.where(nominal, 1.0, values)[~is_label]
    if (np.abs(values) > np.finfo(np.float32).max).any():
        raise InputError("a number beyond float32's range", file=path)
    bags, relevant = (
        Lists(np.concatenate([[0], np.cumsum(kept)])[cells.starts], ids[kept].astype(np.int32))
        for kept, ids in ((~is_label, feature), (is_label, place[attribute]))
    )
    return LabelledExamples(int(widths.sum()), len(labels), bags, values.astype(np.float32), relevant)


def _read_header(table: _Table, lines: Iterable[tuple[int, str]]) -> None:
    for number, line in lines:
        text = line.strip()
        word = text.partition(" ")[0].lower()
        if word == "@data":
            return
        if word == "@relation":
            table.relation = text
        elif text and not text.startswith("%"):
            found = _ATTRIBUTE.fullmatch(text)
            if found is None:
                accepted = "@attribute NAME numeric, or {VALUE,VALUE}"
                raise InputError("bad attribute", file=table.path, line=number, value=text, accepted=accepted)
            table.names.append(_unquoted(found[1]))
            values = _split(found[2][1:-1]) if found[2].startswith("{") else None
            table.kinds.append(None if values is None else {own: n for n, own in enumerate(values)})
    raise InputError("no @data", file=table.path, accepted="@relation, @attribute ..., @data and rows")


def _labels(table: _Table) -> list[int]:
    """Return the labels' attributes."""
    wanted = _listed(table)
    if wanted is None:
        given = _COUNT.search(table.relation)
        count, total = int(given[1]) if given else 0, len(table.names)
        if not 0 < abs(count) < total:
            raise InputError("no labels", file=table.path, value=table.relation, accepted=_LABELS)
        wanted = [*range(count)] if count > 0 else [*range(total + count, total)]
    for attribute in wanted:
        kind = table.kinds[attribute]
        if kind is None or len(kind) != 2 or [*kind][1].lower() not in _TRUE:
            name, accepted = table.names[attribute], "{0,1}, {f,t}, {no,yes}"
            raise InputError("bad values of a label", file=table.path, value=name, accepted=accepted)
    return wanted


def _listed(table: _Table) -> list[int] | None:
    """Return the attributes that Mulan's file names; None where there is no such file."""
    home = Path(table.path)
    name = home.with_suffix("").stem if is_compressed(home) else home.stem
    while not (file := home.with_name(f"{name}.xml")).is_file():
        name, dash, _ = name.rpartition("-")
        if not dash:
            return None
    try:
        tags = ElementTree.fromstring(read_bytes(file)).iter()
    except ElementTree.ParseError as error:
        raise InputError(f"not XML ({error})", file=file) from None
    names = [tag.get("name", "") for tag in tags if tag.tag.rpartition("}")[2] == "label"]
    places = {own: n for n, own in enumerate(table.names)}
    for own in names:
        if own not in places:
            raise InputError(
                "a label that is no attribute", file=file, value=own, accepted=f"of {table.path}"
            )
    return [places[own] for own in names]


def _all_cells(table: _Table, lines: Iterable[tuple[int, str]]) -> tuple[Lists, NDArray[np.float64]]:
    attributes, values, starts = array("i"), array("d"), [0]
    for number, line in lines:
        if (text := line.strip()) and not text.startswith("%"):
            for attribute, value in _cells(table, number, text):
                attributes.append(attribute)
                values.append(value)
            starts.append(len(values))
    return Lists(np.array(starts), np.array(attributes, np.int32)), np.array(values)


def _cells(table: _Table, number: int, text: str) -> Iterator[tuple[int, float]]:
    """Yield the attributes of a row that have not their first value, or 0."""
    sparse = text.startswith("{") and text.endswith("}")
    fields = _split(text[1:-1] if sparse else text)
    if not sparse and len(fields) != len(table.kinds):
        accepted = f"{len(table.kinds)} values, or {{ATTRIBUTE VALUE, ...}}"
        raise InputError(
            "bad row", file=table.path, line=number, value=f"{len(fields)} values", accepted=accepted
        )
    last = -1
    for place, own in enumerate(fields):
        attribute, value = place, own
        if sparse:
            index, _, value = own.partition(" ")
            attribute = int(index) if index.isdecimal() and len(index) < 10 else -1
            if not last < attribute < len(table.kinds):
                accepted = f"ATTRIBUTE VALUE, ascending from 0 to {len(table.kinds) - 1}"
                raise InputError("bad entry", file=table.path, line=number, value=own, accepted=accepted)
            last, value = attribute, _unquoted(value.strip())
        known = table.kinds[attribute]
        try:
            found = float(value) if known is None else known[value]
        except (KeyError, ValueError):
            found = math.nan
        if not math.isfinite(found):
            accepted = "a number" if known is None else ", ".join(known)
            name = f"bad value of {table.names[attribute]}"
            raise InputError(name, file=table.path, line=number, value=value, accepted=accepted)
        if found:
            yield attribute, found


def _split(text: str) -> list[str]:
    """Split at commas outside of quotes."""
    if not text.strip():
        return []
    quote = '"' if '"' in text and "'" not in text else "'"
    [fields] = csv.reader([text], quotechar=quote, escapechar="\\", skipinitialspace=True)
    return [own.strip() for own in fields]


def _unquoted(text: str) -> str:
    if text[:1] in ("'", '"') and text[:1] == text[-1:] and len(text) > 1:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text
