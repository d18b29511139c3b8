"""Documents as lines of ``id<TAB>text``, as MS MARCO distributes its passages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lmtune.errors import InputError, PathLike
from lmtune.storage.files import decode_line, line_blocks

FIRST = re.compile(rb"[^\s<{]\S*\t[^\t\n]*(?:\n|\Z)")
"""What the first line looks like, and a run's, a topic's of several fields or a judgement's does not."""


def parse_tab_separated(
    blocks: Iterable[bytes], path: PathLike, field: str | None = None
) -> Iterator[tuple[int, str, str]]:
    """Yield (line, docno, text) of documents, one a line; blank lines are skipped.

    Parameters
    ----------
    blocks : iterable of bytes
        The input in blocks of any size; lines are numbered from its beginning, from 1.
    path : path-like
        What to call the file in messages.
    field : str, optional
        A field, which no document has: the text is empty.

    Raises
    ------
    InputError
        At a line that is no valid UTF-8, or is not two columns, the first without white space.
    """
    number = 0
    for block in line_blocks(blocks):
        for raw in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            if not raw.strip():
                continue
            line = decode_line(raw, path, number).rstrip("\r")
            docno, tab, text = line.partition("\t")
            if not tab or "\t" in text or docno.split() != [docno]:
                raise InputError(
                    "not a document", file=path, line=number, value=line[:80], accepted="id<TAB>text"
                )
            yield number, docno, text if field is None else ""
