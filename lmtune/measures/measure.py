"""Measures and their names in ir_measures, trec_eval and the learning-to-rank papers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from lmtune.errors import InputError, nearest
from lmtune.io.qrels import SUBTOPICS
from lmtune.measures.kinds import (
    EXPONENTIAL,
    HAS_NO,
    KINDS,
    LINEAR,
    MAY_HAVE,
    NEEDS,
    SUMS,
    TREC_KINDS,
    MeasureKind,
)
from lmtune.measures.trec_names import PARAMETER, split_name

_OF_RANKINGS = [kind for kind in KINDS.values() if kind.cutoff is not None and kind.reads is None]
_AT_K = ", ".join(f"{kind.name}@k" for kind in _OF_RANKINGS if kind.cutoff == MAY_HAVE)
ACCEPTED = (
    f"{', '.join(kind.name + '@k' * (kind.cutoff == NEEDS) for kind in _OF_RANKINGS)} (also {_AT_K}; (rel=2) "
    "sets the smallest relevant gain, nDCG(dcg='exp-log2')@k has gains 2^g - 1), or trec_eval's names, such "
    "as map, P_10, ndcg_cut_10, recip_rank; slower: other measures of ir_measures, such as Rprec"
)
ACCEPTED_OF_LISTS = "ndcg, ndcg@10, pairwise-error, mrr, mrr@10, wta, ap"


class IrMeasure(Protocol):
    """A measure object of ir_measures."""

    @property
    def NAME(self) -> str | None:  # noqa: N802 - the attribute's name in ir_measures
        """The measure's name without parameters."""


MeasureLike: TypeAlias = "str | Measure | MeasureKind | IrMeasure"
"""A measure, or its name as ir_measures or trec_eval spells it."""

MeasuresLike: TypeAlias = "MeasureLike | Iterable[MeasureLike]"
"""One measure or several; a string may contain several names."""

_NAME = re.compile(r"(?P<kind>[A-Za-z-]+)(\((?P<settings>[^()]*)\))?(@(?P<cutoff>[0-9]{1,9}))?")
_SETTING = re.compile(
    r"\s*(?:rel=(?P<rel>[0-9]{1,9})|dcg=['\"]?(?P<dcg>log2|exp-log2)['\"]?|p=(?P<p>0?\.[0-9]{1,9}))\s*"
)
_PERSISTENCE = 0.8
"""The default p of RBP, as in ir_measures."""
_SPELLED = re.compile(r"(?P<kind>[A-Za-z-]+(_[a-z]+)*)(?P<cutoff>[@._][0-9]{1,9})?", re.ASCII)
_CUTOFF = re.compile(r"[0-9]{1,9}")
_HUGE = re.compile(r"\d{10}")
_SEVERAL = re.compile(rf"(?:\([^()]*\)|[^\s,]|,(?={PARAMETER}))+")


@dataclass(frozen=True)
class Measure:
    """A measure of a ranking, with the values of its parameters.

    Attributes
    ----------
    kind : str
        The name of a kind in `lmtune.measures.kinds.KINDS`, such as ``"AP"`` or ``"nDCG"``; the name
        of a custom kind; or the full name of another measure, which ir_measures computes.
    cutoff : int or None
        The last rank that counts; None for the run's depth.
    rel : int
        The smallest relevant gain (``nDCG`` uses every gain of 1 or more).
    dcg : str
        For ``nDCG``: ``"log2"`` for gains as judged, as in trec_eval; ``"exp-log2"`` for
        2^gain - 1, as in learning to rank.
    p : float
        For ``RBP``: the probability that a user continues to the next document, in (0, 1).
    custom : MeasureKind or None
        The custom kind, if the measure has one.
    """

    kind: str
    cutoff: int | None = None
    rel: int = 1
    dcg: str = LINEAR
    p: float = field(default=_PERSISTENCE, repr=False)
    custom: MeasureKind | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, kind: MeasureKind, cutoff: int | None = None, rel: int = 1) -> Measure:
        """Return a measure of a custom kind, with these values of its parameters."""
        return cls(kind.name, cutoff, rel, custom=kind)

    def __str__(self) -> str:
        return self.kind + self._settings + ("" if self.cutoff is None else f"@{self.cutoff}")

    @property
    def declared(self) -> MeasureKind:
        """The measure's kind: its declaration without parameter values."""
        return self.custom or KINDS.get(self.kind) or MeasureKind(self.kind)

    @property
    def is_slow(self) -> bool:
        """Whether every setting needs a full ranking, as for custom measures and those of ir_measures."""
        return self.declared.kernel not in SUMS

    @property
    def higher_is_better(self) -> bool:
        """Whether the best value is 1 and not 0."""
        return self.declared.higher_is_better

    @property
    def title(self) -> str:
        """The usual name of the mean over topics: MAP, BPREF, P@10."""
        return (self.declared.title or self.kind) + self.label.removeprefix(self.kind)

    @property
    def label(self) -> str:
        """The usual name of a topic's value: AP, nDCG@10, nDCG@10 (gains 2^g - 1)."""
        return str(replace(self, dcg=LINEAR)) + ("" if self.dcg == LINEAR else " (gains 2^g - 1)")

    @property
    def _settings(self) -> str:
        settings = [f"rel={self.rel}"] if self.rel != 1 else []
        settings += [f"dcg='{self.dcg}'"] if self.dcg != LINEAR else []
        settings += [f"p={self.p}"] if self.p != _PERSISTENCE else []
        return f"({', '.join(settings)})" if settings else ""


