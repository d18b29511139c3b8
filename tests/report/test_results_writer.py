"""What a results folder keeps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import cross_validation
from lmtune.io.folders import recorded_files
from lmtune.io.runs import read_run
from lmtune.measures.evaluate import measure
from lmtune.measures.measure import parse_measures
from lmtune.models.model import TABLE_COLUMNS
from lmtune.report.tuning_results import write_results
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.experiment.stored import KIND

COLLECTION = random_collection(3, documents=80, topics=12)
NAMES = [f"iprec_at_recall_{level / 10:.2f}" for level in range(11)]
PLAN = Plan(tuple(parse_measures(["AP", "P(rel=2)@5"])), grid=(3, 4), certify=0.05)


def keep(folder: Path) -> CandidatePool:
    pool = CandidatePool.build(*COLLECTION)
    result = run_experiment(pool, cross_validation(pool.topics, 2, seed=0), PLAN)
    write_results(folder, [result], [pool], {"plan": PLAN.as_record()})
    return pool


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CandidatePool]:
    folder = tmp_path_factory.mktemp("kept") / "results"
    return folder, keep(folder)


def test_equal_results_give_equal_bytes(kept: tuple[Path, CandidatePool], tmp_path: Path) -> None:
    folder, _ = kept
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    assert {file.as_posix() for file in files} == {*recorded_files(folder, KIND)}
    keep(tmp_path / "again")
    again = {p.relative_to(tmp_path / "again") for p in tmp_path.rglob("*") if p.is_file()}
    assert files == again
    for file in files:
        assert (folder / file).read_bytes() == (tmp_path / "again" / file).read_bytes()


def test_surfaces_hold_the_means_of_the_grid(kept: tuple[Path, CandidatePool]) -> None:
    folder, pool = kept
    folds = json.loads((folder / "folds.json").read_text())[pool.name]
    for name in ("AP", "P(rel=2)@5"):
        for number, fold in enumerate(folds, 1):
            file = f"{name}-fold{number}.csv"
            table = pd.read_csv(folder / "surfaces" / "tiny" / file)
            assert list(table) == ["lambda", "mu", "train", "test"]
            lambdas, mus = PLAN.space.grid(PLAN.grid).T
            np.testing.assert_allclose(table[["lambda", "mu"]].T, [lambdas, mus], rtol=1e-15)
            for place in (0, 5, 11):
                for column in ("train", "test"):
                    values = measure(
                        pool,
                        {"lambda": lambdas[place], "mu": mus[place]},
                        measures=[name],
                        topics=fold[column],
                    )
                    expected = pytest.approx(values[name].mean(), rel=1e-14)
                    assert table[column].iloc[place] == expected


def test_recall_precision_is_that_of_the_kept_runs(kept: tuple[Path, CandidatePool]) -> None:
    folder, _ = kept
    table = pd.read_csv(folder / "recall.csv")
    np.testing.assert_allclose(table["recall"], 10 * [level / 10 for level in range(11)])
    for file, measured, method, rel in (
        ("ranknet.run.gz", "AP", "RankNet", 1),
        ("direct-AP.run.gz", "AP", "Direct", 1),
        ("optimal-P(rel=2)@5.run.gz", "P(rel=2)@5", "Optimal", 2),
    ):
        run = read_run(folder / "runs" / "tiny" / file)
        own = table[(table["measure"] == measured) & (table["method"] == method)]
        evaluator = pytrec_eval.RelevanceEvaluator(COLLECTION[2], {"iprec_at_recall"}, relevance_level=rel)
        expected = pd.DataFrame(evaluator.evaluate(run)).mean(axis=1)[NAMES]
        np.testing.assert_allclose(own["precision"], expected, rtol=1e-12)


def test_tables_with_commas_in_names_can_be_read(tmp_path: Path) -> None:
    pool = CandidatePool.build(*COLLECTION, name="one, two")
    plan = Plan(tuple(parse_measures(["nDCG(dcg='exp-log2')@5"])), grid=(2, 2))
    result = run_experiment(pool, cross_validation(pool.topics, 2, seed=0), plan)
    write_results(tmp_path / "r", [result], [pool], {})
    for name in ("recall.csv", "topics.csv", "parameters.csv"):
        table = pd.read_csv(tmp_path / "r" / name)
        assert {*table["collection"]} == {"one, two"}
        assert {*table["measure"]} == {"nDCG(dcg='exp-log2')@5"}


def test_no_parameter_can_be_named_as_a_column_beside_parameters(kept: tuple[Path, CandidatePool]) -> None:
    folder, _ = kept
    tables = [folder / "parameters.csv", folder / "final.csv", *folder.rglob("surfaces/*/*.csv")]
    for table in [*tables, *folder.rglob("traces/*/direct-*.csv"), *folder.rglob("traces/*/ranknet-*.csv")]:
        columns = table.read_text().partition("\n")[0].split(",")
        measures = {name for name in columns if name.startswith(("AP", "P(", "validation"))}
        assert {*columns} - measures - {"lambda", "mu"} <= {*TABLE_COLUMNS}, table
