"""Measures as data, named as trec_eval and ir_measures name them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lmtune.errors import InputError

ACCEPTED = "AP, AP@k, P@k, Bpref, each with (rel=N); trec_eval's map, map_cut_k, P_k, bpref"

_IR_MEASURES_NAME = re.compile(r"(?P<kind>[A-Za-z]+)(\(rel=(?P<rel>\d+)\))?(@(?P<cutoff>\d+))?")
_TREC_EVAL_NAME = re.compile(r"(?P<kind>map_cut|map|bpref|P)([_.](?P<cutoff>\d+))?")
_KINDS = {"ap": "AP", "map": "AP", "map_cut": "AP", "p": "P", "bpref": "Bpref"}


@dataclass(frozen=True)
class Measure:
    """A measure of one ranking against its topic's judgements.

    Attributes
    ----------
    kind : str
        ``"AP"``, ``"P"`` or ``"Bpref"``.
    cutoff : int or None
        The rank down to which documents count; ``P`` needs one, ``Bpref`` has none.
    rel : int
        The smallest gain that is relevant.
    """

    kind: str
    cutoff: int | None = None
    rel: int = 1

    def __str__(self) -> str:
        rel = "" if self.rel == 1 else f"(rel={self.rel})"
        cutoff = "" if self.cutoff is None else f"@{self.cutoff}"
        return f"{self.kind}{rel}{cutoff}"

    @property
    def title(self) -> str:
        """What papers call its mean over topics: MAP, BPREF, P@10."""
        return {"AP": "M", "Bpref": ""}.get(self.kind, "") + str(self).replace("Bpref", "BPREF")


def parse_measure(name: str) -> Measure:
    """Read a measure's name.

    Parameters
    ----------
    name : str
        ir_measures' spelling (``AP``, ``P@10``, ``AP(rel=2)@100``, ``Bpref``) or trec_eval's
        (``map``, ``P_10``, ``P.10``, ``map_cut_100``, ``bpref``).

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
    Measure(kind='P', cutoff=10, rel=1)
    >>> str(parse_measure("AP(rel=2)@100"))
    'AP(rel=2)@100'
    """
    match = _TREC_EVAL_NAME.fullmatch(name) or _IR_MEASURES_NAME.fullmatch(name)
    parts = match.groupdict() if match else {}
    kind = _KINDS.get(str(parts.get("kind", "")).lower())
    cutoff = None if parts.get("cutoff") is None else int(parts["cutoff"])
    rel = int(parts.get("rel") or 1)
    if kind is None or rel < 1 or cutoff == 0:
        raise InputError("unknown measure", value=name, accepted=ACCEPTED)
    if cutoff is None and (kind == "P" or parts["kind"] == "map_cut"):
        raise InputError("the measure needs a cutoff", value=name, accepted=ACCEPTED)
    if cutoff is not None and (kind == "Bpref" or parts["kind"] == "map"):
        raise InputError("the measure has no cutoff", value=name, accepted=ACCEPTED)
    return Measure(kind, cutoff, rel)


def parse_measures(names: Iterable[str]) -> list[Measure]:
    """Read several names; one error reports every unknown one."""
    measures = []
    unknown = []
    for name in names:
        try:
            measures.append(parse_measure(name))
        except InputError as error:
            unknown.append((name, error))
    if len(unknown) == 1:
        raise unknown[0][1]
    if unknown:
        raise InputError("unknown measures", value=[name for name, _ in unknown], accepted=ACCEPTED)
    return measures