def column_names(measures: Sequence[Measure]) -> tuple[list[str], str]:
    """Return the measures' labels without their common gain convention, and that convention.

    Examples
    --------
    >>> column_names([exponential_ndcg(1), exponential_ndcg(3)])
    (['nDCG@1', 'nDCG@3'], 'gains 2^g - 1')
    """
    names, conventions = zip(*(measure.label.partition(" (")[::2] for measure in measures), strict=True)
    if len(set(conventions)) > 1:
        return [measure.label for measure in measures], ""
    return [*names], conventions[0].rstrip(")")


def parse_measure(name: MeasureLike) -> Measure:
    """Parse a measure's name; return a Measure unchanged.

    Parameters
    ----------
    name : str, Measure, MeasureKind, or an object of ir_measures
        A name as ir_measures spells it (``AP``, ``P@10``, ``AP(rel=2)@100``, ``Bpref``, ``nDCG@10``),
        ignoring case, or as trec_eval does (``map``, ``P_10``, ``P.10``, ``map_cut_100``, ``bpref``,
        ``ndcg_cut_10``). ``MRR``, ``MAP``, ``precision`` and ``recall`` are accepted too.

    Returns
    -------
    Measure

    Raises
    ------
    InputError
        If the name is not supported.

    Examples
    --------
    >>> parse_measure("P_10")
    Measure(kind='P', cutoff=10, rel=1, dcg='log2')
    >>> str(parse_measure("AP(rel=2)@100"))
    'AP(rel=2)@100'
    """
    if isinstance(name, Measure):
        return name
    if isinstance(name, MeasureKind):
        return Measure.of(name)
    name = str(name)
    family, parameters = split_name(name) or ("", "")
    kind = TREC_KINDS.get(family)
    if kind is not None and (not parameters or _CUTOFF.fullmatch(parameters)):
        return Measure(kind.name, _cutoff(name, parameters or None, kind.trec_names[family], ACCEPTED))
    measure = _parse_declared(name, lambda known: known.cutoff, LINEAR, ACCEPTED)
    return measure or _parse_for_ir_measures(name)


def is_measure(name: str) -> bool:
    """Return whether `parse_measure` accepts a name."""
    try:
        parse_measure(name)
    except InputError:
        return False
    return True


def parse_list_measure(name: str | Measure) -> Measure:
    """Parse the name of a measure of labelled lists, with the conventions of learning to rank.

    Parameters
    ----------
    name : str or Measure
        ``ndcg@10`` (with gains 2^y - 1, unless written ``nDCG(dcg='log2')@10``),
        ``pairwise-error``, ``mrr@10``, ``wta`` (winner takes all) or ``ap``. The spellings of
        `parse_measure` are accepted too; case does not matter.

    Returns
    -------
    Measure

    Raises
    ------
    InputError
        If the name is not supported.

    Examples
    --------
    >>> str(parse_list_measure("ndcg@10"))
    "nDCG(dcg='exp-log2')@10"
    >>> parse_list_measure("wta").higher_is_better
    False
    """
    if isinstance(name, Measure):
        return name
    measure = _parse_declared(name.strip(), lambda kind: kind.list_cutoff, EXPONENTIAL, ACCEPTED_OF_LISTS)
    if measure is None:
        raise InputError("unknown measure", value=name, accepted=ACCEPTED_OF_LISTS)
    return measure


def check_higher_is_better(name: str) -> None:
    """Raise InputError unless `parse_list_measure` accepts the name and higher values are better."""
    if not parse_list_measure(name).higher_is_better:
        accepted = "a measure whose higher values are better, such as ndcg@10"
        raise InputError("the measure is a cost", value=name, accepted=accepted)


def exponential_ndcg(cutoff: int | None) -> Measure:
    """Return nDCG with gains 2^y - 1, the convention of learning to rank.

    Examples
    --------
    >>> print(exponential_ndcg(10))
    nDCG(dcg='exp-log2')@10
    """
    return Measure("nDCG", cutoff, dcg=EXPONENTIAL)


