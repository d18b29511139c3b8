"""Stopword lists: Lucene's English one, none, or a file of the user's."""

from __future__ import annotations

from pathlib import Path

from lmtune.errors import InputError
from lmtune.indexing.tokenizer import lower_case
from lmtune.storage.files import read_bytes

_ENGLISH = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)
LUCENE_ENGLISH = frozenset(_ENGLISH.split())
"""The 33 words of ``org.apache.lucene.analysis.en.EnglishAnalyzer``."""

LISTS = ("lucene", "none")
"""The lists that have a name; any other is a file."""

_ACCEPTED = "lucene, none, or the path of a file with one word a line"


def load_stopwords(name: str) -> frozenset[str]:
    """Return the words that a list drops, in lower case.

    Parameters
    ----------
    name : str
        ``"lucene"`` (the 33 words of Lucene's EnglishAnalyzer), ``"none"``, or the path of a
        UTF-8 file with one word a line; blank lines and lines that start with ``#`` are skipped.

    Returns
    -------
    frozenset of str
        The words.

    Raises
    ------
    InputError
        If the name is neither known nor a file, or if the file is not UTF-8 or has a line of
        several words.
    """
    if name == "lucene":
        return LUCENE_ENGLISH
    if name == "none":
        return frozenset()
    path = Path(name)
    if not name or not path.is_file():
        raise InputError("unknown stopword list", value=name, accepted=_ACCEPTED)
    words = set()
    for number, raw in enumerate(read_bytes(path).splitlines(), start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise InputError("not UTF-8", file=path, line=number, value=raw, accepted="UTF-8 text") from error
        if not line or line.startswith("#"):
            continue
        if len(line.split()) > 1:
            raise InputError(
                "several words on a line", file=path, line=number, value=line, accepted="one word"
            )
        words.add(lower_case(line))
    return frozenset(words)
