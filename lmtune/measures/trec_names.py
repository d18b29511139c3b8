"""trec_eval's names of measures, their parameters and labels, as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from lmtune.measures import trec_gain_measures as gain
from lmtune.measures import trec_measures as of
from lmtune.measures.judged_ranking import JudgedRanking

Value = float | int | str


class Summary(Enum):
    """How topics' values become the run's."""

    MEAN = "mean"
    SUM = "sum"
    GEOMETRIC = "geometric mean"
    NONE = "per topic only"
    RUN = "the run's own"


class Family(NamedTuple):
    """Measures that are computed together.

    Attributes
    ----------
    labels : tuple of str
        What is printed.
    values : callable
        Gives the values of a JudgedRanking, one a label.
    summary : Summary
        How they are summed up.
    level : int or None
        The smallest relevant gain, where the name says it.
    """

    labels: tuple[str, ...]
    values: Callable[[JudgedRanking], Sequence[Value]]
    summary: Summary = Summary.MEAN
    level: int | None = None


class ParameterError(ValueError):
    """Parameters that a measure does not have; the text says what it has."""


_DEPTHS = "5,10,15,20,30,100,200,500,1000"
_RECALLS = "0,.1,.2,.3,.4,.5,.6,.7,.8,.9,1"
_MULTIPLES = ".2,.4,.6,.8,1,1.2,1.4,1.6,1.8,2"
_NUMBER = re.compile(r"[+-]?([0-9]{1,9}(\.[0-9]*)?|\.[0-9]+)")


def _integers(text: str) -> list[int]:
    # trec_eval reads 23.4 as 23.
    return [int(value) for value in _numbers(text)]


def _numbers(text: str) -> list[float]:
    parts = text.split(",")
    if not all(_NUMBER.fullmatch(part) for part in parts):
        raise ParameterError("numbers with commas between them")
    return [float(part) for part in parts]


def _cutoffs(name: str, function: Any, text: str) -> Family:
    cutoffs = sorted(set(_integers(text)))
    if cutoffs[0] < 1:
        raise ParameterError("cutoffs of 1 or more")
    return Family(tuple(f"{name}_{k}" for k in cutoffs), partial(function, cutoffs=cutoffs))


def _parts(name: str, function: Any, key: str, text: str) -> Family:
    parts = sorted(set(_numbers(text)))
    if parts[0] < 0:
        raise ParameterError("numbers of 0 or more")
    return Family(tuple(f"{name}_{x:.2f}" for x in parts), partial(function, **{key: parts}))


def _one(name: str, function: Any, text: str, summary: Summary = Summary.MEAN) -> Family:
    if text:
        raise ParameterError("no parameters")
    return Family((name,), lambda ranking: (function(ranking),), summary)


def _first(name: str, function: Any, text: str, summary: Summary = Summary.MEAN) -> Family:
    if text:
        raise ParameterError("no parameters")
    return Family((name,), function, summary)


def _gains(name: str, function: Any, text: str) -> Family:
    gain_of = {}
    for part in text.split(",") if text else ():
        level, equals, value = part.partition("=")
        if not equals or not re.fullmatch(r"[0-9]{1,9}", level) or not _NUMBER.fullmatch(value):
            raise ParameterError("gains of levels, such as 1=3.5,2=9")
        gain_of[int(level)] = float(value)
    label = f"{name}_{text}" if text else name

    def values(ranking: JudgedRanking) -> Sequence[Value]:
        value = function(ranking, gain_of=gain_of)
        return value if isinstance(value, list) else (value,)

    return Family((label,), values)


def _eleven_points(name: str, text: str) -> Family:
    recalls = _numbers(text or _RECALLS)
    label = f"{name}_{text}" if text else name
    return Family((label,), partial(of.mean_interpolated_precision, recalls=recalls))


def _utility(name: str, text: str) -> Family:
    weights = _numbers(text or "1,-1,0,0")
    if len(weights) != 4 or weights[3] != 0:
        raise ParameterError("four weights, the last 0 (how many documents are not retrieved is unknown)")
    label = f"{name}_{text}" if text else name
    return Family((label,), lambda ranking: (of.utility(ranking, weights),))


def _set_f(name: str, text: str) -> Family:
    weight = _numbers(text or "1")
    if len(weight) != 1 or weight[0] < 0:
        raise ParameterError("one weight of 0 or more")
    label = f"{name}_{text}" if text else name
    return Family((label,), lambda ranking: (of.set_f(ranking, weight[0]),))


def _relevance_string(name: str, text: str) -> Family:
    length = _integers(text or "10")[0]
    if length < 1:
        raise ParameterError("a length of 1 or more")
    label = f"{name}_{text}" if text else name
    return Family((label,), lambda ranking: (of.relevance_string(ranking, length),), Summary.NONE)


def _by_default(make: Any, text: str, default: str) -> Family:
    family: Family = make(text or default)
    return family


def _count(name: str, function: Any) -> Any:
    return partial(_one, name, function, summary=Summary.SUM)


def _depths(name: str, function: Any, default: str = _DEPTHS) -> Any:
    return partial(_by_default, partial(_cutoffs, name, function), default=default)


# In trec_eval's order, which is that of its output.
FAMILIES: dict[str, Callable[[str], Family]] = {
    "runid": partial(_one, "runid", None, summary=Summary.RUN),
    "num_q": partial(_one, "num_q", None, summary=Summary.RUN),
    "num_ret": _count("num_ret", lambda ranking: ranking.retrieved),
    "num_rel": _count("num_rel", lambda ranking: ranking.relevant),
    "num_rel_ret": _count("num_rel_ret", lambda ranking: len(ranking.relevant_places)),
    "map": partial(_first, "map", of.average_precision),
    "gm_map": partial(_first, "gm_map", of.average_precision, summary=Summary.GEOMETRIC),
    "Rprec": partial(_first, "Rprec", of.r_precision),
    "bpref": partial(_one, "bpref", of.binary_preference),
    "recip_rank": partial(_first, "recip_rank", of.reciprocal_rank),
    "iprec_at_recall": partial(
        _by_default,
        partial(_parts, "iprec_at_recall", of.interpolated_precision, "recalls"),
        default=_RECALLS,
    ),
    "P": _depths("P", of.precision),
    "relstring": partial(_relevance_string, "relstring"),
    "recall": _depths("recall", of.recall),
    "infAP": partial(_one, "infAP", of.inferred_average_precision),
    "gm_bpref": partial(_one, "gm_bpref", of.binary_preference, summary=Summary.GEOMETRIC),
    "Rprec_mult": partial(
        _by_default, partial(_parts, "Rprec_mult", of.r_precision, "multiples"), default=_MULTIPLES
    ),
    "utility": partial(_utility, "utility"),
    "11pt_avg": partial(_eleven_points, "11pt_avg"),
    "binG": partial(_one, "binG", gain.binary_gain),
    "G": partial(_gains, "G", gain.normalized_gain),
    "ndcg": partial(_gains, "ndcg", of.ndcg),
    "ndcg_rel": partial(_gains, "ndcg_rel", gain.ndcg_over_relevant),
    "Rndcg": partial(_gains, "Rndcg", gain.ndcg_at_levels),
    "ndcg_cut": _depths("ndcg_cut", of.ndcg),
    "map_cut": _depths("map_cut", of.average_precision),
    "relative_P": _depths("relative_P", of.relative_precision),
    "success": _depths("success", of.success, "1,5,10"),
    "set_P": partial(_one, "set_P", of.set_precision),
    "set_relative_P": partial(_one, "set_relative_P", of.set_relative_precision),
    "set_recall": partial(_one, "set_recall", of.set_recall),
    "set_map": partial(_one, "set_map", of.set_average_precision),
    "set_F": partial(_set_f, "set_F"),
    "num_nonrel_judged_ret": _count("num_nonrel_judged_ret", of.nonrelevant_found),
}

NICKNAMES: dict[str, tuple[str, ...]] = {
    "official": tuple(FAMILIES)[: tuple(FAMILIES).index("P") + 1],
    "all_trec": tuple(FAMILIES),
    "set": (
        "runid",
        "num_q",
        "num_ret",
        "num_rel",
        "num_rel_ret",
        "utility",
        "set_P",
        "set_relative_P",
        "set_recall",
        "set_map",
        "set_F",
    ),
}


def split_name(name: str) -> tuple[str, str] | None:
    """Split a name into trec_eval's family and its parameters; None for other names.

    Examples
    --------
    >>> split_name("P.5,10"), split_name("ndcg_cut_10"), split_name("nDCG@10")
    (('P', '5,10'), ('ndcg_cut', '10'), None)
    """
    if name in FAMILIES:
        return name, ""
    family, dot, parameters = name.partition(".")
    if dot and family in FAMILIES and parameters:
        return family, parameters
    for family in sorted(FAMILIES, key=len, reverse=True):
        if name.startswith(f"{family}_") and _NUMBER.match(name, len(family) + 1):
            return family, name[len(family) + 1 :]
    return None


def families(names: Iterable[tuple[str, str]]) -> list[Family]:
    """Make families of measures in trec_eval's order.

    Parameters
    ----------
    names : iterable of (str, str)
        Families and their parameters, empty for the default ones. Parameters of one family are
        joined, and take the place of its default ones, as in ``-m all_trec -m relstring.20``.

    Returns
    -------
    list of Family

    Raises
    ------
    ParameterError
        For parameters that the measure does not have.
    """
    wanted: dict[str, list[str]] = {}
    for family, parameters in names:
        wanted.setdefault(family, [])
        if parameters:
            wanted[family].append(parameters)
    made = []
    for family, make in FAMILIES.items():
        if family in wanted:
            made.append(make(",".join(dict.fromkeys(wanted[family]))))
    return made
