"""Analysis and similarity of an index in common terms, from filters that Lucene's engines share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from lmtune.engines.writers import SNOWBALL
from lmtune.errors import InputError, check_choice
from lmtune.index.analysis import LUCENE_ENGLISH, STOPWORD_LISTS, load_stopwords
from lmtune.index.tokenizer import MAX_TOKEN_UNITS, lower_case
from lmtune.io.files import read_bytes

Named = tuple[str, Mapping[str, str]]
"""A tokenizer or filter by Lucene's name, with its parameters."""
Keys = Mapping[str, tuple[str, ...] | None]
"""Keys that are known, each with the values that are accepted."""

ANY, REFUSED = None, ()
"""Of a key that is read or changes no score; and of one that lmtune does not compute."""
MAX_TOKEN = (str(MAX_TOKEN_UNITS),)
"""The length of a token that Lucene's StandardTokenizer has by default, as `lmtune` has."""

LOWERCASE, POSSESSIVE, _STOP, STEM = "lowercase", "possessive", "stop", "stem"
_ORDER = {LOWERCASE: 0, POSSESSIVE: 0, _STOP: 1, STEM: 2}
_LARGEST = 1e9
_BM25 = {"k1": 1.2, "b": 0.75}
_SIMILARITIES: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "BM25": ("bm25", _BM25),
    "LegacyBM25": ("bm25", _BM25),  # times k1 + 1
    "LMDirichlet": ("dirichlet", {"mu": 2000.0}),
    "LMJelinekMercer": ("jelinek-mercer", {"lambda": 0.1}),
}
"""Formulas by Lucene's names of similarities, each with its parameters and their defaults."""


class Step(NamedTuple):
    """A filter: its kind, and the stopwords or stemmer that it has."""

    kind: str
    words: frozenset[str] = frozenset()
    stemmer: str = ""


class Analysis(NamedTuple):
    """Stopwords, stemmer by lmtune's name, and what differs from lmtune's analysis."""

    words: frozenset[str]
    stemmer: str
    notes: tuple[str, ...]


class IndexSettings(NamedTuple):
    """What an index's configuration says of scores.

    Attributes
    ----------
    formula : str
        One of `_SIMILARITIES`' formulas.
    values : dict of str to float
        Its parameters.
    analysis : Analysis
        Of documents and queries.
    notes : tuple of str
        What else is not as in lmtune.
    """

    formula: str
    values: dict[str, float]
    analysis: Analysis
    notes: tuple[str, ...] = ()


def keys(names: str, refused: str = "", **accepted: tuple[str, ...]) -> Keys:
    """Return names that are read or change no score, those that are refused, and those of few values."""
    return dict.fromkeys(names.split(), ANY) | dict.fromkeys(refused.split(), REFUSED) | accepted


def check_keys(path: Path, place: str, given: Mapping[str, Any], known: Keys) -> None:
    """Raise `InputError` for a key that is not known, or a value that lmtune does not compute.

    Parameters
    ----------
    path : pathlib.Path
        The file, for messages.
    place : str
        What has the keys, such as ``field "body"``.
    given : mapping of str to object
        Values by key.
    known : Keys
        All that may be there.
    """
    for key, value in given.items():
        if key not in known:
            raise InputError(
                f"unknown key of {place}",
                file=path,
                value=key,
                accepted="the file without it, if it changes no score",
            )
        accepted = known[key]
        if accepted is REFUSED:
            raise InputError(
                f"unsupported key of {place}", file=path, value=key, accepted="the file without it"
            )
        if accepted is not ANY and _text(value) not in accepted:
            raise InputError(
                f"unsupported {key} of {place}", file=path, value=value, accepted=", ".join(accepted)
            )


def _text(value: Any) -> str:
    """Return a value as configurations spell it: ``true``, ``1``."""
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def similarity(
    path: Path, kind: Any, given: Mapping[str, Any], defaults: Mapping[str, float] | None = None
) -> tuple[str, dict[str, float]]:
    """Return a similarity's formula and values.

    Parameters
    ----------
    path : pathlib.Path
        The file, for messages.
    kind : str
        One of `_SIMILARITIES`.
    given : mapping of str to object
        Its parameters. Whether overlaps count in lengths changes nothing: no filter that is accepted
        makes any.
    defaults : mapping of str to float, optional
        The engine's, where they are not Lucene's.
    """
    if kind not in _SIMILARITIES:
        raise InputError(
            "a similarity that lmtune does not have", file=path, value=kind, accepted=", ".join(_SIMILARITIES)
        )
    formula, usual = _SIMILARITIES[kind]
    values = {**usual, **{name: value for name, value in (defaults or {}).items() if name in usual}}
    known = dict.fromkeys((*usual, "type", "discount_overlaps", "discountOverlaps"), ANY)
    check_keys(path, f"similarity {kind}", given, known)
    return formula, {name: _number(path, name, given.get(name, value)) for name, value in values.items()}


