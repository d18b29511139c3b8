"""Select the query-document pairs to judge next, and read and write the file for their labels.

Each line of the file has a topic, an iteration, a docno, and a gain, or `?` for a pair without a label.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lmtune.errors import InputError, PathLike, check_least
from lmtune.io.files import atomic_write, read_bytes
from lmtune.io.locks import locked
from lmtune.io.rows import QrelsLike, RunsLike
from lmtune.measures.from_files import EvaluationOptions, Judgments, as_judgments
from lmtune.measures.measure import Measure, MeasureLike, parse_measure
from lmtune.measures.residual_bounds import read_rankings
from lmtune.progress import quantity
from lmtune.showing import Shown


class Pair(NamedTuple):
    """A topic and a document without a judgment.

    Attributes
    ----------
    topic, docno : str
        Identifiers.
    weight : float
        The effect of one unit of gain on the runs' differences from the first run, or on a single run's
        measure.
    ranks : tuple of int
        The document's rank in each run; 0 if the run does not rank it.
    """

    topic: str
    docno: str
    weight: float
    ranks: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class ToJudge(Shown, by="judge_tables.selection"):
    """The pairs to judge next.

    Attributes
    ----------
    pairs : tuple of Pair
        Sorted by weight, the largest first.
    measure : str
        The measure that determines the weights.
    runs : tuple of str
        The names of the runs; the others are compared with the first.
    unjudged : int
        The number of all unjudged pairs with a positive weight.
    share : float
        The share of `pairs` in the sum of all weights.
    pooled : float
        The share for the same number of pairs selected by depth pooling, that is by their best rank.
    """

    pairs: tuple[Pair, ...]
    measure: str
    runs: tuple[str, ...]
    unjudged: int
    share: float
    pooled: float

    @property
    def records(self) -> list[dict[str, object]]:
        """One record per pair, with its rank in each run."""
        return [
            {"topic": pair.topic, "docno": pair.docno, "weight": pair.weight}
            | dict(zip(self.runs, pair.ranks, strict=True))
            for pair in self.pairs
        ]


def pairs_to_judge(
    qrels: QrelsLike, runs: RunsLike, measure: MeasureLike = "P@10", *, number: int = 50
) -> ToJudge:
    """Select the unjudged pairs whose judgments reduce the uncertainty between runs most.

    A gain at rank r adds gain * c(r) to a run's measure. The discount c(r) is 1 / k for P@k,
    (1 - p) p^(r - 1) for RBP and 1 / log2(r + 1) for nDCG; it is 0 below the cutoff. So each unit of a
    document's gain changes the difference of two runs by |c - c'|, the weight of the pair. The width of the
    difference's residual bounds is the sum of all weights times the largest gain. For P and RBP, judging the
    pairs with the largest weights therefore reduces it most, whatever the gains are. For nDCG this is
    approximate, because the ideal DCG is ignored. Topics without judgments are left out, as they are in no
    mean. Carterette, Allan and Sitaraman (SIGIR 2006) select documents similarly for AP, whose weights depend
    on other documents' gains.

    Parameters
    ----------
    qrels, runs
        As for `lmtune.measures.from_files.evaluations`. With more than two runs, weights are summed over
        the differences from the first run.
    measure : str, Measure, or an object of ir_measures
        P@k, RBP or nDCG.
    number : int
        Number of pairs, at least 1.

    Raises
    ------
    InputError
        If the measure is another one, or no unjudged pair has a positive weight.
    """
    parsed = parse_measure(measure)
    if parsed.kind not in ("P", "RBP", "nDCG"):
        raise InputError("cannot select pairs by this measure", value=measure, accepted="P@k, RBP, nDCG")
    check_least("too few pairs to judge", number, 1)
    settings, judgments = EvaluationOptions(), as_judgments(qrels)
    ranked = read_rankings(runs, judgments, settings)
    pairs = [
        pair
        for topic in sorted({topic for _, by_topic in ranked for topic in by_topic} & judgments.keys())
        for pair in _weighted_pairs(
            topic, [by_topic.get(topic, ()) for _, by_topic in ranked], judgments, parsed
        )
    ]
    if not pairs:
        raise InputError(
            "all documents that count are judged",
            value=str(parsed),
            accepted="a larger cutoff, or other runs",
        )
    total = sum(pair.weight for pair in pairs)
    pooled = sorted(pairs, key=lambda pair: min(rank for rank in pair.ranks if rank))[:number]
    chosen = sorted(pairs, key=lambda pair: -pair.weight)[:number]
    share, by_depth = (sum(pair.weight for pair in some) / total for some in (chosen, pooled))
    names = tuple(name for name, _ in ranked)
    return ToJudge(tuple(chosen), str(parsed), names, len(pairs), share, by_depth)


def _weighted_pairs(
    topic: bytes, ranked: Sequence[Sequence[bytes]], judgments: Judgments, measure: Measure
) -> list[Pair]:
    """Return a topic's unjudged pairs with positive weights, run by run in rank order."""
    rank_of = [{docno: rank for rank, docno in enumerate(docnos, 1)} for docnos in ranked]
    judged, pairs = judgments.get(topic, {}), []
    for docno in dict.fromkeys(docno for docnos in ranked for docno in docnos):
        if docno in judged:
            continue
        ranks = tuple(ranks.get(docno, 0) for ranks in rank_of)
        first, *others = (_discount(rank, measure) for rank in ranks)
        weight = sum(abs(other - first) for other in others) if others else first
        if weight > 0.0:
            pairs.append(Pair(topic.decode(), docno.decode(), weight, ranks))
    return pairs