def split_names(names: MeasuresLike) -> list[Any]:
    """Split one or several strings at spaces and commas into names of measures.

    Commas between a measure's parameters do not split. A Measure or MeasureKind is returned as it is, an
    object of ir_measures as its name.

    Examples
    --------
    >>> split_names("map,P.5,10 utility.1,-1,0,0, ndcg.1=2,2=4,11pt_avg")
    ['map', 'P.5,10', 'utility.1,-1,0,0', 'ndcg.1=2,2=4', '11pt_avg']
    >>> split_names("nDCG@10 RBP(rel=2, p=0.8)")
    ['nDCG@10', 'RBP(rel=2, p=0.8)']
    """
    several = names if isinstance(names, Iterable) and not isinstance(names, str) else [names]
    return [
        name
        for one in several
        for name in ([one] if isinstance(one, Measure | MeasureKind) else _SEVERAL.findall(str(one)))
    ]


def parse_measures(names: MeasuresLike) -> list[Measure]:
    """Parse several names or objects, see `split_names`; one error reports all unknown ones."""
    measures = []
    unknown = []
    for name in split_names(names):
        try:
            measures.append(parse_measure(name))
        except InputError as error:
            unknown.append((name, error))
    if len(unknown) == 1:
        raise unknown[0][1]
    repeated = [str(m) for index, m in enumerate(measures) if m in measures[:index]]
    if repeated and not unknown:
        raise InputError("a measure is named twice", value=repeated[0], accepted="each measure once")
    if unknown:
        raise InputError("unknown measures", value=[name for name, _ in unknown], accepted=ACCEPTED)
    return measures


def check_reads_gains(measures: Iterable[Measure]) -> None:
    """Raise InputError for a measure of strata or subtopics, which candidate pools do not contain."""
    for measure in measures:
        if measure.declared.reads is not None:
            raise InputError(
                "only `evaluate` and `compare` compute this measure", value=str(measure), accepted=ACCEPTED
            )


def _parse_declared(
    name: str, rule_of: Callable[[MeasureKind], str | None], dcg: str, accepted: str
) -> Measure | None:
    """Parse the name of a kind in `KINDS`; return None for other names and unknown parameters.

    `rule_of` returns a kind's rule about cutoffs, such as `NEEDS`, or None if the kind does not apply.
    """
    match = _NAME.fullmatch(name)
    spelled = match["kind"].lower() if match else ""
    kinds = (kind for kind in KINDS.values() if spelled in (kind.name.lower(), *kind.aliases))
    kind = next((kind for kind in kinds if rule_of(kind) is not None), None)
    if match is None or kind is None:
        return None
    cutoff = _cutoff(name, match["cutoff"], rule_of(kind), accepted)
    rel, dcg, p = 1, dcg if kind.is_graded and kind.has_dcg else LINEAR, _PERSISTENCE
    for text in match["settings"].split(",") if match["settings"] is not None else ():
        setting = _SETTING.fullmatch(text)
        if setting is None:
            return None
        if (
            (setting["dcg"] and not (kind.is_graded and kind.has_dcg))
            or setting["rel"] == "0"
            or (setting["p"] and (not kind.has_persistence or float(setting["p"]) == 0))
        ):
            raise InputError("unknown parameter of a measure", value=name, accepted=accepted)
        if setting["rel"] and kind.is_graded:
            raise InputError(f"{kind.name} uses every gain, without rel=", value=name, accepted=accepted)
        rel = int(setting["rel"] or rel)
        dcg = setting["dcg"] or dcg
        p = float(setting["p"] or p)
    return Measure(kind.name, cutoff, rel, dcg, p)


def _parse_for_ir_measures(name: str) -> Measure:
    """Parse the name of a measure that only ir_measures computes, spelled as there or in trec_eval."""
    from lmtune.measures.ir_measures_bridge import find_measure, needs_subtopics

    measure = None if _HUGE.search(name) else find_measure(name)
    if measure is None:
        raise InputError("unknown measure", value=name, accepted=_accepted_with_nearest(name))
    kind = MeasureKind(str(measure), reads=SUBTOPICS) if needs_subtopics(measure) else None
    return Measure(str(measure), custom=kind)


def _accepted_with_nearest(name: str) -> str:
    """Return the accepted names, after the one most similar to a misspelled name, if any."""
    match = _SPELLED.fullmatch(name)
    names = {family: family for family in TREC_KINDS}
    names |= {alias.lower(): kind.name for kind in KINDS.values() for alias in (kind.name, *kind.aliases)}
    if match is None or match["kind"].lower() in names:  # a known name, refused for another reason
        return ACCEPTED
    similar = nearest(match["kind"], names)[:1]
    return (
        "".join(f"{names[one]}{match['cutoff'] or ''} (closest match); all: " for one in similar) + ACCEPTED
    )


def _cutoff(name: str, text: str | None, rule: str | None, accepted: str) -> int | None:
    if (text is None and rule == NEEDS) or (text is not None and rule == HAS_NO) or text == "0":
        problem = "has a cutoff of 1 or more" if text == "0" else f"{rule} cutoff"
        raise InputError(f"the measure {problem.replace('needs', 'needs a')}", value=name, accepted=accepted)
    return None if text is None else int(text)
