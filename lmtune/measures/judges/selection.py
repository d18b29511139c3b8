"""Which pairs to judge next: those whose judgment leaves least open between runs; a file of them to fill in.

The file has lines of topic, iteration, docno and a gain, `?` while there is none.
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
    weight : float
        How much its gain moves the runs' differences from the first, of a single run its measure.
    ranks : tuple of int
        In each run; 0 where the run does not rank it.
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
        The heaviest first.
    measure : str
    runs : tuple of str
        The first is the one that the others are held against.
    unjudged : int
        Pairs with a weight in all.
    share : float
        Of all weights, that of the pairs.
    pooled : float
        The same of as many pairs by their best rank in any run: depth pooling.
    """

    pairs: tuple[Pair, ...]
    measure: str
    runs: tuple[str, ...]
    unjudged: int
    share: float
    pooled: float

    @property
    def records(self) -> list[dict[str, object]]:
        """A record of each pair, with its rank in each run."""
        return [
            {"topic": pair.topic, "docno": pair.docno, "weight": pair.weight}
            | dict(zip(self.runs, pair.ranks, strict=True))
            for pair in self.pairs
        ]


def pairs_to_judge(
    qrels: QrelsLike, runs: RunsLike, measure: MeasureLike = "P@10", *, number: int = 50
) -> ToJudge:
    """Choose the unjudged pairs whose judgments leave least open between runs.

    A document's gain counts in a run's measure by its rank's discount c(r): 1 / k for P@k, (1 - p) p^(r - 1)
    for RBP, 1 / log2(r + 1) for nDCG, 0 below the cutoff. Between two runs it moves their difference by
    |c - c'| a gain, and what all unjudged documents leave open of it is the sum of these times the largest
    gain: so for P and RBP the heaviest pairs are those whose judgment narrows it most, whatever their gains
    turn out to be. For nDCG topics' ideal gains, which are left out, change that. Topics without any
    judgment are in no mean, and left out. Carterette, Allan and Sitaraman (SIGIR 2006) choose likewise for
    AP, whose weights depend on other documents' gains.

    Parameters
    ----------
    qrels, runs
        As for `lmtune.measures.from_files.evaluations`. Several runs: the sum over their differences from
        the first.
    measure : str, Measure, or an object of ir_measures
        P@k, RBP or nDCG.
    number : int
        Of pairs, at least 1.

    Raises
    ------
    InputError
        For another measure, and where nothing is unjudged that counts.
    """
    parsed = parse_measure(measure)
    if parsed.kind not in ("P", "RBP", "nDCG"):
        raise InputError("no weights of documents for this measure", value=measure, accepted="P@k, RBP, nDCG")
    check_least("too few pairs to judge", number, 1)
    settings, judgments = EvaluationOptions(), as_judgments(qrels)
    ranked = read_rankings(runs, judgments, settings)
    pairs = [
        pair
        for topic in sorted({topic for _, own in ranked for topic in own} & judgments.keys())
        for pair in _weighed(topic, [own.get(topic, ()) for _, own in ranked], judgments, parsed)
    ]
    if not pairs:
        raise InputError(
            "nothing is unjudged that counts", value=str(parsed), accepted="a larger cutoff, or other runs"
        )
    total = sum(pair.weight for pair in pairs)
    pooled = sorted(pairs, key=lambda pair: min(rank for rank in pair.ranks if rank))[:number]
    chosen = sorted(pairs, key=lambda pair: -pair.weight)[:number]
    share, by_depth = (sum(pair.weight for pair in some) / total for some in (chosen, pooled))
    names = tuple(name for name, _ in ranked)
    return ToJudge(tuple(chosen), str(parsed), names, len(pairs), share, by_depth)