def _discount(rank: int, measure: Measure) -> float:
    """Return the discount of a rank, which is 0 for an unranked document."""
    if not 1 <= rank <= (measure.cutoff or math.inf):
        return 0.0
    if measure.kind == "RBP":
        return float((1.0 - measure.p) * measure.p ** (rank - 1))
    return 1.0 / (measure.cutoff or 1) if measure.kind == "P" else 1.0 / math.log2(rank + 1)


_LABEL = re.compile(r"\?|[+-]?[0-9]{1,9}")


class Entry(NamedTuple):
    """A pair in a label file.

    Attributes
    ----------
    topic, docno : str
        Identifiers.
    label : int or None
        The gain; None for a pair without a label.
    """

    topic: str
    docno: str
    label: int | None = None


def read_sheet(path: PathLike) -> list[Entry]:
    """Read a label file.

    Raises
    ------
    InputError
        If a line is not a pair, a pair is repeated, or the file has no pairs.
    """
    entries: dict[tuple[str, str], Entry] = {}
    for number, line in enumerate(read_bytes(path, text=True).decode().split("\n"), 1):
        columns = line.split()
        if not columns:
            continue
        if len(columns) != 4 or not _LABEL.fullmatch(columns[3]):
            accepted = "topic, iteration, docno, and a gain or ?"
            raise InputError("not a pair to judge", file=path, line=number, value=line, accepted=accepted)
        topic, _, docno, label = columns
        if (topic, docno) in entries:
            accepted = "each pair once"
            raise InputError("a pair is repeated", file=path, line=number, value=line, accepted=accepted)
        entries[topic, docno] = Entry(topic, docno, None if label == "?" else int(label))
    if not entries:
        raise InputError("no pairs to judge", file=path, accepted="lines of topic, iteration, docno, ?")
    return list(entries.values())


def write_sheet(path: PathLike, entries: Iterable[Entry]) -> None:
    """Write a label file atomically."""
    with atomic_write(path) as stream:
        for topic, docno, label in entries:
            stream.write(f"{topic} 0 {docno} {'?' if label is None else label}\n")


def check_unlabelled(path: PathLike) -> None:
    """Raise InputError if an existing file has labels or is not a label file."""
    if not Path(path).is_file() or not Path(path).stat().st_size:
        return
    entries = read_sheet(path)
    labelled = sum(entry.label is not None for entry in entries)
    if labelled:
        raise InputError(
            f"the file has labels for {labelled} of {quantity(len(entries), 'pair')}, which would be lost",
            file=path,
            accepted="another file, or --page to label the rest of this one",
        )


def start_sheet(path: PathLike, entries: Iterable[Entry]) -> None:
    """Write a new label file; raise InputError if it would replace labels."""
    with locked(path):
        check_unlabelled(path)
        write_sheet(path, entries)


def put_label(path: PathLike, topic: str, docno: str, label: int | None) -> list[Entry]:
    """Set or remove the label of a pair in a label file; return the new entries.

    The file is locked, so that several processes can label it at the same time.

    Raises
    ------
    InputError
        If the file does not contain the pair; as for `read_sheet`.
    """
    with locked(path):
        entries = read_sheet(path)
        indices = [i for i, entry in enumerate(entries) if (entry.topic, entry.docno) == (topic, docno)]
        if not indices:
            raise InputError("no such pair", file=path, value=(topic, docno), accepted="a pair of the file")
        entries[indices[0]] = Entry(topic, docno, label)
        write_sheet(path, entries)
    return entries
