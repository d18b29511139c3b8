"""A page on which pairs of topic and document are judged, each label saved as it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from lmtune.collections.texts import Texts
from lmtune.errors import InputError
from lmtune.explorer.server import Answering
from lmtune.measures.judges.selection import put_label, read_sheet


class Sheet(NamedTuple):
    """What a page shows of a file to fill in.

    Attributes
    ----------
    path : Path
        The file; what it holds is read afresh for each answer.
    queries : mapping of str to str
        Topics' text.
    texts : Texts or None
        The documents'.
    """

    path: Path
    queries: Mapping[str, str]
    texts: Texts | None


def pairs(sheet: Sheet) -> dict[str, Any]:
    """Return the file's name and its pairs."""
    return {
        "name": sheet.path.name,
        "pairs": [
            entry._asdict() | {"text": sheet.queries.get(entry.topic, "")} for entry in read_sheet(sheet.path)
        ],
    }


def document(sheet: Sheet, docno: str) -> dict[str, Any]:
    """Return a document's text, or why there is none."""
    if sheet.texts is None:
        return {"text": None, "why": "There is no text: --collection says whose documents these are."}
    try:
        text = sheet.texts.of([docno])[0] or None
        return {"text": text, "why": "" if text else "The document has no text."}
    except InputError as error:
        return {"text": None, "why": str(error)}


def labelled(sheet: Sheet, topic: str, docno: str, label: int | None) -> dict[str, Any]:
    """Save a label, or take it back; return all pairs' labels as they are saved."""
    return {"labels": [entry.label for entry in put_label(sheet.path, topic, docno, label)]}


class Labelling(Answering):
    """The state of the page."""

    script, title = "judge", "lmtune judge"

    def __init__(self, sheet: Sheet) -> None:
        works: dict[str, Callable[..., Any]] = {"pairs": pairs, "document": document, "labelled": labelled}
        super().__init__({kind: partial(work, sheet) for kind, work in works.items()})
