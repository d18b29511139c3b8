"""Analysis and similarity of an index, read from the configuration of Lucene-based engines."""

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
"""A tokenizer or filter: Lucene's name and the parameters."""
Keys = Mapping[str, tuple[str, ...] | None]
"""Known keys, each with its accepted values, `ANY` or `REFUSED`."""

ANY, REFUSED = None, ()
"""Accepted values of a key: any (it is read, or changes no score), or none (lmtune does not compute it)."""
MAX_TOKEN = (str(MAX_TOKEN_UNITS),)
"""The accepted maximum token length: the default of Lucene's StandardTokenizer, also used by lmtune."""

LOWERCASE, POSSESSIVE, _STOP, STEM = "lowercase", "possessive", "stop", "stem"
_ORDER = {LOWERCASE: 0, POSSESSIVE: 0, _STOP: 1, STEM: 2}
_LARGEST = 1e9
_BM25 = {"k1": 1.2, "b": 0.75}
_SIMILARITIES: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "BM25": ("bm25", _BM25),
    "LegacyBM25": ("bm25", _BM25),  # scores are multiplied by k1 + 1: same ranking
    "LMDirichlet": ("dirichlet", {"mu": 2000.0}),
    "LMJelinekMercer": ("jelinek-mercer", {"lambda": 0.1}),
}
"""Lucene's similarities: the formula of each, and the default parameters."""


class Step(NamedTuple):
    """A token filter: its kind, and its stopwords or its stemmer."""

    kind: str
    words: frozenset[str] = frozenset()
    stemmer: str = ""


class Analysis(NamedTuple):
    """Stopwords, lmtune's name of the stemmer, and notes on differences from lmtune's analysis."""

    words: frozenset[str]
    stemmer: str
    notes: tuple[str, ...]


class IndexSettings(NamedTuple):
    """The part of an index's configuration that determines scores.

    Attributes
    ----------
    formula : str
        ``"bm25"``, ``"dirichlet"`` or ``"jelinek-mercer"``.
    values : dict of str to float
        The formula's parameters.
    analysis : Analysis
        The analysis of documents and queries.
    notes : tuple of str
        Other differences from lmtune.
    """

    formula: str
    values: dict[str, float]
    analysis: Analysis
    notes: tuple[str, ...] = ()


def keys(names: str, refused: str = "", **accepted: tuple[str, ...]) -> Keys:
    """Return known keys: those with any value, refused ones, and those with a list of accepted values."""
    return dict.fromkeys(names.split(), ANY) | dict.fromkeys(refused.split(), REFUSED) | accepted


def check_keys(path: Path, owner: str, values: Mapping[str, Any], known: Keys) -> None:
    """Raise `InputError` for an unknown key, or for a value that lmtune does not compute.

    Parameters
    ----------
    path : pathlib.Path
        The file, for messages.
    owner : str
        The element that has the keys, for messages, such as ``field "body"``.
    values : mapping of str to object
        Values by key.
    known : Keys
        The allowed keys and their accepted values.
    """
    for key, value in values.items():
        if key not in known:
            raise InputError(
                f"unknown key of {owner}",
                file=path,
                value=key,
                accepted="the file without it, if it changes no score",
            )
        accepted = known[key]
        if accepted is REFUSED:
            raise InputError(
                f"unsupported key of {owner}", file=path, value=key, accepted="the file without it"
            )
        if accepted is not ANY and _text(value) not in accepted:
            raise InputError(
                f"unsupported {key} of {owner}", file=path, value=value, accepted=", ".join(accepted)
            )


def _text(value: Any) -> str:
    """Return a value as configuration files write it: ``true``, ``1``."""
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def similarity(
    path: Path, kind: Any, parameters: Mapping[str, Any], defaults: Mapping[str, float] | None = None
) -> tuple[str, dict[str, float]]:
    """Return the formula of a similarity and its parameter values.

    Parameters
    ----------
    path : pathlib.Path
        The file, for messages.
    kind : str
        Lucene's name of the similarity, such as ``"BM25"``.
    parameters : mapping of str to object
        The configured parameters. ``discount_overlaps`` is ignored: no accepted filter creates
        overlapping tokens.
    defaults : mapping of str to float, optional
        The engine's default parameters, if they differ from Lucene's.

    Raises
    ------
    InputError
        For an unknown similarity or parameter, and for a bad number.
    """
    if kind not in _SIMILARITIES:
        raise InputError("unsupported similarity", file=path, value=kind, accepted=", ".join(_SIMILARITIES))
    formula, lucene_defaults = _SIMILARITIES[kind]
    values = {
        **lucene_defaults,
        **{name: value for name, value in (defaults or {}).items() if name in lucene_defaults},
    }
    known = dict.fromkeys((*lucene_defaults, "type", "discount_overlaps", "discountOverlaps"), ANY)
    check_keys(path, f"similarity {kind}", parameters, known)
    return formula, {name: _number(path, name, parameters.get(name, value)) for name, value in values.items()}


def _number(path: Path, name: str, value: Any) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= _LARGEST:
        raise InputError(f"bad {name}", file=path, value=value, accepted=f"a number from 0 to {_LARGEST:g}")
    return number


