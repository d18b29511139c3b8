"""The kinds of measures that lmtune computes, each declared once: names, parameters, computations.

A measure's value is computed by one function for each way in which rankings are given:

===========================================  ==========================================================
one ranking with gains: files, slow path     `MeasureKind.value`, in `lmtune.measures.trec_measures`
a setting's ranks, counted; fusion weights   `lmtune.measures.value_kernels.contribution`, of `SUMS`
along a line; certificates
lists of scores, ties in every order         `lmtune.measures.list_kernels`, of `LISTS`
smooth ranks                                 `lmtune.losses.approx_kernels`, of `SMOOTH`
bounds over unjudged documents               `lmtune.measures.residual_bounds`
===========================================  ==========================================================

Only the first is needed. A measure without a code in `SUMS` takes a ranking at every setting; the others
refuse what they do not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, unique
from typing import TYPE_CHECKING

from lmtune.errors import InputError
from lmtune.io.qrels import STRATA
from lmtune.measures import trec_measures as of
from lmtune.measures.judged_ranking import JudgedRanking

if TYPE_CHECKING:
    from lmtune.measures.measure import Measure

NEEDS, MAY_HAVE, HAS_NO = "needs", "may have", "has no"
"""What a measure does with a cutoff."""

LINEAR, EXPONENTIAL = "log2", "exp-log2"
"""How nDCG takes gains: as they are, as trec_eval does; or as 2^gain - 1, as in learning to rank."""


@unique
class Code(IntEnum):
    """What compiled code calls a measure; compiled code is cached with the numbers, which stay."""

    AP = 0
    PRECISION = 1
    BPREF = 2
    DCG = 3
    EXPONENTIAL_DCG = 4
    RECIPROCAL_RANK = 5
    RECALL = 6
    SUCCESS = 7
    WINNER = 8
    PAIRWISE_ERROR = 9


SUMS = {Code.AP, Code.PRECISION, Code.BPREF, Code.DCG, Code.RECIPROCAL_RANK, Code.RECALL, Code.SUCCESS}
LISTS = {Code.AP, Code.DCG, Code.RECIPROCAL_RANK, Code.WINNER, Code.PAIRWISE_ERROR}
SMOOTH = {Code.AP, Code.PRECISION, Code.BPREF, Code.DCG, Code.RECIPROCAL_RANK}
"""What is computed of which rankings; see the module's text."""


@dataclass(frozen=True, eq=False)
class MeasureKind:
    """A measure's declaration: all that is known of it, but for the values of its parameters.

    One's own needs a name and a `value`. Whatever takes a measure's name takes it too, or, with values of
    its parameters, ``Measure.of(kind, cutoff, rel)``.

    Attributes
    ----------
    name : str
        What ir_measures calls it; one's own may have any name that no other measure has.
    value : callable or None
        Computes it of one topic, given a JudgedRanking, whose `level` is the smallest relevant gain,
        and the Measure, whose `cutoff` is the rank down to which documents count or None; None where it
        is not computed from rankings here.
    title : str
        What papers call its mean over topics; the name by default.
    aliases : tuple of str
        Other names, in lower case.
    trec_names : mapping of str to str
        trec_eval's, and whether each `NEEDS` a cutoff or `HAS_NO`.
    cutoff, list_cutoff : str or None
        What it does with a cutoff, in rankings and in lists with labels; None where it is not named there.
    is_graded : bool
        Whether it uses all gains, and not what ``rel`` says is relevant.
    has_dcg : bool
        Whether, if graded, ``dcg`` says how it uses gains.
    higher_is_better : bool
        Whether a perfect ranking has 1 and not 0.
    needs_nonrelevant : bool
        Whether it says nothing where no document is judged nonrelevant.
    reads : str or None
        What it reads of judgments beside gains, which only files have: `STRATA` or `SUBTOPICS` of
        `lmtune.io.qrels`.
    has_persistence : bool
        Whether ``p`` says how likely a reader goes on to the next document.
    kernel : Code or None
        What kernels compute; None where it takes a ranking at every setting.
    smooth : Code or None
        What kernels of smooth ranks compute in its place, of binary or linear gains.

    Raises
    ------
    InputError
        For codes that no kernel computes.
    """

    name: str
    value: Callable[[JudgedRanking, Measure], float] | None = None
    title: str = ""
    aliases: tuple[str, ...] = ()
    trec_names: Mapping[str, str] = field(default_factory=dict)
    cutoff: str | None = MAY_HAVE
    list_cutoff: str | None = None
    is_graded: bool = False
    has_dcg: bool = True
    higher_is_better: bool = True
    needs_nonrelevant: bool = False
    reads: str | None = None
    has_persistence: bool = False
    kernel: Code | None = None
    smooth: Code | None = None

    def __post_init__(self) -> None:
        for code, known in ((self.kernel, SUMS | LISTS), (self.smooth, SMOOTH)):
            if code is not None and code not in known:
                accepted = ", ".join(one.name for one in sorted(known))
                raise InputError(f"no kernel computes the measure {self.name}", value=code, accepted=accepted)


