"""Read the labels of a folder, and sample judgments."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lmtune.io.qrels import read_qrels

Qrels = dict[str, dict[str, int]]


def read_labels(folder: Path) -> tuple[Qrels, dict[str, Qrels], dict[str, dict[str, dict[str, float]]]]:
    """Return NIST's judgments, each judge's labels, and the runs that rank by the labels."""
    nist = read_qrels(folder / "qrels.nist.txt")
    labels = {path.stem: read_qrels(path) for path in sorted((folder / "labels").glob("*.txt"))}
    runs = {
        name: {topic: {docno: float(gain) for docno, gain in own.items()} for topic, own in one.items()}
        for name, one in labels.items()
    }
    return nist, labels, runs


def thinned(whole: Qrels, part: float) -> Qrels:
    """Sample a part of the judgments, at least one for each topic; larger parts contain smaller ones."""
    rng = np.random.default_rng(0)
    order = {topic: {docno: rng.random() for docno in own} for topic, own in whole.items()}
    return {
        topic: {d: g for d, g in own.items() if order[topic][d] <= max(part, min(order[topic].values()))}
        for topic, own in whole.items()
    }
