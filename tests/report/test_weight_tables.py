"""How far models with weights overfit, whom they harm, and what a ridge chose, in tables and files."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import Fold
from lmtune.measures.measure import parse_measure
from lmtune.models.model import find_model
from lmtune.report.page import page
from lmtune.report.tuning_results import write_results
from lmtune.report.tuning_tables import tuning_table, weight_tables
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import APPROX, DEFAULT, DIRECT, OPTIMAL, RANKNET, CollectionResult
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.experiment.stored import read_results

AP = parse_measure("AP")


@pytest.fixture(scope="module")
def tuned() -> tuple[CandidatePool, CollectionResult]:
    index, queries, qrels = random_collection(3, documents=120, topics=16, vocabulary=40)
    names = list(queries)
    folds = [Fold(tuple(names[8:]), tuple(names[:8])), Fold(tuple(names[:8]), tuple(names[8:]))]
    model = "bm25+weights:idf,place"
    pool = CandidatePool.build(index, queries, qrels, model=model)
    baseline = find_model(model).default
    plan = Plan((AP,), model=model, starts=1, restarts=1, grid=(16,), baseline=baseline)
    return pool, run_experiment(pool, folds, plan)


@pytest.mark.slow
def test_means_in_and_out_of_sample_stand_side_by_side(tuned: tuple[CandidatePool, CollectionResult]) -> None:
    _, result = tuned
    [table] = weight_tables([result])
    rows = {row.method: row for row in result.rows}
    plain = rows[DEFAULT].values
    lines = [[cell.text for cell in cells] for cells in table.groups[0]]
    assert [line[2] for line in lines] == [DIRECT, RANKNET, APPROX]
    for line in lines:
        row = rows[line[2]]
        assert float(line[3]) == pytest.approx(np.mean([fit.train_value for fit in row.fits]), abs=6e-5)
        assert float(line[4]) == pytest.approx(row.values.mean(), abs=6e-5)
        worse, better = (
            sum(a < b for a, b in pairs)
            for pairs in (zip(row.values, plain, strict=True), zip(plain, row.values, strict=True))
        )
        assert line[5:7] == [f"{worse / 16:.2f}", f"{better / 16:.2f}"]
    assert lines[0][7] == ""
    for line in lines[1:]:
        assert set(line[7].split(", ")) <= {"plain", "0.1", "0.01", "0.001", "0.0001"}
        assert len(line[7].split(", ")) == 2
    assert "in sample" in tuning_table([result])
    plainly = replace(result, model="bm25")
    assert weight_tables([plainly]) == []
    bare = replace(result, rows=tuple(row for row in result.rows if row.method not in (DEFAULT, OPTIMAL)))
    [table] = weight_tables([bare])
    assert {cell.text for row in table.groups[0] for cell in row[5:7]} == {"–"}


def test_each_folds_ridge_is_kept(tmp_path: Path, tuned: tuple[CandidatePool, CollectionResult]) -> None:
    pool, result = tuned
    record = {
        "command": "",
        "versions": {},
        "plan": {"model": result.model, "measures": ["AP"]},
        "collections": [{}],
        "notes": {},
    }
    write_results(tmp_path / "kept", [result], [pool], record)
    for name, rows in (("parameters.csv", [row.fits for row in result.rows]), ("final.csv", None)):
        with (tmp_path / "kept" / name).open() as file:
            steps = [line["ridge"] for line in csv.DictReader(file)]
        fits = [row.final for row in result.rows if row.final] if rows is None else sum(rows, ())
        assert steps == [fit.step for fit in fits]
        assert any(steps)
    stored = read_results(tmp_path / "kept")
    [again] = stored.results
    assert "Overfitting and robustness" in page(stored)
    assert [row.fits for row in again.rows] == [row.fits for row in result.rows]
    assert [row.final for row in again.rows] == [row.final for row in result.rows]
