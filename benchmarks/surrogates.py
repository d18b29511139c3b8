"""Time an evaluation of each smooth measure, relative to measuring a setting, on a synthetic collection.

    python benchmarks/surrogates.py --collection robust04 --output figures.json

All comparisons are within one run on the same pruned candidates. Seconds are processor seconds of this
process, summed over threads, the minimum of several evaluations.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measuring import least, write_figures
from synthetic import collection

import lmtune
from lmtune.candidates.extraction import extract_pruned
from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.tuning.pairs import Lists
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import ALPHAS, SurrogateCost, parse_objective

OBJECTIVES = {
    "AP": ["approx-ap", "softmax", "ranknet", "lambda-ap"],
    "nDCG@10": ["approx-ndcg@10", "song"],
    "P@10": ["approx-p@10"],
    "Bpref": ["approx-bpref"],
    "RR": ["approx-rr"],
}
AT = np.array([0.5, 1000.0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collection", default="robust04", help="a synthetic collection, or a folder")
    parser.add_argument("--indexes", type=Path, help="folder of built indexes")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, help="a JSON file")
    options = parser.parse_args()
    data = lmtune.load(collection(options.collection))
    with tempfile.TemporaryDirectory() as scratch:
        index = lmtune.index_for(data.documents, home=options.indexes or Path(scratch))
        pool = extract_pruned(index, data.topics, data.qrels)
        figures: dict[str, Any] = {"machine": platform.machine(), "collection": options.collection}
        figures["evaluations"] = evaluations(pool, options.repeats)
    write_figures(figures, options.output, shown=False)


def evaluations(pool: CandidatePool, repeats: int) -> list[dict[str, Any]]:
    """Time a value and gradient of each objective, relative to measuring one setting."""
    rows: list[dict[str, Any]] = []
    lists = Lists.build(pool, ParameterSpace.of("two-stage"))
    per_topic = lists.columns.doc.size / len(pool.topics)
    print(
        f"documents a topic: {per_topic:.0f}; candidates: {pool.candidates.doc.size / len(pool.topics):.0f}"
    )
    print(f"{'one evaluation':28}{'alpha':>6}{'ms':>9}{'ratio':>8}")
    for name, objectives in OBJECTIVES.items():
        measure = parse_measure(name)
        measuring = partial(measure_settings, pool, AT, [measure])
        measuring()
        _, alone = least(measuring, repeats)
        print(f"{name:34}{1e3 * alone:9.2f}")
        for objective in objectives:
            cost = SurrogateCost(lists, parse_objective(objective), pool.positions())
            if objective.startswith("lambda"):
                cost.weight_pairs(AT)
            for alpha in ALPHAS:
                cost(AT, alpha)
                _, seconds = least(partial(cost, AT, alpha), repeats)
                rows.append({"objective": objective, "alpha": alpha, "ms": 1e3 * seconds})
                rows[-1] |= {"of measuring": seconds / alone}
                print(f"{objective:28}{alpha:6.0f}{1e3 * seconds:9.2f}{seconds / alone:8.2f}", flush=True)
    return rows


if __name__ == "__main__":
    main()
