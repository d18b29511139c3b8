"""Fusion weights: exact line search compared with grids and ranx, check of breakpoints, speed.

python -m experiments.fusion ../shared/data/trec_dl19 --ranx-python PYTHON
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import time
from pathlib import Path
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.fusion.certificate import certify
from lmtune.fusion.methods import normalised
from lmtune.fusion.runs import RunSet, prune_for_measure
from lmtune.fusion.search import ExactLineSearch, Fitting, Line, best_steps, fit_linear, weights_at
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure, parse_measure
from lmtune.measures.significance.comparison import run_labels

Runs = dict[str, dict[str, dict[str, float]]]

# Runs in another Python. Input: runs {topic: {docno: score}}, judgments, measure. Output: weights, seconds.
RANX = """
import json, sys, time
from ranx import Qrels, Run, fuse, optimize_fusion
given = json.load(sys.stdin)
qrels = Qrels(given["qrels"])
runs = [Run(run, name=str(n)) for n, run in enumerate(given["runs"])]
for _ in range(2):  # everything is compiled the second time
    begin = time.perf_counter()
    best = optimize_fusion(qrels=qrels, runs=runs, norm="min-max", method="wsum", metric=given["metric"],
                           show_progress=False)
    seconds = time.perf_counter() - begin
print(json.dumps({"weights": list(best["weights"]), "seconds": seconds}))
"""


def grid(runs: int, points: int) -> NDArray[np.float64]:
    """Return all weights that are multiples of 1 / (points - 1) and sum to 1."""
    whole = points - 1
    bars = itertools.combinations(range(whole + runs - 1), runs - 1)
    parts = [np.diff([-1, *own, whole + runs - 1]) - 1 for own in bars]
    return np.array(parts, np.float64) / whole


def by_grid(pool: CandidatePool, measure: Measure, points: int) -> tuple[float, int, float]:
    """Return the best value of a grid, its size and its CPU seconds."""
    begin = time.process_time()
    weights = grid(len(pool.formula.parameters), points)
    values = measure_settings(pool, weights, [measure])[:, :, 0].mean(axis=0)
    return float(values.max()), len(weights), time.process_time() - begin


def by_ranx(
    python: str, runs: Runs, qrels: object, pool: CandidatePool, measure: Measure
) -> tuple[float, float]:
    """Return the measure at ranx's weights, and ranx's seconds after compilation."""
    metric = {"AP": "map", "nDCG": "ndcg"}[measure.kind] + (f"@{measure.cutoff}" if measure.cutoff else "")
    given = json.dumps({"runs": list(runs.values()), "qrels": qrels, "metric": metric})
    done = subprocess.run([python, "-c", RANX], input=given, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    [value] = measure_settings(pool, np.array([found["weights"]]), [measure])[:, :, 0].mean(axis=0)
    return float(value), float(found["seconds"])


def breakpoints(pool: CandidatePool, measure: Measure, number: int) -> tuple[int, float]:
    """Evaluate at and after `number` breakpoints of two runs; return their number and largest difference."""
    begin, end = np.eye(2)
    [steps] = Line(pool, measure, pool.positions()).steps(begin, end)
    some = np.random.default_rng(0).permutation(steps.at.size)[:number]
    weights = np.array([weights_at(begin, end, t) for t in (steps.at + 0.5 * steps.width)[some].tolist()])
    direct = measure_settings(pool, weights, [measure])[:, :, 0].mean(axis=0)
    return some.size, float(np.abs(direct - steps.value[some]).max())


def made_pool(topics: int, docs: int, relevant: int) -> CandidatePool:
    """Return two synthetic runs, each with all documents."""
    rng = np.random.default_rng(0)
    names = [f"d{i:05}" for i in range(docs)]
    runs = {
        run: {str(t): dict(zip(names, rng.normal(size=docs).tolist(), strict=True)) for t in range(topics)}
        for run in "ab"
    }
    drawn = (rng.choice(names, relevant, replace=False).tolist() for _ in range(topics))
    chosen = {str(t): dict.fromkeys(own, 1) for t, own in enumerate(drawn)}
    return RunSet.of(runs).pool(normalised("min-max", "minimum"), chosen)


SHAPES = ((250, 1000, 20), (250, 1000, 40), (250, 2000, 20), (50, 1000, 20))
"""Topics, documents and relevant documents of synthetic runs."""


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with qrels.txt and runs")
    parser.add_argument("--measures", default="nDCG@10,AP")
    parser.add_argument("--sizes", default="2,3", help="number of runs to fuse")
    parser.add_argument("--ranx-python", help="a Python with ranx")
    parser.add_argument("--random", type=int, default=100_000, help="random weights of the first pair to try")
    parser.add_argument("--parts", default="fuse,exact,speed")
    given = parser.parse_args()
    files = sorted((given.data / "runs").iterdir())
    runs = dict(zip(run_labels(files), map(read_run, files), strict=True))
    judged = {t: own for t, own in read_qrels(given.data / "qrels.txt").items() if max(own.values()) > 0}
    for measure in map(parse_measure, given.measures.split(",")):
        for size in map(int, given.sizes.split(",")):
            rows: list[list[float]] = []
            for names in itertools.combinations(runs, size):
                own = {name: runs[name] for name in names}
                topics = [t for t in judged if any(t in run for run in own.values())]
                pool = RunSet.of(own).pool(normalised("min-max", "minimum"), judged, topics)
                if "fuse" in given.parts:
                    rows.append(fused(given.ranx_python, own, judged, pool, measure))
                if "exact" in given.parts and names == tuple(runs)[:2]:
                    exact(pool, measure, given.random)
            if rows:
                print(f"{measure}, {len(rows)} sets of {size}: {summary(rows)}", flush=True)
        if "speed" in given.parts:
            speed(measure)


def summary(rows: list[list[float]]) -> str:
    """Format mean values, evaluations and seconds."""
    titles = ["exact", "CPU s", "evaluations", "grid of 11", "its size", "CPU s", "grid of 101", "its size"]
    columns = zip([*titles, "CPU s", "ranx", "s"], zip(*rows, strict=True), strict=False)
    won = [sum(row[0] > row[i] + 1e-9 for row in rows) for i in (3, 6, 9) if i < len(rows[0])]
    return ", ".join(f"{title} {mean(column):.5g}" for title, column in columns) + f"; better in {won}"


def speed(measure: Measure) -> None:
    """Print the time of a line search on synthetic runs."""
    begin, end = np.eye(2)
    for number, docs, relevant in SHAPES:
        pool = made_pool(number, docs, relevant)
        line = Line(pool, measure, pool.positions())
        taken = []
        for _ in range(4):
            wall, cpu = time.perf_counter(), time.process_time()
            best_steps(line.steps(begin, end))
            taken.append((time.perf_counter() - wall, time.process_time() - cpu))
        least = [min(column) for column in zip(*taken, strict=True)]
        shape = f"{number} topics x {docs} documents x {relevant} relevant"
        print(f"{measure}: a line, {shape}: wall {least[0]:.3f} s, CPU {least[1]:.3f} s", flush=True)


def fused(
    python: str | None, runs: Runs, judged: object, pool: CandidatePool, measure: Measure
) -> list[float]:
    """Return values, evaluations and seconds of one set of runs."""
    fit_linear(Fitting(pool, measure, pool.topics[:2]))  # compile first
    begin = time.process_time()
    found, evaluations = fit_linear(Fitting(pool, measure, pool.topics))
    row = [found.best_value_, time.process_time() - begin, evaluations, *by_grid(pool, measure, 11)]
    if len(runs) < 4:
        row += by_grid(pool, measure, 101)
    return row + ([] if python is None else [*by_ranx(python, runs, judged, pool, measure)])


def exact(pool: CandidatePool, measure: Measure, number: int) -> None:
    """Compare the line of two runs with evaluations, random weights and a certificate."""
    names = " + ".join(parameter.name for parameter in pool.formula.parameters)
    count, worst = breakpoints(pool, measure, 20_000)
    print(f"{measure}, {names}: {count} steps measured, largest difference {worst:.2g}", flush=True)
    found = ExactLineSearch(str(measure)).fit(pool)
    small, depth = prune_for_measure(pool, measure, 1000)
    best = 0.0
    for some in np.array_split(np.random.default_rng(1).random(number), max(1, number // 10_000)):
        values = measure_settings(small, np.stack((some, 1 - some), 1), [measure], depth=depth)
        best = max(best, float(values[:, :, 0].mean(axis=0).max()))
    proof = certify(pool, measure, found.best_params_, tolerance=1e-6)
    print(f"{measure}, {names}: optimum {found.best_value_:.9f} (bound {found.bound_:.9f})")
    print(f"  best of {number} random {best:.9f}; branch and bound {proof.bound:.9f}", flush=True)


if __name__ == "__main__":
    main()
