"""The table of losses in its formats."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError
from lmtune.measures.significance.effects import confidence_interval
from lmtune.reporting.loss_tables import loss_table
from lmtune.reporting.table import STYLES
from lmtune.reranking.comparison import Outcome
from lmtune.reranking.reranker import CUTOFFS


def outcome(label: str, start: float, rate: float = 0.003) -> Outcome:
    skip = start + 0.01 * np.arange(3)[:, None] + 0.1 * np.arange(len(CUTOFFS))
    return Outcome(label, rate, {"skip": skip, "zero": 0.5 * skip})


OUTCOMES = [outcome("ranknet", 0.4), outcome("k-song:gamma=0.5", 0.45, float("nan"))]


def test_plain() -> None:
    lines = loss_table(OUTCOMES).splitlines()
    half = f"{confidence_interval([0.4, 0.41, 0.42]).half:.4f}".removeprefix("0")
    assert lines[0].split() == [
        *("Empty", "queries", "Loss"),
        *(f"nDCG(dcg='exp-log2')@{k}" for k in (1, 3, 5, 10)),
        "rate",
    ]
    assert lines[1].startswith(f"left out       ranknet           .4100 ± {half} ")
    assert lines[1].endswith("0.003") and "†" not in lines[1] and lines[2].count("†") == 4
    assert [line.split()[:2] for line in lines[1:]] == [["left", "out"]] * 2 + [["count", "0"]] * 2
    assert len(loss_table(OUTCOMES, empty=["zero"]).splitlines()) == 3


def test_the_same_numbers_in_all_formats() -> None:
    records = json.loads(loss_table(OUTCOMES, "json"))
    assert len(records) == 2 * 2 * 4
    assert records[0]["mean"] == pytest.approx(0.41) and records[0]["learning_rate"] == 0.003
    assert records[4]["learning_rate"] is None
    rows = list(csv.DictReader(io.StringIO(loss_table(OUTCOMES, "csv"))))
    assert [float(row["value"]) for row in rows[:3]] == records[0]["trials"]
    assert len(rows) == 3 * len(records)
    assert loss_table(OUTCOMES, "markdown").splitlines()[1].count("---:") == 5
    assert r".4100 ±" in loss_table(OUTCOMES, "latex") and set(STYLES) == {
        "table",
        "markdown",
        "latex",
        "csv",
        "json",
    }
    with pytest.raises(InputError, match="markdown"):
        loss_table(OUTCOMES, "html")


def test_one_trial_has_no_interval() -> None:
    one = Outcome("x", 0.1, {"skip": np.full((1, 4), 0.5)})
    assert "±" not in loss_table([one], empty=["skip"])
    assert json.loads(loss_table([one], "json", empty=["skip"]))[0]["half_width"] is None
