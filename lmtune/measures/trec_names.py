"""trec_eval's names of measures, with their parameters and output labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from lmtune.measures import trec_measures as of
from lmtune.measures.judged_ranking import JudgedRanking

Value = float | int | str

VERSIONS = ("9.0.8", "10.0")
"""Supported versions of trec_eval; the first is the default."""


class Summary(Enum):
    """How a run's value is computed from the topics' values."""

    MEAN = "mean"
    SUM = "sum"
    GEOMETRIC = "geometric mean"
    NONE = "per topic only"
    RUN = "the run's own"


class Family(NamedTuple):
    """Measures that are computed together, such as P at several cutoffs.

    Attributes
    ----------
    labels : tuple of str
        The measures' names in the output.
    values : callable or None
        Returns one value per label for a JudgedRanking; None if ir_measures computes the values.
    summary : Summary
        How the run's value is computed.
    level : int or None
        The smallest relevant gain, if the name sets it.
    reads : str or None
        What it needs from judgments besides gains: `STRATA` or `SUBTOPICS` of `lmtune.io.qrels`.
    """

    labels: tuple[str, ...]
    values: Callable[[JudgedRanking], Sequence[Value]] | None
    summary: Summary = Summary.MEAN
    level: int | None = None
    reads: str | None = None


class ParameterError(ValueError):
    """Invalid parameters of a measure; the message lists the accepted ones."""


_Maker = Callable[[str, str], Family]
_DEPTHS = "5,10,15,20,30,100,200,500,1000"
_RECALLS = "0,.1,.2,.3,.4,.5,.6,.7,.8,.9,1"
_MULTIPLES = ".2,.4,.6,.8,1,1.2,1.4,1.6,1.8,2"
_NUMBER = re.compile(r"[+-]?([0-9]{1,9}(\.[0-9]*)?|\.[0-9]+)")
PARAMETER = r"[+-]?\.?[0-9][0-9.]*(?:=[^,\s]*)?(?=[,\s]|$)|p="
"""Pattern of a parameter after a comma, where the comma does not separate two names."""


def _numbers(text: str) -> list[float]:
    parts = text.split(",")
    if not all(_NUMBER.fullmatch(part) for part in parts):
        raise ParameterError("numbers separated by commas")
    return [float(part) for part in parts]


def _integers(text: str) -> list[int]:
    # trec_eval truncates 23.4 to 23.
    return [int(value) for value in _numbers(text)]


def _depths(text: str) -> list[int]:
    depths = _integers(text)
    if min(depths) < 1:
        raise ParameterError("cutoffs of 1 or more")
    return depths


def _parts(text: str) -> list[float]:
    parts = _numbers(text)
    if min(parts) < 0:
        raise ParameterError("numbers of 0 or more")
    return parts


def _recalls(text: str) -> list[float]:
    return _numbers(text or _RECALLS)


def _gains(text: str) -> dict[int, float]:
    gain_of = {}
    for part in text.split(",") if text else ():
        level, equals, value = part.partition("=")
        if not equals or not re.fullmatch(r"[0-9]{1,9}", level) or not _NUMBER.fullmatch(value):
            raise ParameterError("gains of levels, such as 1=3.5,2=9")
        gain_of[int(level)] = float(value)
    return gain_of


def _weights(text: str) -> list[float]:
    weights = _numbers(text or "1,-1,0,0")
    if len(weights) != 4:
        raise ParameterError("four weights")
    return weights


def _weight(text: str) -> float:
    weight = _numbers(text or "1")
    if len(weight) != 1 or weight[0] < 0:
        raise ParameterError("one weight of 0 or more")
    return weight[0]


def _persistence(text: str) -> tuple[float, dict[int, float]]:
    parts = text.split(",") if text else []
    persistence = [part.removeprefix("p=") for part in parts if part.startswith("p=")]
    if len(persistence) > 1 or not all(map(_NUMBER.fullmatch, persistence)):
        raise ParameterError("one p=..., and gains of levels, such as p=0.8,2=0.5")
    return float(*persistence or (0.9,)), _gains(
        ",".join(part for part in parts if not part.startswith("p="))
    )


def _length(text: str) -> int:
    length = _integers(text or "10")[0]
    if length < 1:
        raise ParameterError("a length of 1 or more")
    return length


def _values(function: Callable[..., Any], **settings: Any) -> Callable[[JudgedRanking], Sequence[Value]]:
    def values(ranking: JudgedRanking) -> Sequence[Value]:
        result = function(ranking, **settings)
        return result if isinstance(result, list) else [result]

    return values


def _plain(function: Callable[..., Any], summary: Summary = Summary.MEAN) -> _Maker:
    """Return a maker of a measure without parameters."""

    def make(name: str, text: str) -> Family:
        if text:
            raise ParameterError("no parameters")
        return Family((name,), _values(function), summary)

    return make


def _with(
    function: Callable[..., Any], key: str, read: Callable[[str], Any], summary: Summary = Summary.MEAN
) -> _Maker:
    """Return a maker of one measure; its parameters are passed as the function's argument `key`."""

    def make(name: str, text: str) -> Family:
        return Family((f"{name}_{text}" if text else name,), _values(function, **{key: read(text)}), summary)

    return make