def analysis_of(path: Path, steps: Sequence[Step]) -> Analysis:
    """Return the analysis by Lucene's StandardTokenizer and a chain of filters.

    Raises
    ------
    InputError
        If lmtune does not support this order of filters.
    """
    positions = [_ORDER[step.kind] for step in steps]
    if positions != sorted(positions) or positions.count(_ORDER[STEM]) > 1:
        raise InputError(
            "unsupported order of filters",
            file=path,
            value=[step.kind for step in steps],
            accepted="lowercase and possessive_english, then stop, then at most one stemmer",
        )
    kinds = {step.kind for step in steps}
    removed = {LOWERCASE: "capital letters", POSSESSIVE: "possessives ('s)"}
    notes = [
        f"the index keeps {text} in its terms, lmtune does not"
        for kind, text in removed.items()
        if kind not in kinds
    ]
    words = frozenset().union(*(step.words for step in steps))
    stemmer = next((step.stemmer for step in steps if step.stemmer), "none")
    return Analysis(words, stemmer, tuple(notes))


def same_analysis(path: Path, documents: Analysis, queries: Analysis) -> Analysis:
    """Return the analysis of documents and queries; raise `InputError` if they differ."""
    if documents != queries:
        raise InputError(
            "documents and queries have different analyzers",
            file=path,
            value=[analysis.stemmer for analysis in (documents, queries)],
            accepted="one analyzer for both",
        )
    return documents


def stop_step(words: Iterable[str], *, ignore_case: bool) -> Step:
    """Return a stopword filter.

    Terms are lower case: stopwords with capitals match none of them, and are left out unless case is ignored.
    """
    stopwords = {lower_case(word) if ignore_case else word for word in words}
    return Step(_STOP, frozenset(word for word in stopwords if word == lower_case(word)))


def stem_step(path: Path, owner: str, language: str, stemmers: Mapping[str, str]) -> Step:
    """Return the stemming filter for an engine's name of a stemmer or language."""
    if language not in stemmers:
        raise InputError(
            f"unsupported stemmer of {owner}", file=path, value=language, accepted=", ".join(stemmers)
        )
    return Step(STEM, stemmer=stemmers[language])


def stopwords_name(path: Path, words: frozenset[str], file: str | None) -> str:
    """Return lmtune's name of a stopword list: a built-in list, or the file if it has the same words."""
    for name in (*STOPWORD_LISTS, *filter(None, [file])):
        if load_stopwords(name) == words:
            return name
    raise InputError(
        "the index has a custom stopword list",
        file=path,
        value=sorted(words),
        accepted="--stopwords with a file of these words",
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
    """Return the root element of an XML file.

    Raises
    ------
    InputError
        If the file is not well-formed XML, or its encoding is unknown.
    """
    try:
        return ElementTree.fromstring(read_bytes(path))
    except ElementTree.ParseError as error:
        line, _ = error.position
        raise InputError(f"not XML: {error}", file=path, line=line, accepted="XML") from None
    except (LookupError, ValueError) as error:
        raise InputError(f"not XML: {error}", file=path, accepted="XML in UTF-8") from None


def read_chain(path: Path, tokenizers: Sequence[Named], filters: Sequence[Named], folder: Path) -> Analysis:
    """Return the analysis by a tokenizer and filters; their stopword files are in `folder`.

    Raises
    ------
    InputError
        If there is not exactly one tokenizer, and for tokenizers or filters that lmtune does not support.
    """
    if len(tokenizers) != 1:
        raise InputError("not exactly one tokenizer", file=path, value=len(tokenizers), accepted="one")
    _check_tokenizer(path, *tokenizers[0])
    return analysis_of(path, [_filter_step(path, name, values, folder) for name, values in filters])


def _check_tokenizer(path: Path, name: str, parameters: Mapping[str, str]) -> None:
    """Raise `InputError` unless a tokenizer is Lucene's StandardTokenizer with default parameters."""
    check_choice(f"{path}: unsupported tokenizer", name.lower(), ["standard"])
    check_keys(path, "the tokenizer", parameters, _TOKENIZER)


def _filter_step(path: Path, name: str, parameters: Mapping[str, str], folder: Path) -> Step:
    """Return the step of a filter.

    Parameters
    ----------
    path : pathlib.Path
        The file that configures the filter, for messages.
    name : str
        Lucene's name, in any case.
    parameters : mapping of str to str
        The configured parameters.
    folder : pathlib.Path
        The folder of the stopword files.
    """
    kind = name.lower()
    check_choice(f"{path}: unsupported filter", kind if kind in _FILTERS else name, _FILTERS)
    check_keys(path, f"filter {name}", parameters, {**_FILTERS[kind], "luceneMatchVersion": ANY})
    if kind == "snowballporter":
        return stem_step(path, f"filter {name}", parameters.get("language", "English"), _SNOWBALL)
    if kind != "stop":
        return _PLAIN[kind]
    if "words" not in parameters:
        return ENGLISH_STOP
    is_snowball = parameters.get("format") == "snowball"
    words = [
        word
        for file in parameters["words"].split(",")
        for word in _read_stopwords(folder / file.strip(), is_snowball)
    ]
    return stop_step(words, ignore_case=parameters.get("ignoreCase") == "true")


def _read_stopwords(path: Path, is_snowball: bool) -> list[str]:
    """Read a stopword file: one word a line and # comments, or Snowball's format with | comments."""
    if not path.is_file():
        raise InputError(
            "stopword file not found", file=path, accepted="a file in the folder of the configuration"
        )
    try:
        lines = read_bytes(path).decode().splitlines()
    except UnicodeDecodeError:
        raise InputError("not UTF-8", file=path, accepted="UTF-8 text") from None
    if is_snowball:
        return [word for line in lines for word in line.partition("|")[0].split()]
    stripped = [line.strip() for line in lines if not line.startswith("#")]
    return [word for word in stripped if len(word.split()) == 1]  # terms contain no blank