def _number(path: Path, name: str, value: Any) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= _LARGEST:
        raise InputError(f"bad {name}", file=path, value=value, accepted=f"a number from 0 to {_LARGEST:g}")
    return number


def analysis_of(path: Path, steps: Sequence[Step]) -> Analysis:
    """Return what a chain of filters does, after Lucene's StandardTokenizer.

    Raises
    ------
    InputError
        For an order of filters that lmtune does not have.
    """
    places = [_ORDER[step.kind] for step in steps]
    if places != sorted(places) or places.count(_ORDER[STEM]) > 1:
        raise InputError(
            "lmtune has no such order of filters",
            file=path,
            value=[step.kind for step in steps],
            accepted="lowercase and possessive_english, then stop, then one that stems",
        )
    kinds = {step.kind for step in steps}
    lacks = {LOWERCASE: "capital letters", POSSESSIVE: "possessives ('s)"}
    notes = [f"its terms keep {text}, lmtune's do not" for kind, text in lacks.items() if kind not in kinds]
    words = frozenset().union(*(step.words for step in steps))
    stemmer = next((step.stemmer for step in steps if step.stemmer), "none")
    return Analysis(words, stemmer, tuple(notes))


def same_analysis(path: Path, documents: Analysis, queries: Analysis) -> Analysis:
    """Return the one analysis of documents and queries; raise `InputError` where they are two."""
    if documents != queries:
        raise InputError(
            "queries have another analysis than documents",
            file=path,
            value=[own.stemmer for own in (documents, queries)],
            accepted="one analyzer for both",
        )
    return documents


def stop_step(words: Iterable[str], *, ignore_case: bool) -> Step:
    """Return a filter of stopwords; those with capitals match no lower-case term, unless case is ignored."""
    kept = {lower_case(word) if ignore_case else word for word in words}
    return Step(_STOP, frozenset(word for word in kept if word == lower_case(word)))


def stem_step(path: Path, place: str, language: str, stemmers: Mapping[str, str]) -> Step:
    """Return a filter that stems, by an engine's name of it."""
    if language not in stemmers:
        raise InputError(
            f"{place} stems in a way that lmtune does not have",
            file=path,
            value=language,
            accepted=", ".join(stemmers),
        )
    return Step(STEM, stemmer=stemmers[language])


def stopwords_name(path: Path, words: frozenset[str], file: str | None) -> str:
    """Return what lmtune calls stopwords: one of its lists, or the file that holds them."""
    for name in (*STOPWORD_LISTS, *filter(None, [file])):
        if load_stopwords(name) == words:
            return name
    raise InputError(
        "the index has stopwords of its own",
        file=path,
        value=sorted(words),
        accepted="--stopwords, a file of these",
    )


ENGLISH_STOP = Step(_STOP, LUCENE_ENGLISH)
"""Lucene's English stopwords."""

_TOKENIZER = keys("luceneMatchVersion", maxTokenLength=MAX_TOKEN)
_PLAIN = {
    "lowercase": Step(LOWERCASE),
    "englishpossessive": Step(POSSESSIVE),
    "porterstem": Step(STEM, stemmer="porter"),
    "kstem": Step(STEM, stemmer="krovetz"),
}
_FILTERS = {
    **dict.fromkeys(_PLAIN, keys("")),
    "stop": keys(
        "words enablePositionIncrements", format=("wordset", "snowball"), ignoreCase=("true", "false")
    ),
    "snowballporter": keys("language", refused="protected"),
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


def read_chain(path: Path, tokenizers: Sequence[Named], filters: Sequence[Named], folder: Path) -> Analysis:
    """Return what a tokenizer and filters do, by Lucene's names; files of words lie in a folder.

    Raises
    ------
    InputError
        For another number of tokenizers than one, and what lmtune does not have.
    """
    if len(tokenizers) != 1:
        raise InputError("not one tokenizer", file=path, value=len(tokenizers), accepted="one")
    _check_tokenizer(path, *tokenizers[0])
    return analysis_of(path, [_filter_step(path, name, given, folder) for name, given in filters])


def _check_tokenizer(path: Path, name: str, given: Mapping[str, str]) -> None:
    """Raise `InputError` unless a tokenizer is Lucene's StandardTokenizer, as it is by default."""
    check_choice(f"{path}: a tokenizer that lmtune does not have", name.lower(), ["standard"])
    check_keys(path, "the tokenizer", given, _TOKENIZER)


def _filter_step(path: Path, name: str, given: Mapping[str, str], folder: Path) -> Step:
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
