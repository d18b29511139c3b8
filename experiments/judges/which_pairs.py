"""Which pairs to judge next: `lmtune judge` compared with pooling, Hedge, bandits and move-to-front.

    python -m experiments.judges.which_pairs QRELS RUNS_FOLDER [--most 6] [--start .1] [--numbers 50 200 1000]

Each method starts from a random part of the judgments and selects pairs to judge, for each two of the runs.
Documents without a judgment in the complete set are not relevant. Results are means over the pairs of runs:

- width of the bounds of the difference over all judgments of the rest, relative to the start
- distance of the difference to the one with all judgments, relative to the start

Methods, in which a list is the ranking of a topic by a run:

- Depth pooling selects by the best rank.
- Move-to-front (Cormack, Palmer, Clarke, SIGIR 1998) stays with a list while its documents are relevant.
- The bandit selects the list with the largest mean of its Beta posterior (Losada, Parapar, Barreiro, SAC
  2016: MM).
- Hedge (Aslam, Pavlu, Savell, CIKM 2003) weights lists by 0.1 to the power of their losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.common import Results, main
from experiments.judges.reading import Qrels, thinned
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run
from lmtune.measures.from_files import EvaluationOptions, evaluate
from lmtune.measures.judges.selection import pairs_to_judge
from lmtune.measures.residual_bounds import difference_bounds
from lmtune.rerank.sources import rank_docnos

QUICK = {"most": 2, "numbers": (10,)}
Lists = Mapping[str, tuple[list[str], ...]]
"""Each run's documents by topic."""
Runs = Mapping[str, Mapping[str, Mapping[str, float]]]
MEASURES = ("P@10", "nDCG@10", "AP")


class Judging:
    """Judgments so far, and a judge with all judgments."""

    def __init__(self, known: Qrels, whole: Qrels, lists: Lists) -> None:
        self.known = {topic: dict(own) for topic, own in known.items()}
        self.whole, self.lists = whole, lists

    def judge(self, topic: str, docno: str) -> bool:
        """Add a judgment; return whether the document is relevant."""
        gain = max(0, self.whole[topic].get(docno, 0))
        self.known[topic][docno] = gain
        return gain > 0

    def left(self, topic: str, docnos: list[str]) -> str | None:
        """Return the first unjudged document of a list."""
        return next((docno for docno in docnos if docno not in self.known[topic]), None)


def by_depth(judging: Judging, number: int) -> None:
    best: dict[tuple[str, str], int] = {}
    for topic, own in judging.lists.items():
        for docnos in own:
            for rank, docno in enumerate(docnos):
                if docno not in judging.known[topic]:
                    best[topic, docno] = min(rank, best.get((topic, docno), rank))
    for topic, docno in sorted(best, key=best.__getitem__)[:number]:
        judging.judge(topic, docno)


def by_arms(judging: Judging, number: int, worth: Callable[[list[bool]], float]) -> None:
    """Judge the next document of the list with the highest worth, computed from its judged documents."""
    arms = {(topic, n): [] for topic, own in judging.lists.items() for n in range(len(own))}  # type: ignore[var-annotated]
    for _ in range(number):
        open_arms = {arm: judging.left(arm[0], judging.lists[arm[0]][arm[1]]) for arm in arms}
        able = [arm for arm, docno in open_arms.items() if docno is not None]
        if not able:
            return
        topic, n = max(able, key=lambda arm: worth(arms[arm]))
        docno = open_arms[topic, n]
        assert docno is not None
        arms[topic, n].append(judging.judge(topic, docno))


def move_to_front(seen: list[bool]) -> float:
    return -float(sum(not relevant for relevant in seen))


def posterior_mean(seen: list[bool]) -> float:
    return (sum(seen) + 1.0) / (len(seen) + 2.0)