def _each(
    function: Callable[..., Any], key: str, read: Callable[[str], Sequence[float]], default: str
) -> _Maker:
    """Return a maker of one measure for each parameter, in ascending order."""

    def make(name: str, text: str) -> Family:
        parts = sorted(set(read(text or default)))
        labels = (f"{name}_{part}" if isinstance(part, int) else f"{name}_{part:.2f}" for part in parts)
        return Family(tuple(labels), _values(function, **{key: parts}))

    return make


def _cut(function: Callable[..., Any], default: str = _DEPTHS) -> _Maker:
    """Return a maker of one measure for each cutoff."""
    return _each(function, "cutoffs", _depths, default)


# Properties of a run, not of a single ranking.
_OF_RUN = _plain(str, Summary.RUN)

# In the order of trec_eval's output.
TREC_NAMES: dict[str, _Maker] = {
    "runid": _OF_RUN,
    "num_q": _OF_RUN,
    "num_ret": _plain(lambda ranking: ranking.retrieved, Summary.SUM),
    "num_rel": _plain(lambda ranking: ranking.relevant, Summary.SUM),
    "num_rel_ret": _plain(lambda ranking: len(ranking.relevant_places), Summary.SUM),
    "map": _plain(of.average_precision),
    "gm_map": _plain(of.average_precision, Summary.GEOMETRIC),
    "Rprec": _plain(of.r_precision),
    "bpref": _plain(of.binary_preference),
    "recip_rank": _plain(of.reciprocal_rank),
    "iprec_at_recall": _each(of.interpolated_precision, "recalls", _parts, _RECALLS),
    "P": _cut(of.precision),
    "relstring": _with(of.relevance_string, "length", _length, Summary.NONE),
    "recall": _cut(of.recall),
    "infAP": _plain(of.inferred_average_precision),
    "gm_bpref": _plain(of.binary_preference, Summary.GEOMETRIC),
    "Rprec_mult": _each(of.r_precision, "multiples", _parts, _MULTIPLES),
    "utility": _with(of.utility, "weights", _weights),
    "11pt_avg": _with(of.mean_interpolated_precision, "recalls", _recalls),
    "binG": _plain(of.binary_gain),
    "G": _with(of.normalized_gain, "gain_of", _gains),
    "dcg": _with(of.discounted_gain, "gain_of", _gains),
    "ideal_dcg": _with(of.ideal_discounted_gain, "gain_of", _gains),
    "ndcg": _with(of.ndcg, "gain_of", _gains),
    "ndcg_rel": _with(of.ndcg_over_relevant, "gain_of", _gains),
    "Rndcg": _with(of.ndcg_at_levels, "gain_of", _gains),
    "ndcg_cut": _cut(of.ndcg),
    "map_cut": _cut(of.average_precision),
    "relative_P": _cut(of.relative_precision),
    "success": _cut(of.success, "1,5,10"),
    "set_P": _plain(of.set_precision),
    "set_relative_P": _plain(of.set_relative_precision),
    "set_recall": _plain(of.set_recall),
    "set_map": _plain(of.set_average_precision),
    "set_F": _with(of.set_f, "weight", _weight),
    "num_nonrel_judged_ret": _plain(of.retrieved_nonrelevant, Summary.SUM),
    "yaap": _plain(of.logit_average_precision),
    "rbp": _with(lambda ranking, args: of.rank_biased_precision(ranking, *args), "args", _persistence),
    "rbp_resid": _with(lambda ranking, args: of.rank_biased_residual(ranking, args[0]), "args", _persistence),
    "unj": _cut(of.unjudged, "5,10,20"),
}
_ROUNDED: dict[str, Any] = {"cutoff": of.nearest_recall_cutoff}
_CHANGED_IN_10 = {
    "iprec_at_recall": _each(partial(of.interpolated_precision, **_ROUNDED), "recalls", _parts, _RECALLS),
    "11pt_avg": _with(partial(of.mean_interpolated_precision, **_ROUNDED), "recalls", _recalls),
}
_NEW_IN_10 = ("rbp", "rbp_resid", "unj")
_NOT_IN_ALL_TREC = ("dcg", "ideal_dcg", "yaap")

