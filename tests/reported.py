"""Made-up results, and the folder that keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import Fold
from lmtune.measures.measure import parse_measure
from lmtune.report.figures.style import PAGE, Picture, new_figure
from lmtune.report.tuning_results import write_results
from lmtune.tuning.experiment.result import (
    DIRECT,
    EDGE,
    OPTIMAL,
    RANKNET,
    SAMPLED_NEGATIVES,
    CollectionResult,
    Fit,
    Row,
)


def made_picture(title: str, alt: str, group: str, part: str = "", width: float = PAGE) -> Picture:
    """Make a picture of a point."""
    figure, [[ax]] = new_figure(width, 1.0)
    ax.plot([1.0], [2.0], "o")
    figure.set_label(alt)
    return Picture("made", title, figure, group, part)


def made_results(
    names: Sequence[str] = ("plain",),
    topics: Sequence[str] = ("1", "2", "10", "11", "20", "3"),
    measures: Sequence[str] = ("AP", "P@10"),
    bound: float | None = None,
    seed: int = 0,
) -> list[CollectionResult]:
    """Make results of two folds, drawn at random; RankNet equals Direct on the first topic."""
    rng = np.random.default_rng(seed)
    half = len(topics) // 2
    folds = (
        Fold(tuple(topics[half:]), tuple(topics[:half])),
        Fold(tuple(topics[:half]), tuple(topics[half:])),
    )
    return [_made_result(name, folds, measures, bound, rng) for name in names]


def _made_result(
    name: str, folds: tuple[Fold, ...], measures: Sequence[str], bound: float | None, rng: np.random.Generator
) -> CollectionResult:
    topics = tuple(topic for fold in folds for topic in fold.test)
    rows: list[Row] = []
    traces = {
        f"ranknet-fold{number}": {
            "start": np.array([0, 0]),
            "step": np.array([0, 1]),
            "cost": rng.random(2),
            "lambda": rng.random(2),
        }
        for number in (1, 2)
    }
    for measure in measures:
        direct = rng.random(len(topics)) * 0.5
        values = {
            DIRECT: direct,
            RANKNET: direct + rng.normal(0, 0.05, len(topics)).clip(-direct, 0.4),
            OPTIMAL: direct + 0.1 + 0.01 * rng.random(len(topics)),
        }
        values[RANKNET][0] = direct[0]
        for method, own in values.items():
            fits = tuple(
                Fit(
                    {"lambda": float(rng.random()), "mu": float(1000 * rng.random())},
                    0.3,
                    float(rng.random()),
                    522,
                    ("lambda = 0.95", "mu = 1") if method == RANKNET else (),
                    bound if method == OPTIMAL else None,
                )
                for _ in folds
            )
            final = replace(fits[0], test_value=float(own.mean())) if method != OPTIMAL else None
            cautions = (SAMPLED_NEGATIVES, EDGE) if method == RANKNET else ()
            rows.append(Row(parse_measure(measure), method, topics, own, fits, final, cautions))
        traces[f"direct-{measure}-fold1"] = {"start": np.array([0]), measure: rng.random(1)}
    notes = ("made up", "R&D <notes> stay text")
    return CollectionResult(name, folds, tuple(rows), traces, notes)


def write_made(folder: Path, results: list[CollectionResult], **parts: Any) -> Path:
    """Write a results folder without runs; other parts go to `write_results`."""
    record: dict[str, Any] = {
        "command": f"lmtune tune {results[0].name}",
        "versions": {"python": "3.11.7", "lmtune": "0.1.0"},
        "plan": {"measures": ["AP"], "grid": [20, 26], "certify": None, "space": {"mu_low": 1.0}},
        "collections": [
            {"name": result.name, "documents": 1400, "topics_digest": "a7285d"} for result in results
        ],
        "notes": {result.name: result.notes for result in results},
    }
    if results[0].model != "two-stage":
        record["plan"]["model"] = results[0].model
    # No pools: nothing is ranked for them.
    pools = cast(list[CandidatePool], parts.pop("pools", [None] * len(results)))
    with (
        patch("lmtune.report.tuning_results._write_runs"),
        patch("lmtune.report.tuning_results._recall", return_value=()),
    ):
        write_results(folder, results, pools, record, **parts)
    return folder
