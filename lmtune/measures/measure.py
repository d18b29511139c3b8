"""Measures as data, named as ir_measures, trec_eval and the learning-to-rank papers name them."""

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
    "raises the gain that is relevant, nDCG(dcg='exp-log2')@k has gains 2^g - 1), or trec_eval's names, such "
    "as map, P_10, ndcg_cut_10, recip_rank; slowly also ir_measures' others, such as Rprec"
)
ACCEPTED_OF_LISTS = "ndcg, ndcg@10, pairwise-error, mrr, mrr@10, wta, ap"


class IrMeasure(Protocol):
    """A measure of ir_measures."""

    @property
    def NAME(self) -> str | None:  # noqa: N802 - ir_measures' own name
        """The measure's name without parameters."""


MeasureLike: TypeAlias = "str | Measure | MeasureKind | IrMeasure"
"""A measure, or its name in ir_measures' or trec_eval's spelling."""

MeasuresLike: TypeAlias = "MeasureLike | Iterable[MeasureLike]"
"""A measure, or several; a text may name several."""

_NAME = re.compile(r"(?P<kind>[A-Za-z-]+)(\((?P<settings>[^()]*)\))?(@(?P<cutoff>[0-9]{1,9}))?")
_SETTING = re.compile(
    r"\s*(?:rel=(?P<rel>[0-9]{1,9})|dcg=['\"]?(?P<dcg>log2|exp-log2)['\"]?|p=(?P<p>0?\.[0-9]{1,9}))\s*"
)
_PERSISTENCE = 0.8
"""RBP's, where nobody says it, as in ir_measures."""
_SPELLED = re.compile(r"(?P<kind>[A-Za-z-]+(_[a-z]+)*)(?P<cutoff>[@._][0-9]{1,9})?", re.ASCII)
_CUTOFF = re.compile(r"[0-9]{1,9}")
_HUGE = re.compile(r"\d{10}")
_SEVERAL = re.compile(rf"(?:\([^()]*\)|[^\s,]|,(?={PARAMETER}))+")


@dataclass(frozen=True)
class Measure:
    """A measure of one ranking against its topic's judgments.

    Attributes
    ----------
    kind : str
        The name of one in `lmtune.measures.kinds.KINDS`, such as ``"AP"`` or ``"nDCG"``; of
        one's own; or the whole name of another measure, which ir_measures computes from a run.
    cutoff : int or None
        The rank down to which documents count; None for the run's depth.
    rel : int
        The smallest gain that is relevant (``nDCG`` uses every gain of 1 or more).
    dcg : str
        For ``nDCG``: ``"log2"``, a document's gain as trec_eval has it, or ``"exp-log2"``,
        2^gain - 1 as in learning to rank.
    p : float
        For ``RBP``: how likely a reader goes on to the next document, in (0, 1).
    own : MeasureKind or None
        The kind that is one's own.
    """

    kind: str
    cutoff: int | None = None
    rel: int = 1
    dcg: str = LINEAR
    p: float = field(default=_PERSISTENCE, repr=False)
    own: MeasureKind | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, kind: MeasureKind, cutoff: int | None = None, rel: int = 1) -> Measure:
        """Give the parameters of one's own kind their values."""
        return cls(kind.name, cutoff, rel, own=kind)

    def __str__(self) -> str:
        return self.kind + self._settings + ("" if self.cutoff is None else f"@{self.cutoff}")

    @property
    def declared(self) -> MeasureKind:
        """All that is known of it, but for the values of its parameters."""
        return self.own or KINDS.get(self.kind) or MeasureKind(self.kind)

    @property
    def is_slow(self) -> bool:
        """Whether it takes a ranking at every setting, as one's own and ir_measures' do."""
        return self.declared.kernel not in SUMS

    @property
    def higher_is_better(self) -> bool:
        """Whether a perfect ranking has 1 and not 0."""
        return self.declared.higher_is_better

    @property
    def title(self) -> str:
        """What papers call its mean over topics: MAP, BPREF, P@10."""
        return (self.declared.title or self.kind) + self.label.removeprefix(self.kind)

    @property
    def label(self) -> str:
        """What a reader calls its value for a topic: AP, nDCG@10, nDCG@10 (gains 2^g - 1)."""
        return str(replace(self, dcg=LINEAR)) + ("" if self.dcg == LINEAR else " (gains 2^g - 1)")

    @property
    def _settings(self) -> str:
        settings = [f"rel={self.rel}"] if self.rel != 1 else []
        settings += [f"dcg='{self.dcg}'"] if self.dcg != LINEAR else []
        settings += [f"p={self.p}"] if self.p != _PERSISTENCE else []
        return f"({', '.join(settings)})" if settings else ""


def column_names(measures: Sequence[Measure]) -> tuple[list[str], str]:
    """Return the labels of measures without the convention that they share, and that convention.

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
    """Read a measure's name; a Measure is itself.

    Parameters
    ----------
    name : str, Measure, MeasureKind, or an object of ir_measures
        ir_measures' spelling (``AP``, ``P@10``, ``AP(rel=2)@100``, ``Bpref``, ``nDCG@10``) or
        trec_eval's (``map``, ``P_10``, ``P.10``, ``map_cut_100``, ``bpref``, ``ndcg_cut_10``); in
        ir_measures' case does not matter, and ``MRR``, ``MAP``, ``precision``, ``recall`` will do.

    Returns
    -------
    Measure

    Raises
    ------
    InputError
        For a name that is not supported.

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
    return _own(name, lambda known: known.cutoff, LINEAR, ACCEPTED) or _of_ir_measures(name)


def is_measure(name: str) -> bool:
    """Tell whether `parse_measure` reads a name."""
    try:
        parse_measure(name)
    except InputError:
        return False
    return True