def _weighed(
    topic: bytes, ranked: Sequence[Sequence[bytes]], judgments: Judgments, measure: Measure
) -> list[Pair]:
    """Return a topic's pairs that weigh something, in the order of their best rank."""
    places = [{docno: rank for rank, docno in enumerate(own, 1)} for own in ranked]
    judged, found = judgments.get(topic, {}), []
    for docno in dict.fromkeys(docno for own in ranked for docno in own):
        if docno in judged:
            continue
        ranks = tuple(own.get(docno, 0) for own in places)
        first, *others = (_discount(rank, measure) for rank in ranks)
        weight = sum(abs(other - first) for other in others) if others else first
        if weight > 0.0:
            found.append(Pair(topic.decode(), docno.decode(), weight, ranks))
    return found


def _discount(rank: int, measure: Measure) -> float:
    """Return what a gain of 1 at a rank, 0 for none, adds to a topic's value."""
    if not 1 <= rank <= (measure.cutoff or math.inf):
        return 0.0
    if measure.kind == "RBP":
        return float((1.0 - measure.p) * measure.p ** (rank - 1))
    return 1.0 / (measure.cutoff or 1) if measure.kind == "P" else 1.0 / math.log2(rank + 1)


_LABEL = re.compile(r"\?|[+-]?[0-9]{1,9}")


class Entry(NamedTuple):
    """A pair to judge.

    Attributes
    ----------
    topic, docno : str
    label : int or None
        None where it is yet to be judged.
    """

    topic: str
    docno: str
    label: int | None = None


def read_sheet(path: PathLike) -> list[Entry]:
    """Read a file to fill in, in its order.

    Raises
    ------
    InputError
        At a line that is no pair, at a pair that comes twice, and where there are none.
    """
    entries: dict[tuple[str, str], Entry] = {}
    for number, line in enumerate(read_bytes(path, text=True).decode().split("\n"), 1):
        columns = line.split()
        if not columns:
            continue
        if len(columns) != 4 or not _LABEL.fullmatch(columns[3]):
            accepted = "topic, iteration, docno, and a gain or ?"
            raise InputError("no pair to judge", file=path, line=number, value=line, accepted=accepted)
        topic, _, docno, label = columns
        if (topic, docno) in entries:
            accepted = "each pair once"
            raise InputError("a pair comes twice", file=path, line=number, value=line, accepted=accepted)
        entries[topic, docno] = Entry(topic, docno, None if label == "?" else int(label))
    if not entries:
        raise InputError("no pairs to judge", file=path, accepted="lines of topic, iteration, docno, ?")
    return list(entries.values())


def write_sheet(path: PathLike, entries: Iterable[Entry]) -> None:
    """Write a file to fill in, whole or not at all."""
    with atomic_write(path) as stream:
        for topic, docno, label in entries:
            stream.write(f"{topic} 0 {docno} {'?' if label is None else label}\n")


def check_unlabelled(path: PathLike) -> None:
    """Raise InputError where a file to fill in holds a label, or a file is not one to fill in."""
    if not Path(path).is_file() or not Path(path).stat().st_size:
        return
    entries = read_sheet(path)
    done = sum(entry.label is not None for entry in entries)
    if done:
        raise InputError(
            f"will not replace labels of {done} of {quantity(len(entries), 'pair')}",
            file=path,
            accepted="another file, or --page to label the rest of this one",
        )


def start_sheet(path: PathLike, entries: Iterable[Entry]) -> None:
    """Write a new file to fill in; see `check_unlabelled`."""
    with locked(path):
        check_unlabelled(path)
        write_sheet(path, entries)


def put_label(path: PathLike, topic: str, docno: str, label: int | None) -> list[Entry]:
    """Put a pair's label into its file, or take it out; return what the file has then.

    Processes that label one file wait for each other.

    Raises
    ------
    InputError
        For a pair that the file lacks; as `read_sheet`.
    """
    with locked(path):
        entries = read_sheet(path)
        places = [at for at, entry in enumerate(entries) if (entry.topic, entry.docno) == (topic, docno)]
        if not places:
            raise InputError("no such pair", file=path, value=(topic, docno), accepted="a pair of the file")
        entries[places[0]] = Entry(topic, docno, label)
        write_sheet(path, entries)
    return entries
