"""Measure CPU time and memory of one step of each loss, forward and backward on raw scores.

    python benchmarks/losses.py --peers-python ENV/bin/python --output figures.json

ENV is an environment with allRank, Rax and LibAUC, or some of them. "plain" is a few lines of PyTorch. Each
library, loss and size runs in a separate process (`losses_step.py`), with the same scores and labels.
Figures are processor milliseconds of all threads, the minimum of several steps, and the growth of the
process's memory in the first step, in MB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from measuring import machine, write_figures

_STEP = Path(__file__).with_name("losses_step.py")
LOSSES = ["ranknet", "lambdarank", "ndcgloss2++", "approxndcg", "neuralndcg", "listnet", "listmle"]
LOSSES += ["binary-cross-entropy", "margin-mse", "cross-entropy"]
PEERS = ["allrank", "rax", "libauc"]
# For longer lists, the other libraries' pairwise losses need over 100 GB.
LONGEST_OF_PEERS = 1_000
# NeuralNDCG stores an n x n matrix for each query.
LONGEST = {"neuralndcg": 1_000}


def main() -> None:
    options = parse_options()
    figures: dict[str, Any] = {"machine": machine(), "seconds allowed": options.seconds}
    sizes = [tuple(map(int, size.split("x"))) for size in options.sizes]
    for queries, items in sizes:
        rows: dict[str, dict[str, Any]] = {}
        for loss in [*options.losses, "song"] if options.peers_python else options.losses:
            row = {}
            if loss != "song" and items <= LONGEST.get(loss, items):
                for library in ("lmtune", "plain"):
                    row[library] = step(Path(sys.executable), library, loss, queries, items, options)
            if options.peers_python and items <= LONGEST_OF_PEERS:
                for peer in PEERS:
                    row[peer] = step(options.peers_python, peer, loss, queries, items, options)
            rows[loss] = {peer: measured for peer, measured in row.items() if measured}
            print(f"{queries} x {items} {loss}: {line(rows[loss])}", flush=True)
        figures[f"{queries} x {items}"] = rows
    write_figures(figures, options.output, shown=False)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["64x120", "64x1000", "64x10000"])
    parser.add_argument("--losses", nargs="+", default=LOSSES, choices=LOSSES)
    parser.add_argument("--peers-python", type=Path, help="a Python with the other libraries")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=120, help="time limit of each process")
    parser.add_argument("--gigabytes", type=float, default=12, help="memory limit of each process")
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    return parser.parse_args()


def step(python: Path, library: str, loss: str, queries: int, items: int, options: argparse.Namespace) -> Any:
    """Return a case's figures or the reason of its failure; None if the library lacks the loss."""
    command = [
        str(python),
        str(_STEP),
        library,
        loss,
        str(queries),
        str(items),
        str(options.threads),
        str(options.repeats),
        str(options.gigabytes),
    ]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=options.seconds,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"over {options.seconds} s"}
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    message = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return {"failed": message[:200]}


def line(row: dict[str, Any]) -> str:
    parts = []
    ours = row.get("lmtune", {}).get("cpu ms")
    for library, measured in row.items():
        if "failed" in measured:
            parts.append(f"{library} {measured['failed']}")
            continue
        text = f"{library} {measured['cpu ms']:.2f} ms, {measured['peak MB']:.0f} MB"
        if ours and library != "lmtune":
            text += f" ({measured['cpu ms'] / ours:.1f}x)"
        parts.append(text)
    return "; ".join(parts)


if __name__ == "__main__":
    main()
