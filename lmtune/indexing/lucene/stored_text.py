"""Documents' text as Lucene stores it: fields of their own, or the whole document, as Anserini keeps it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lmtune.errors import InputError
from lmtune.formats.line_documents import keys_with_text, parse_jsonl
from lmtune.formats.trec_documents import TEXT_ELEMENTS, element_names, news_text, without_markup
from lmtune.indexing.index import CONTENTS

RAW = "raw"
"""The field that Anserini keeps whole documents in."""
LOOKED_AT = 1000
"""Documents that are looked at for a field."""

Get = Callable[[str], str | None]
"""Gives a stored field of one document, None where it has none."""


def field_text(path: Path, get: Get, field: str) -> str | None:
    """Return a document's field, stored apart or a part of the whole document; None where it has neither.

    A whole document is JSON, or a news document as TREC's.

    Parameters
    ----------
    path : path
        The index, for messages.
    get : callable
        Gives the document's stored fields.
    field : str
        The field; `CONTENTS` is the text that is indexed.

    Raises
    ------
    InputError
        For a whole document of JSON that is no document.
    """
    text, raw = get(field), get(RAW)
    if text is not None or raw is None:
        return text
    if not raw.lstrip().startswith("{"):
        own = news_text(raw, TEXT_ELEMENTS if field == CONTENTS else (field.upper(),))
        return own or (without_markup(raw) if field == CONTENTS else "")
    try:
        line = json.dumps(json.loads(raw)).encode()
    except ValueError as error:
        raise InputError(f"a stored document is not JSON ({error})", file=path, value=raw) from None
    [(_, _, text)] = parse_jsonl([line], path, None if field == CONTENTS else field)
    return text


def check_stored(
    path: Path, documents: Iterable[Get], field: str, names: Callable[[], Iterator[str]]
) -> None:
    """Raise InputError where none of an index's first documents has a field.

    Parameters
    ----------
    path : path
        The index.
    documents : iterable of callables
        Each gives a document's stored fields.
    field : str
        The field.
    names : callable
        Gives the names of the first document's stored fields.
    """
    first = list(itertools.islice(documents, LOOKED_AT))
    if not first or any(field_text(path, get, field) for get in first):
        return
    known = [name for name in names() if name not in ("id", RAW)]
    raw = first[0](RAW)
    if raw is not None:
        joined = raw.replace("\n", " ").encode()
        known += keys_with_text(joined) if joined.lstrip().startswith(b"{") else element_names(joined)
    raise InputError(
        f"none of the index's first {len(first):,} documents stores this text",
        file=path,
        value=field,
        accepted=", ".join(dict.fromkeys(known))
        or "an index with text: lmtune index ... --engine lucene --keep-text",
    )
