"""Documents in lines: JSON with the keys of Anserini, BEIR or ir_datasets, or ``id<TAB>text``."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from lmtune.errors import FilePosition, InputError, PathLike
from lmtune.io.files import decode_line, line_blocks
from lmtune.strict_json import parse_json

_ID_KEYS = ("id", "_id", "docid", "docno")
_TEXT_KEYS = ("text", "body")
_MSMARCO_FIELDS = ("url", "title", "headings", "body", "segment")
"""The keys that make the text of MS MARCO v2 documents, as in Anserini; segments have no body."""

_PASSAGE_ID = "pid"


def parse_jsonl(
    blocks: Iterable[bytes], path: PathLike, field: str | None = None
) -> Iterator[tuple[int, str, str]]:
    """Yield (line, docno, text) of JSON documents, one a line; blank lines are skipped.

    - The docno is the value of ``id``, ``_id``, ``docid`` or ``docno``, a string or an integer.
    - The text is ``contents`` if present, as in Anserini. Otherwise it is the ``title``, if present, a line
      end and ``text`` or ``body``, as in BEIR.
    - MS MARCO v2 passages have ``pid`` and ``passage``. The text of MS MARCO v2 documents and segments
      consists of those of `_MSMARCO_FIELDS` that are present.

    Parameters
    ----------
    blocks : iterable of bytes
        The input in blocks of any size; its first line has the number 1.
    path : path-like
        Name of the file, for messages.
    field : str, optional
        A key to use as the text instead, a string or a list of strings; documents without it have an empty
        text.

    Raises
    ------
    InputError
        For a line that is not a JSON object in valid UTF-8, that lacks an identifier or a text, or that has
        an identifier with white space.
    """
    with FilePosition(path) as position:
        for line in _lines(blocks, position):
            if not line or line.isspace():
                continue
            try:
                record = parse_json(line, infinite=True)
            except ValueError as error:
                raise _bad(f"not JSON ({error})", line) from None
            try:
                docno = record["id"]
                text = record["contents"]
            except (KeyError, TypeError):
                docno, text = _other_spelling(line, record)
            if field is not None:
                text = _field_text(record.get(field))
            if type(docno) is not str or type(text) is not str or docno.split() != [docno]:
                docno = _checked_docno(docno)
                text = _checked_text(text)
            if "\\ud" in line or "\\uD" in line:
                docno, text = _without_surrogates(docno, text)
            yield position.line, docno, text


def keys_with_text(head: bytes) -> list[str]:
    """Return the keys with text of the first JSON line, without the identifier's key."""
    line = head.lstrip().partition(b"\n")[0]
    with contextlib.suppress(ValueError):
        record = parse_json(line, infinite=True)
        return [
            key
            for key, value in record.items()
            if type(_field_text(value)) is str and key not in (*_ID_KEYS, _PASSAGE_ID)
        ]
    return []


def _lines(blocks: Iterable[bytes], position: FilePosition) -> Iterator[str]:
    """Decode blocks of lines, yield each line, and set its number in `position`."""
    before = 0
    for block in line_blocks(blocks):
        try:
            lines = block.decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            index = block.count(b"\n", 0, error.start)
            position.line = before + index + 1
            decode_line(block.split(b"\n")[index])
            raise
        for position.line, line in enumerate(lines, before + 1):
            yield line
        before += len(lines)


def _other_spelling(line: str, record: Any) -> tuple[Any, Any]:
    if not isinstance(record, dict):
        raise _bad("not a JSON object", line)
    if _PASSAGE_ID in record and "passage" in record:
        return record[_PASSAGE_ID], record["passage"]
    if "docid" in record and "headings" in record:
        return record["docid"], _joined([record.get(name) for name in _MSMARCO_FIELDS])
    key = next((key for key in _ID_KEYS if key in record), None)
    if key is None:
        accepted = f"an identifier in one of {', '.join(_ID_KEYS)}"
        raise _bad("document without an identifier", line, accepted)
    if "contents" in record:
        return record[key], record["contents"]
    name = next((name for name in _TEXT_KEYS if name in record), None)
    if name is None:
        accepted = f"a text in one of contents, {', '.join(_TEXT_KEYS)}"
        raise _bad(f"document {record[key]} has no text", line, accepted)
    title, text = record.get("title"), record[name]
    if title is not None and not isinstance(title, str):
        raise _bad("the title is not a string", title, "a string")
    return record[key], f"{title}\n{text}" if title and isinstance(text, str) else text


