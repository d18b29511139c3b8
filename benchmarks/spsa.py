"""Measure a step of SPSA and FDSA, in evaluations of the loss, by the number of weights.

    python benchmarks/spsa.py --output figures.json

A linear net and RankNet's loss on made lists, one thread; everything within one run. Seconds are
processor seconds, the least of the repeats; a step is divided by an evaluation on the same net.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lmtune.reranking.learners.networks import make_network
from lmtune.reranking.losses import ranknet
from lmtune.reranking.settings import Settings
from lmtune.reranking.training.loop import Perturbing

STEPS = {"SPSA:2": 2, "SPSA:4": 4, "SPSA:8": 8}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, nargs="+", default=[10, 100, 300, 1000, 10_000])
    parser.add_argument("--queries", type=int, default=64)
    parser.add_argument("--documents", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--fdsa-up-to", type=int, default=300, help="weights")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure(d, options) for d in options.features]
    for row in rows:
        print("  ".join(f"{name} {value:.4g}" for name, value in row.items()))
    if options.output:
        machine = {"machine": platform.machine(), "python": platform.python_version()}
        figures = {**machine, "torch": torch.__version__, "rows": rows}
        options.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def measure(features: int, options: argparse.Namespace) -> dict[str, float]:
    """Return the seconds of an evaluation, and each method's step in evaluations."""
    rng = np.random.default_rng(features)
    shape = options.queries, options.documents
    x = torch.from_numpy(rng.normal(size=(*shape, features)).astype(np.float32))
    labels = torch.from_numpy(rng.integers(0, 5, shape).astype(np.float32))
    mask = torch.ones(shape, dtype=torch.bool)
    network: Any = make_network("linear", features, dropout=0.0, seed=0)
    flat = x.view(-1, features)

    def evaluate() -> float:
        return float(ranknet(network(flat, mask), labels))

    def gradient() -> None:
        network.zero_grad()
        ranknet(network(flat, mask), labels).backward()  # type: ignore[no-untyped-call]

    def steps(name: str, **more: Any) -> Callable[[], Any]:
        settings = Settings(network="linear", optimizer=name, **more)
        optimizer = Perturbing(network, settings, 100)
        return lambda: optimizer.descend(evaluate, 1e-6, 0, 0)

    work = {
        "evaluation": torch.no_grad()(evaluate),
        **{name: steps("spsa", evaluations_per_step=count) for name, count in STEPS.items()},
        "value and gradient": gradient,
    }
    if features <= options.fdsa_up_to:
        work["FDSA"] = steps("fdsa")
    seconds = least(work, options.repeats)
    alone = seconds.pop("evaluation")
    ratios = {name: own / alone for name, own in seconds.items()}
    return {"weights": float(features), "evaluation ms": alone * 1e3, **ratios}


def least(work: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return each call's least processor seconds, taken in turn; short calls are made in tens."""
    calls = {}
    for name, call in work.items():
        call()
        begin = time.process_time()
        call()
        calls[name] = 1 if time.process_time() - begin > 0.02 else 10
    found: dict[str, float] = dict.fromkeys(work, float("inf"))
    for _ in range(repeats):
        for name, call in work.items():
            begin = time.process_time()
            for _ in range(calls[name]):
                call()
            found[name] = min(found[name], (time.process_time() - begin) / calls[name])
    return found


if __name__ == "__main__":
    main()
