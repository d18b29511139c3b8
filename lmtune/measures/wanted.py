"""Which measures are wanted, in trec_eval's and ir_measures' names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lmtune.errors import InputError
from lmtune.measures import trec_measures as of
from lmtune.measures.judged_ranking import JudgedRanking
from lmtune.measures.trec_names import (
    FAMILIES,
    NICKNAMES,
    Family,
    ParameterError,
    Summary,
    families,
    split_name,
)

if TYPE_CHECKING:
    from lmtune.measures.measure import Measure

ACCEPTED = (
    "official, all_trec, set, trec_eval's names with parameters (map, P.5,10, ndcg_cut_20, "
    "iprec_at_recall.0.1), ir_measures' (AP, nDCG@10, 'AP(rel=2)@100')"
)

_FUNCTIONS: dict[str, Callable[..., Sequence[float]]] = {
    "AP": of.average_precision,
    "P": of.precision,
    "R": of.recall,
    "Success": of.success,
    "RR": of.reciprocal_rank,
    "nDCG": of.ndcg,
}


class Wanted(NamedTuple):
    """What to compute.

    Attributes
    ----------
    families : tuple of Family
        Computed here, in the order of the output.
    others : tuple of str
        Names that ir_measures computes.
    """

    families: tuple[Family, ...]
    others: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """What the measures are called in the output, in its order."""
        return [*(label for family in self.families for label in family.labels), *self.others]


def parse_wanted(names: str | Iterable[str]) -> Wanted:
    """Read names of measures.

    Parameters
    ----------
    names : str or iterable of str
        trec_eval's names, with parameters behind a dot or an underscore, and its nicknames
        ``official``, ``all_trec`` and ``set``; or ir_measures' names.

    Returns
    -------
    Wanted
        trec_eval's measures in its order, then the others as they are named.

    Raises
    ------
    InputError
        One that lists all names that are unknown, or have parameters that they cannot have.
    """
    names = [names] if isinstance(names, str) else list(names)
    if not names:
        raise InputError("no measures", accepted=ACCEPTED)
    trec: list[tuple[str, str]] = []
    own: list[Family] = []
    others: list[str] = []
    wrong: list[tuple[str, str]] = []
    for name in names:
        try:
            if name in NICKNAMES:
                trec += [(family, "") for family in NICKNAMES[name]]
            elif (split := split_name(name)) is not None:
                FAMILIES[split[0]](split[1])
                trec.append(split)
            else:
                from lmtune.measures.measure import parse_measure

                measure = parse_measure(name)
                if measure.is_slow:
                    others.append(str(measure))
                else:
                    own.append(_family(measure))
        except ParameterError as error:
            wrong.append((name, str(error)))
        except InputError:
            wrong.append((name, ACCEPTED))
    if wrong:
        one = len(wrong) == 1
        raise InputError(
            "unknown measure" if one else "unknown measures",
            value=wrong[0][0] if one else [name for name, _ in wrong],
            accepted=wrong[0][1] if one else ACCEPTED,
        )
    try:
        made = families(trec)
    except ParameterError as error:
        raise InputError("measures that do not go together", value=names, accepted=str(error)) from None
    unique = {family.labels: family for family in own}
    return Wanted((*made, *unique.values()), tuple(dict.fromkeys(others)))


def _family(measure: Measure) -> Family:
    if measure.kind == "Bpref":
        return Family((str(measure),), lambda ranking: (of.binary_preference(ranking),), level=measure.rel)
    settings: dict[str, Any] = {"cutoffs": (measure.cutoff,)}
    if measure.kind == "nDCG":
        settings["exponential"] = measure.dcg == "exp-log2"
    values: Callable[[JudgedRanking], Sequence[float]] = partial(_FUNCTIONS[measure.kind], **settings)
    return Family((str(measure),), values, Summary.MEAN, measure.rel)