NICKNAMES: dict[str, tuple[str, ...]] = {
    "official": tuple(TREC_NAMES)[: tuple(TREC_NAMES).index("P") + 1],
    "all_trec": tuple(name for name in TREC_NAMES if name not in (*_NEW_IN_10, *_NOT_IN_ALL_TREC)),
    "set": (*tuple(TREC_NAMES)[:5], "utility", *(name for name in TREC_NAMES if name.startswith("set_"))),
}


def split_name(name: str) -> tuple[str, str] | None:
    """Split a name of trec_eval into family and parameters; return None for other names.

    Examples
    --------
    >>> split_name("P.5,10"), split_name("ndcg_cut_10"), split_name("nDCG@10")
    (('P', '5,10'), ('ndcg_cut', '10'), None)
    """
    if name in TREC_NAMES:
        return name, ""
    family, dot, parameters = name.partition(".")
    if dot and family in TREC_NAMES and parameters:
        return family, parameters
    for family in sorted(TREC_NAMES, key=len, reverse=True):
        if name.startswith(f"{family}_") and _NUMBER.match(name, len(family) + 1):
            return family, name[len(family) + 1 :]
    return None


def members(nickname: str, version: str = VERSIONS[0]) -> tuple[str, ...]:
    """Return the names of the families in a nickname, such as ``official``."""
    new = _NEW_IN_10 if nickname == "all_trec" and version == VERSIONS[1] else ()
    return NICKNAMES[nickname] + new


def families(names: Iterable[tuple[str, str]], version: str = VERSIONS[0]) -> list[Family]:
    """Return the named families of measures, in trec_eval's order.

    Parameters
    ----------
    names : iterable of (str, str)
        Names and parameters of families; an empty string for the default parameters. If a family is
        named more than once, its parameters are joined and replace the default ones, as in
        ``-m all_trec -m relstring.20``.
    version : str
        One of `VERSIONS`.

    Returns
    -------
    list of Family

    Raises
    ------
    ParameterError
        If a measure does not have these parameters.
    """
    parameters_of: dict[str, list[str]] = {}
    for name, parameters in names:
        parameters_of.setdefault(name, [])
        if parameters:
            parameters_of[name].append(parameters)
    changed = _CHANGED_IN_10 if version == VERSIONS[1] else {}
    return [
        changed.get(name, make)(name, ",".join(dict.fromkeys(parameters_of[name])))
        for name, make in TREC_NAMES.items()
        if name in parameters_of
    ]