def _at(function: Callable[..., list[float]]) -> Callable[[JudgedRanking, Measure], float]:
    """Take of a function of several cutoffs its value at a measure's own."""
    return lambda ranking, measure: function(ranking, [measure.cutoff])[0]


KINDS = {
    kind.name: kind
    for kind in (
        MeasureKind(
            "AP",
            _at(of.average_precision),
            title="MAP",
            aliases=("map",),
            trec_names={"map": HAS_NO, "map_cut": NEEDS},
            list_cutoff=HAS_NO,
            kernel=Code.AP,
            smooth=Code.AP,
        ),
        MeasureKind(
            "P",
            _at(of.precision),
            aliases=("precision",),
            trec_names={"P": NEEDS},
            cutoff=NEEDS,
            kernel=Code.PRECISION,
            smooth=Code.PRECISION,
        ),
        MeasureKind(
            "Bpref",
            lambda ranking, _: of.binary_preference(ranking),
            title="BPREF",
            trec_names={"bpref": HAS_NO},
            cutoff=HAS_NO,
            needs_nonrelevant=True,
            kernel=Code.BPREF,
            smooth=Code.BPREF,
        ),
        MeasureKind(
            "nDCG",
            lambda ranking, measure: of.ndcg(
                ranking, [measure.cutoff], exponential=measure.dcg == EXPONENTIAL
            )[0],
            trec_names={"ndcg": HAS_NO, "ndcg_cut": NEEDS},
            list_cutoff=MAY_HAVE,
            is_graded=True,
            kernel=Code.DCG,
            smooth=Code.DCG,
        ),
        MeasureKind(
            "pairwise-error",
            title="pairwise error",
            cutoff=None,
            list_cutoff=HAS_NO,
            higher_is_better=False,
            kernel=Code.PAIRWISE_ERROR,
        ),
        MeasureKind(
            "RR",
            _at(of.reciprocal_rank),
            title="MRR",
            aliases=("mrr",),
            trec_names={"recip_rank": HAS_NO},
            list_cutoff=MAY_HAVE,
            kernel=Code.RECIPROCAL_RANK,
            smooth=Code.RECIPROCAL_RANK,
        ),
        MeasureKind(
            "R",
            _at(of.recall),
            aliases=("recall",),
            trec_names={"recall": NEEDS},
            cutoff=NEEDS,
            kernel=Code.RECALL,
            smooth=Code.PRECISION,
        ),
        MeasureKind(
            "Success", _at(of.success), trec_names={"success": NEEDS}, cutoff=NEEDS, kernel=Code.SUCCESS
        ),
        MeasureKind(
            "RBP", lambda ranking, m: of.persistent_precision(ranking, m.p, m.cutoff), has_persistence=True
        ),
        MeasureKind(
            "ERR",
            lambda ranking, measure: of.expected_reciprocal_rank(ranking, measure.cutoff),
            is_graded=True,
            has_dcg=False,
        ),
        MeasureKind("Judged", _at(of.judged)),
        MeasureKind(
            "xinfAP", lambda ranking, _: of.sampled_average_precision(ranking), cutoff=HAS_NO, reads=STRATA
        ),
        MeasureKind(
            "infNDCG",
            lambda ranking, measure: of.sampled_ndcg(ranking, exponential=measure.dcg == EXPONENTIAL),
            cutoff=HAS_NO,
            is_graded=True,
            reads=STRATA,
        ),
        MeasureKind(
            "WTA",
            title="WTA cost",
            cutoff=None,
            list_cutoff=HAS_NO,
            higher_is_better=False,
            kernel=Code.WINNER,
        ),
    )
}
"""All kinds by name, but for what only ir_measures computes."""

TREC_KINDS = {name: kind for kind in KINDS.values() for name in kind.trec_names}
"""Kinds by the names that trec_eval has for them."""
