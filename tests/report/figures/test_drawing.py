"""All pictures of a results folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import cross_validation
from lmtune.measures.measure import parse_measure, parse_measures
from lmtune.report.figures import Picture, draw
from lmtune.report.figures.style import TWO_STAGE, setting, short, tokens
from lmtune.report.tuning_results import write_results
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import CollectionResult
from lmtune.tuning.experiment.run import run_experiment

PLAN = Plan(
    tuple(parse_measures(["AP", "P(rel=2)@5"])),
    grid=(3, 4),
    certify=0.05,
    validation=0.3,
    also=("spsa", "fdsa"),
    evaluations=20,
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CollectionResult]:
    folder = tmp_path_factory.mktemp("kept") / "results"
    pool = CandidatePool.build(*random_collection(3, documents=80, topics=12), name="a, b/c")
    result = run_experiment(pool, cross_validation(pool.topics, 2, seed=0), PLAN)
    write_results(folder, [result], [pool], {})
    return folder, result


@pytest.fixture(scope="module")
def pictures(kept: tuple[Path, CollectionResult]) -> list[Picture]:
    folder, result = kept
    return list(draw(folder, [result]))


@pytest.mark.slow
def test_a_folder_gives_all_pictures(kept: tuple[Path, CollectionResult], pictures: list[Picture]) -> None:
    _, result = kept
    assert [picture.name for picture in pictures] == [
        "a_b_c-answer",
        "a_b_c-parameters",
        *(
            f"a_b_c-{measure}-{kind}"
            for kinds in (
                ("topics", "recall"),
                ("fold1-surface", "fold1-convergence", "fold2-surface", "fold2-convergence"),
            )
            for measure in ("AP", "P(rel=2)@5")
            for kind in kinds
        ),
    ]
    assert all(picture.alt and picture.title.startswith("a, b/c") for picture in pictures)
    surface = next(picture for picture in pictures if picture.name.endswith("AP-fold2-surface"))
    rows = {row.method: row for row in result.rows if str(row.measure) == "AP"}
    for method in ("Direct", "RankNet", "Approx", "RankNet-val", "SPSA", "FDSA", "Optimal"):
        fit = rows[method].fits[1]
        assert (
            f"{method} chose λ = {fit.params['lambda']:.3f}, μ = {tokens(fit.params['mu'])}." in surface.alt
        )
    assert "A better setting is possible in" in surface.alt
    for measure in ("AP", "P(rel=2)@5"):
        name = f"a_b_c-{measure}-fold1-convergence"
        [convergence] = [picture for picture in pictures if picture.name == name]
        table = result.traces[f"spsa-{measure}-fold1"]
        first, best = (f"{x:.4f}" for x in (table[measure][0], table[measure].max()))
        assert f"SPSA: from {first} to {best} after 20 evaluations" in convergence.alt
        assert "FDSA: from" in convergence.alt
        approx = result.traces[f"approx-{measure}-fold1"]
        chosen = next(row for row in result.rows if (str(row.measure), row.method) == (measure, "Approx"))
        end = f"{chosen.fits[0].train_value:.4f}"
        assert f"to {end} after {len(approx['cost'])} evaluations" in convergence.alt


@pytest.mark.slow
def test_missing_tables_leave_pictures_out(kept: tuple[Path, CollectionResult], tmp_path: Path) -> None:
    _, result = kept
    names = [picture.name for picture in draw(tmp_path, [replace(result, traces={})])]
    assert names == ["a_b_c-parameters", "a_b_c-AP-topics", "a_b_c-P(rel=2)@5-topics"]


@pytest.mark.slow
def test_the_answer_is_drawn_on_all_topics_beside_the_default(tmp_path: Path) -> None:
    pool = CandidatePool.build(*random_collection(3, documents=80, topics=12))
    plan = Plan((parse_measure("AP"),), baseline={"lambda": 0.0, "mu": 1000.0}, starts=1, restarts=1)
    result = run_experiment(pool, cross_validation(pool.topics, 5, seed=0), plan)
    write_results(tmp_path / "kept", [result], [pool], {})
    surface, gains = (own for own in draw(tmp_path / "kept", [result]) if own.lead)
    row = result.row(plan.measures[0], result.fixed_method)
    assert row is not None and row.setting is not None
    # Five folds of unequal size: their means, weighted by topics, are the mean over all topics.
    assert result.surface is not None
    means = result.surface.values[:, :, 0].mean(axis=0)
    best = result.surface.settings[means.argmax()]
    assert f"is {short(means.max())} at {setting(TWO_STAGE, best)};" in surface.alt
    assert f"{row.method} chose {setting(TWO_STAGE, row.setting.params.values())}." in surface.alt
    assert "Default is λ = 0.000, μ = 1,000." in surface.alt
    default = next(own for own in result.rows if own.method == "Default")
    assert f"mean difference {row.mean - default.mean:+.4f}" in gains.alt.replace("−", "-")


@pytest.mark.slow
def test_the_surface_is_drawn(kept: tuple[Path, CollectionResult], pictures: list[Picture]) -> None:
    folder, _ = kept
    table = pd.read_csv(folder / "surfaces" / "a_b_c" / "AP-fold1.csv")
    [picture] = [p for p in pictures if p.name.endswith("AP-fold1-surface")]
    train, test, _ = picture.figure.axes
    for ax, column in ((train, "train"), (test, "test")):
        shown = f"{table[column].max():.4f}"
        assert ax.get_title("left").endswith(f"best on the grid {shown}")


@pytest.mark.slow
def test_paths_of_both_descents(kept: tuple[Path, CollectionResult], pictures: list[Picture]) -> None:
    _, result = kept
    [picture] = [p for p in pictures if p.name.endswith("AP-fold1-surface")]
    drawn = [np.asarray(line.get_xydata()).tolist() for line in picture.figure.axes[0].get_lines()]
    for trace in ("ranknet-fold1", "approx-AP-fold1"):
        for _, way in pd.DataFrame(result.traces[trace]).groupby("start"):
            assert way[["lambda", "mu"]].to_numpy().tolist() in drawn


@pytest.mark.slow
def test_a_default_is_drawn_where_it_lies_on_the_surface_and_counts_as_no_choice(tmp_path: Path) -> None:
    pool = CandidatePool.build(*random_collection(3, documents=80, topics=12))
    for mu, shown in ((50.0, True), (5.0, False)):
        plan = Plan(PLAN.measures[:1], grid=(3, 4), ranges={"mu": (10.0, 1000.0)}, baseline={"mu": mu})
        result = run_experiment(pool, cross_validation(pool.topics, 2, seed=0), plan)
        write_results(tmp_path / str(mu), [result], [pool], {})
        drawn = {picture.name: picture.alt for picture in draw(tmp_path / str(mu), [result])}
        assert ("Default is λ = 0.000, μ = 50" in drawn["tiny-AP-fold1-surface"]) == shown
        assert "Default" not in drawn["tiny-parameters"]
