"""Lucene's filters by its own names, as Solr and Vespa have them in XML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from lmtune.engines.index_analysis import (
    ANY,
    ENGLISH_STOP,
    LOWERCASE,
    MAX_TOKEN,
    POSSESSIVE,
    REFUSED,
    STEM,
    Keys,
    Step,
    check_keys,
    stem_step,
    stop_step,
)
from lmtune.engines.lucene_files import SNOWBALL
from lmtune.errors import InputError, check_choice
from lmtune.storage.files import read_bytes

_TOKENIZER: Keys = {"maxTokenLength": MAX_TOKEN, "luceneMatchVersion": ANY}
_PLAIN = {
    "lowercase": Step(LOWERCASE),
    "englishpossessive": Step(POSSESSIVE),
    "porterstem": Step(STEM, stemmer="porter"),
    "kstem": Step(STEM, stemmer="krovetz"),
}
_FILTERS: Mapping[str, Keys] = {
    **{name: {} for name in _PLAIN},
    "stop": {
        "words": ANY,
        "format": ("wordset", "snowball"),
        "ignoreCase": ("true", "false"),
        "enablePositionIncrements": ANY,
    },
    "snowballporter": {"language": ANY, "protected": REFUSED},
}
_SNOWBALL = {language: name for name, language in SNOWBALL.items()}


def read_xml(path: Path) -> ElementTree.Element:
    """Return the root of a file of XML.

    Raises
    ------
    InputError
        Where it is none, or of an encoding that is not known.
    """
    try:
        return ElementTree.fromstring(read_bytes(path))
    except ElementTree.ParseError as error:
        line, _ = error.position
        raise InputError(f"not XML: {error}", file=path, line=line, accepted="XML") from None
    except (LookupError, ValueError) as error:
        raise InputError(f"not XML: {error}", file=path, accepted="XML in UTF-8") from None


def check_tokenizer(path: Path, name: str, given: Mapping[str, str]) -> None:
    """Raise `InputError` unless a tokenizer is Lucene's StandardTokenizer, as it is by default."""
    check_choice(f"{path}: a tokenizer that lmtune does not have", name.lower(), ["standard"])
    check_keys(path, "the tokenizer", given, _TOKENIZER)


def filter_step(path: Path, name: str, given: Mapping[str, str], folder: Path) -> Step:
    """Return what a filter does.

    Parameters
    ----------
    path : pathlib.Path
        The file that configures it, for messages.
    name : str
        Lucene's, in any case.
    given : mapping of str to str
        Its parameters.
    folder : pathlib.Path
        Where files of stopwords are.
    """
    kind = name.lower()
    check_choice(f"{path}: a filter that lmtune does not have", kind if kind in _FILTERS else name, _FILTERS)
    check_keys(path, f"filter {name}", given, {**_FILTERS[kind], "luceneMatchVersion": ANY})
    if kind == "snowballporter":
        return stem_step(path, f"filter {name}", given.get("language", "English"), _SNOWBALL)
    if kind != "stop":
        return _PLAIN[kind]
    if "words" not in given:
        return ENGLISH_STOP
    is_snowball = given.get("format") == "snowball"
    words = [
        word for file in given["words"].split(",") for word in _words(folder / file.strip(), is_snowball)
    ]
    return stop_step(words, ignore_case=given.get("ignoreCase") == "true")


def _words(path: Path, is_snowball: bool) -> list[str]:
    """Read a list of stopwords: a word a line and comments after #, or Snowball's with comments after |."""
    if not path.is_file():
        raise InputError("no such file of stopwords", file=path, accepted="the file beside the configuration")
    try:
        lines = read_bytes(path).decode().splitlines()
    except UnicodeDecodeError:
        raise InputError("not UTF-8", file=path, accepted="UTF-8 text") from None
    if is_snowball:
        return [word for line in lines for word in line.partition("|")[0].split()]
    stripped = [line.strip() for line in lines if not line.startswith("#")]
    return [word for word in stripped if len(word.split()) == 1]  # a term has no blank
