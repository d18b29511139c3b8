"""Declarations of the measures that lmtune computes: names, parameters and computations.

Each form of the input has its function:

===========================================  ==========================================================
one ranking with gains: files, slow path     `MeasureKind.value`, in `lmtune.measures.trec_measures`
ranks of relevant documents: settings,       `lmtune.measures.value_kernels.contribution`, for `SUMS`
fusion weights, certificates
lists of scores, mean over orders of ties    `lmtune.measures.list_kernels`, for `LISTS`
smooth ranks                                 `lmtune.losses.approx_kernels`, for `SMOOTH`
bounds over unjudged documents               `lmtune.measures.residual_bounds`
===========================================  ==========================================================

Only the first is required. A measure that is not in `SUMS` needs a full ranking for every setting. The
other functions reject measures that they do not support.
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
"""Whether a measure has a cutoff."""

LINEAR, EXPONENTIAL = "log2", "exp-log2"
"""The gains of nDCG: as judged, as in trec_eval; or 2^gain - 1, as in learning to rank."""


@unique
class Code(IntEnum):
    """A measure's number in compiled code. Never change one: caches of compiled code contain them."""

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
"""The measures that each kind of kernel computes; see the module's docstring."""


@dataclass(frozen=True, eq=False)
class MeasureKind:
    """The declaration of a measure, without values of its parameters.

    A custom measure needs a `name` and a `value`. It is accepted wherever a measure's name is; set its
    parameters with ``Measure.of(kind, cutoff, rel)``.

    Attributes
    ----------
    name : str
        The name in ir_measures; a custom measure may have any unused name.
    value : callable or None
        Computes a topic's value from a JudgedRanking, whose `level` is the smallest relevant gain, and
        the Measure, whose `cutoff` is the last rank that counts, or None. None if the value is not
        computed from a ranking by lmtune.
    title : str
        The usual name of the mean over topics; by default `name`.
    aliases : tuple of str
        Other names, in lower case.
    trec_names : mapping of str to str
        Names in trec_eval; each with `NEEDS` (a cutoff) or `HAS_NO`.
    cutoff, list_cutoff : str or None
        Whether it has a cutoff, as a measure of rankings and of labelled lists: `NEEDS`, `MAY_HAVE` or
        `HAS_NO`. None if it is not a measure of these.
    is_graded : bool
        Whether it uses all gains; otherwise ``rel`` separates relevant and non-relevant ones.
    has_dcg : bool
        Whether a graded measure has the parameter ``dcg``.
    higher_is_better : bool
        Whether the best value is 1 and not 0.
    needs_nonrelevant : bool
        Whether it needs documents that are judged non-relevant.
    reads : str or None
        What it needs from judgments besides gains: `STRATA` or `SUBTOPICS` of `lmtune.io.qrels`. Only
        judgments from files have these.
    has_persistence : bool
        Whether it has the parameter ``p``, the probability that a user continues to the next document.
    kernel : Code or None
        The number for measuring kernels; None if every setting needs a full ranking.
    smooth : Code or None
        The number for kernels of smooth ranks, which approximate it with binary or linear gains.

    Raises
    ------
    InputError
        If no kernel computes `kernel` or `smooth`.
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
    """Turn a function of several cutoffs into a function of a measure with one cutoff."""
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
"""All kinds by name, except measures that only ir_measures computes."""

TREC_KINDS = {name: kind for kind in KINDS.values() for name in kind.trec_names}
"""Kinds by their names in trec_eval."""
