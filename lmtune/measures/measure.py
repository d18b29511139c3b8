"""Measures as data, named as trec_eval and ir_measures name them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lmtune.errors import InputError

ACCEPTED = (
    "AP, P@k, Bpref, nDCG, RR, R@k, Success@k (also AP@k, nDCG@k, RR@k; (rel=2) raises the gain "
    "that is relevant, nDCG(dcg='exp-log2')@k has gains 2^g - 1), or trec_eval's names, such as "
    "map, P_10, ndcg_cut_10, recip_rank; slowly also ir_measures' others, such as Rprec"
)

_NAME = re.compile(r"(?P<kind>[A-Za-z]+)(\((?P<settings>[^()]*)\))?(@(?P<cutoff>[0-9]{1,9}))?")
_SETTING = re.compile(r"\s*(?:rel=(?P<rel>[0-9]{1,9})|dcg=['\"]?(?P<dcg>log2|exp-log2)['\"]?)\s*")
_TREC_EVAL_NAME = re.compile(r"(?P<name>[A-Za-z]+(?:_cut|_rank)?)(?:[_.](?P<cutoff>[0-9]{1,9}))?")

_HUGE = re.compile(r"\d{10}")
NEEDS, MAY_HAVE, HAS_NO = "needs", "may have", "has no"
_CUTOFFS = {
    "AP": MAY_HAVE,
    "P": NEEDS,
    "Bpref": HAS_NO,
    "nDCG": MAY_HAVE,
    "RR": MAY_HAVE,
    "R": NEEDS,
    "Success": NEEDS,
}
_TREC_EVAL = {
    "map": ("AP", HAS_NO),
    "map_cut": ("AP", NEEDS),
    "P": ("P", NEEDS),
    "bpref": ("Bpref", HAS_NO),
    "ndcg": ("nDCG", HAS_NO),
    "ndcg_cut": ("nDCG", NEEDS),
    "recip_rank": ("RR", HAS_NO),
    "recall": ("R", NEEDS),
    "success": ("Success", NEEDS),
}
_TITLES = {"AP": "MAP", "Bpref": "BPREF", "RR": "MRR", "nDCG": "NDCG"}


@dataclass(frozen=True)
class Measure:
    """A measure of one ranking against its topic's judgements.

    Attributes
    ----------
    kind : str
        ``"AP"``, ``"P"``, ``"Bpref"``, ``"nDCG"``, ``"RR"``, ``"R"`` or ``"Success"``; or the whole
        name of another measure, which ir_measures computes from a run.
    cutoff : int or None
        The rank down to which documents count; None for the run's depth.
    rel : int
        The smallest gain that is relevant (``nDCG`` uses every gain of 1 or more).
    dcg : str
        For ``nDCG``: ``"log2"``, a document's gain as trec_eval has it, or ``"exp-log2"``,
        2^gain - 1 as in learning to rank.
    """

    kind: str
    cutoff: int | None = None
    rel: int = 1
    dcg: str = "log2"

    def __str__(self) -> str:
        return self.kind + self._settings + ("" if self.cutoff is None else f"@{self.cutoff}")

    @property
    def is_slow(self) -> bool:
        """Whether ir_measures has to compute it, from a run at every setting."""
        return self.kind not in _CUTOFFS

    @property
    def title(self) -> str:
        """What papers call its mean over topics: MAP, BPREF, P@10."""
        return _TITLES.get(self.kind, self.kind) + str(self).removeprefix(self.kind)

    @property
    def _settings(self) -> str:
        settings = [f"rel={self.rel}"] if self.rel != 1 else []
        settings += [f"dcg='{self.dcg}'"] if self.dcg != "log2" else []
        return f"({', '.join(settings)})" if settings else ""


def parse_measure(name: str) -> Measure:
    """Read a measure's name.

    Parameters
    ----------
    name : str
        ir_measures' spelling (``AP``, ``P@10``, ``AP(rel=2)@100``, ``Bpref``, ``nDCG@10``) or
        trec_eval's (``map``, ``P_10``, ``P.10``, ``map_cut_100``, ``bpref``, ``ndcg_cut_10``).

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
    if trec := _TREC_EVAL_NAME.fullmatch(name):
        kind, rule = _TREC_EVAL.get(trec["name"], (None, MAY_HAVE))
        if kind is not None and (kind != "P" or trec["cutoff"]):
            return Measure(kind, _cutoff(name, trec["cutoff"], rule))
    match = _NAME.fullmatch(name)
    kinds = {kind.lower(): kind for kind in _CUTOFFS}
    kind = kinds.get(match["kind"].lower()) if match else None
    if match is None or kind is None:
        return _of_ir_measures(name)
    cutoff = _cutoff(name, match["cutoff"], _CUTOFFS[kind])
    rel, dcg = 1, "log2"
    for text in match["settings"].split(",") if match["settings"] is not None else ():
        setting = _SETTING.fullmatch(text)
        if setting is None:
            return _of_ir_measures(name)
        if (setting["dcg"] and kind != "nDCG") or setting["rel"] == "0":
            raise InputError("unknown setting of a measure", value=name, accepted=ACCEPTED)
        if setting["rel"] and kind == "nDCG":
            raise InputError("nDCG uses every gain", value=name, accepted=ACCEPTED)
        rel = int(setting["rel"] or rel)
        dcg = setting["dcg"] or dcg
    return Measure(kind, cutoff, rel, dcg)


def parse_measures(names: str | Iterable[str]) -> list[Measure]:
    """Read several names; one error reports every unknown one."""
    names = [names] if isinstance(names, str) else list(names)
    measures = []
    unknown = []
    for name in names:
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


def _of_ir_measures(name: str) -> Measure:
    """Read a measure that only ir_measures knows, in its spelling or trec_eval's."""
    import ir_measures

    found = []
    # Whatever its parsers stumble over is a name that is not known.
    with contextlib.suppress(Exception):
        found = ir_measures.parse_trec_measure(name)
    with contextlib.suppress(Exception):
        found = found or [ir_measures.parse_measure(name)]
    pipeline: Any = ir_measures.DefaultPipeline
    if _HUGE.search(name) or len(found) != 1 or not pipeline.supports(found[0]):
        raise InputError("unknown measure", value=name, accepted=ACCEPTED)
    return Measure(str(found[0]))


def _cutoff(name: str, text: str | None, rule: str) -> int | None:
    if (text is None and rule == NEEDS) or (text is not None and rule == HAS_NO) or text == "0":
        problem = "has a cutoff of 1 or more" if text == "0" else f"{rule} cutoff"
        raise InputError(f"the measure {problem.replace('needs', 'needs a')}", value=name, accepted=ACCEPTED)
    return None if text is None else int(text)