def parse_list_measure(name: str | Measure) -> Measure:
    """Read the name of a measure of lists with labels, in learning to rank's terms.

    Parameters
    ----------
    name : str or Measure
        ``ndcg@10`` (whose gains are 2^y - 1 here, unless it says ``nDCG(dcg='log2')@10``),
        ``pairwise-error``, ``mrr@10``, ``wta`` (winner takes all), ``ap``, each also in
        `parse_measure`'s spelling of it; case does not matter.

    Returns
    -------
    Measure

    Raises
    ------
    InputError
        For a name that is not supported.

    Examples
    --------
    >>> str(parse_list_measure("ndcg@10"))
    "nDCG(dcg='exp-log2')@10"
    >>> parse_list_measure("wta").higher_is_better
    False
    """
    if isinstance(name, Measure):
        return name
    measure = _own(name.strip(), lambda kind: kind.list_cutoff, EXPONENTIAL, ACCEPTED_OF_LISTS)
    if measure is None:
        raise InputError("unknown measure", value=name, accepted=ACCEPTED_OF_LISTS)
    return measure


def check_higher_is_better(name: str) -> None:
    """Raise InputError unless `parse_list_measure` knows the name, and it is no cost's."""
    if not parse_list_measure(name).higher_is_better:
        raise InputError("a cost, where higher must be better", value=name, accepted="such as ndcg@10")


def exponential_ndcg(cutoff: int | None) -> Measure:
    """Return NDCG with gains of 2^y - 1, as learning to rank trains and reports it.

    Examples
    --------
    >>> print(exponential_ndcg(10))
    nDCG(dcg='exp-log2')@10
    """
    return Measure("nDCG", cutoff, dcg=EXPONENTIAL)


def split_names(given: MeasuresLike) -> list[Any]:
    """List names of measures: given as a text with blanks or commas between, as an object, or several.

    Parameters stay what they are. A Measure or MeasureKind stays itself, ir_measures' objects are taken
    by their names.

    Examples
    --------
    >>> split_names("map,P.5,10 utility.1,-1,0,0, ndcg.1=2,2=4,11pt_avg")
    ['map', 'P.5,10', 'utility.1,-1,0,0', 'ndcg.1=2,2=4', '11pt_avg']
    >>> split_names("nDCG@10 RBP(rel=2, p=0.8)")
    ['nDCG@10', 'RBP(rel=2, p=0.8)']
    """
    several = given if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    return [
        name
        for one in several
        for name in ([one] if isinstance(one, Measure | MeasureKind) else _SEVERAL.findall(str(one)))
    ]


def parse_measures(names: MeasuresLike) -> list[Measure]:
    """Read several names or objects, see `split_names`; one error reports every unknown one."""
    measures = []
    unknown = []
    for name in split_names(names):
        try:
            measures.append(parse_measure(name))
        except InputError as error:
            unknown.append((name, error))
    if len(unknown) == 1:
        raise unknown[0][1]
    twice = [str(m) for place, m in enumerate(measures) if m in measures[:place]]
    if twice and not unknown:
        raise InputError("a measure is named twice", value=twice[0], accepted="each once")
    if unknown:
        raise InputError("unknown measures", value=[name for name, _ in unknown], accepted=ACCEPTED)
    return measures


def check_reads_gains(measures: Iterable[Measure]) -> None:
    """Raise InputError for a measure that reads strata or subtopics, which pools do not keep."""
    for measure in measures:
        if measure.declared.reads is not None:
            raise InputError(
                "a measure of `evaluate` and `compare` alone", value=str(measure), accepted=ACCEPTED
            )


def _own(name: str, rule_of: Callable[[MeasureKind], str | None], dcg: str, accepted: str) -> Measure | None:
    """Read a name in ir_measures' spelling; None where it is of no kind, or has unknown settings."""
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
            raise InputError("unknown setting of a measure", value=name, accepted=accepted)
        if setting["rel"] and kind.is_graded:
            raise InputError(f"{kind.name} uses every gain", value=name, accepted=accepted)
        rel = int(setting["rel"] or rel)
        dcg = setting["dcg"] or dcg
        p = float(setting["p"] or p)
    return Measure(kind.name, cutoff, rel, dcg, p)


def _of_ir_measures(name: str) -> Measure:
    """Read a measure that only ir_measures knows, in its spelling or trec_eval's."""
    from lmtune.measures.ir_measures_bridge import find_measure, needs_subtopics

    found = None if _HUGE.search(name) else find_measure(name)
    if found is None:
        raise InputError("unknown measure", value=name, accepted=_perhaps(name))
    return Measure(
        str(found), own=MeasureKind(str(found), reads=SUBTOPICS) if needs_subtopics(found) else None
    )


def _perhaps(name: str) -> str:
    """Return what is accepted, after the measure that a name may be a slip of, with the name's cutoff."""
    match = _SPELLED.fullmatch(name)
    names = {family: family for family in TREC_KINDS}
    names |= {alias.lower(): own.name for own in KINDS.values() for alias in (own.name, *own.aliases)}
    if match is None or match["kind"].lower() in names:  # known, and refused for another reason
        return ACCEPTED
    near = nearest(match["kind"], names)[:1]
    return "".join(f"{names[own]}{match['cutoff'] or ''}, perhaps, of " for own in near) + ACCEPTED


def _cutoff(name: str, text: str | None, rule: str | None, accepted: str) -> int | None:
    if (text is None and rule == NEEDS) or (text is not None and rule == HAS_NO) or text == "0":
        problem = "has a cutoff of 1 or more" if text == "0" else f"{rule} cutoff"
        raise InputError(f"the measure {problem.replace('needs', 'needs a')}", value=name, accepted=accepted)
    return None if text is None else int(text)