def by_hedge(judging: Judging, number: int) -> None:
    beta, losses, weights = 0.1, {}, {}
    for topic, own in judging.lists.items():
        losses[topic] = np.zeros(len(own))
        weights[topic] = {
            docno: np.array([_half_log(docnos, docno) for docnos in own])
            for docno in {docno for docnos in own for docno in docnos}
        }

    def best(topic: str) -> tuple[float, str]:
        share = beta ** (losses[topic] - losses[topic].min())
        share /= share.sum()
        left = [docno for docno in weights[topic] if docno not in judging.known[topic]]
        return max(((float(share @ weights[topic][docno]), docno) for docno in left), default=(-1.0, ""))

    tops = {topic: best(topic) for topic in judging.lists}
    for _ in range(number):
        topic = max(tops, key=tops.__getitem__)
        value, docno = tops[topic]
        if value < 0.0:
            return
        sign = -1.0 if judging.judge(topic, docno) else 1.0
        losses[topic] += sign * weights[topic][docno]
        tops[topic] = best(topic)


def _half_log(docnos: list[str], docno: str) -> float:
    return 0.5 * math.log(len(docnos) / (docnos.index(docno) + 1)) if docno in docnos else 0.0


def chosen(judging: Judging, number: int, runs: Runs, measure: str) -> None:
    for pair in pairs_to_judge(judging.known, runs, measure, number=number).pairs:
        judging.judge(pair.topic, pair.docno)


def methods(runs: Runs) -> Iterator[tuple[str, Callable[[Judging, int], None]]]:
    for measure in ("P@10", "nDCG@10"):
        yield f"judge -m {measure}", lambda judging, number, m=measure: chosen(judging, number, runs, m)  # type: ignore[misc]
    yield "depth pooling", by_depth
    yield "move to front", lambda judging, number: by_arms(judging, number, move_to_front)
    yield "bandit, largest mean", lambda judging, number: by_arms(judging, number, posterior_mean)
    yield "Hedge", by_hedge


def state(known: Qrels, whole: Qrels, runs: Runs, depth: int) -> np.ndarray:
    """Return width of bounds and distance to the difference with all judgments, shape (2, measures)."""
    settings = EvaluationOptions(complete=True, depth=depth)
    one, other = runs
    ends = difference_bounds(known, runs, [(one, other)], MEASURES, settings)[one, other]
    found, truth = (evaluate(qrels, runs, MEASURES, settings=settings) for qrels in (known, whole))
    gap = (found.loc[one] - found.loc[other]) - (truth.loc[one] - truth.loc[other])
    return np.array([ends[:, 1] - ends[:, 0], np.abs(gap[list(MEASURES)])])


def experiment(
    *,
    qrels: str,
    runs: str,
    most: int = 6,
    start: float = 0.1,
    numbers: tuple[int, ...] = (50, 200, 1000),
    depth: int = 100,
) -> Results:
    """Select and judge pairs by each method, for each two of the runs.

    Parameters
    ----------
    qrels : str
        judgments
    runs : str
        a folder of runs
    most : int
        maximum number of runs, evenly spaced by name
    start : float
        initial part of the judgments
    numbers : tuple of int
        pairs to judge
    depth : int
        evaluation depth of the runs
    """
    whole, paths = read_qrels(Path(qrels)), sorted(Path(runs).iterdir())
    paths = paths[:: max(len(paths) // most, 1)][:most]
    read = {path.name.partition(".")[0]: read_run(path) for path in paths}
    judged = {name: {t: own for t, own in run.items() if t in whole} for name, run in read.items()}
    first = thinned(whole, start)
    ranked = {name: {t: rank_docnos(own)[:depth] for t, own in run.items()} for name, run in judged.items()}
    sums: dict[tuple[int, str], list[np.ndarray]] = {}
    for pair in combinations(judged, 2):
        two = {name: judged[name] for name in pair}
        lists = {t: tuple(ranked[name].get(t, []) for name in pair) for t in whole}
        before = state(first, whole, two, depth)
        for name, method in methods(two):
            for number in numbers:
                judging = Judging(first, whole, lists)
                method(judging, number)
                after = state(judging.known, whole, two, depth)
                sums.setdefault((number, name), []).append(np.stack([before, after]))
    rows = []
    for (number, name), found in sorted(sums.items(), key=lambda item: item[0][0]):
        before, after = np.mean(found, axis=0)
        shares = dict(zip(MEASURES, (after / before).T.tolist(), strict=True))
        cells = {
            f"{what}: {m}": own[i] for m, own in shares.items() for i, what in enumerate(("width", "error"))
        }
        rows.append({"pairs": number, "chosen by": name, **cells})
    return {"pairs": pd.DataFrame(rows)}


if __name__ == "__main__":
    main(__spec__)