def _joined(texts: Iterable[Any]) -> str:
    """Join the texts that are present with line ends."""
    return "\n".join(_checked_text(text) for text in texts if text not in (None, ""))


def _field_text(value: Any) -> Any:
    """Join a list of texts with line ends; None becomes an empty text."""
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return "\n".join(value)
    return "" if value is None else value


def _checked_docno(docno: Any) -> str:
    if isinstance(docno, int) and not isinstance(docno, bool):
        return str(docno)
    if not isinstance(docno, str) or docno.split() != [docno]:
        accepted = "a string without white space, or an integer"
        raise _bad("bad document identifier", docno, accepted)
    return docno


def _checked_text(text: Any) -> str:
    if not isinstance(text, str):
        raise _bad("the text is not a string", text, "a string")
    return text


def _without_surrogates(docno: str, text: str) -> tuple[str, str]:
    # JSON can escape a lone surrogate, which UTF-8 cannot encode.
    try:
        docno.encode()
    except UnicodeEncodeError:
        accepted = "no lone surrogate"
        raise _bad("bad document identifier", ascii(docno), accepted) from None
    return docno, text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _bad(message: str, value: Any, accepted: str = "one JSON object a line") -> InputError:
    shown = str(value) if value is None or isinstance(value, bool) else value
    return InputError(message, value=shown, accepted=accepted)


URL = re.compile(rb"[^\s<{]\S*\thttps?://")
FIRST = re.compile(URL.pattern + rb"\S*\t[^\t\n]*\t[^\t\n]*(?:\n|\Z)|[^\s<{]\S*\t[^\t\n]*(?:\n|\Z)")
"""The first line of tab-separated documents. Runs, judgments and topics with several fields do not match."""


TSV_FIELDS = ("url", "title", "body")
"""The text columns of MS MARCO documents in tab-separated lines."""


def parse_tab_separated(
    blocks: Iterable[bytes], path: PathLike, field: str | None = None
) -> Iterator[tuple[int, str, str]]:
    """Yield (line, docno, text) of documents, one a line; blank lines are skipped.

    A line is ``id<TAB>text``, or has the four columns of MS MARCO documents: id, url, title and body. The
    last three are joined to the text, as in Anserini.

    Parameters
    ----------
    blocks : iterable of bytes
        The input in blocks of any size; its first line has the number 1.
    path : path-like
        Name of the file, for messages.
    field : str, optional
        Read only this column, one of `TSV_FIELDS`; lines without it have an empty text.

    Raises
    ------
    InputError
        For a line that is not valid UTF-8, has not two or four columns, or has an identifier with white
        space.
    """
    lines = (raw for block in line_blocks(blocks) for raw in block.removesuffix(b"\n").split(b"\n"))
    with FilePosition(path) as position:
        for position.line, raw in enumerate(lines, 1):
            if not raw.strip():
                continue
            line = decode_line(raw).rstrip("\r")
            docno, *texts = line.split("\t")
            if len(texts) not in (1, len(TSV_FIELDS)) or docno.split() != [docno]:
                accepted = "id<TAB>text or id<TAB>url<TAB>title<TAB>body"
                raise InputError("not a document", value=line[:80], accepted=accepted)
            if field is not None:
                texts = [
                    text for name, text in zip(TSV_FIELDS, texts, strict=False) if name == field and texts[1:]
                ]
            yield position.line, docno, "\n".join(filter(None, texts))
