"""Surrogates against direct search on a small collection: splits, differences, tests, work."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.common import call
from experiments.datasets import load_pool
from experiments.methods import continuation, disjoint_sets
from experiments.surrogates.__main__ import QUICK, experiment, over_collections
from lmtune.measures.evaluate import measure
from lmtune.tuning.pairs import Lists
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import ALPHAS

pytestmark = pytest.mark.slow

NAME = "synthetic:1000x40"
SMALL = {**QUICK, "datasets": (NAME,), "topics": 24, "measures": ("AP", "P@5"), "fits": 6, "made_up": NAME}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder that the index is built in."""
    return tmp_path_factory.mktemp("laboratory")


@pytest.fixture(scope="module")
def found(place: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        return call(experiment, SMALL)


def test_training_sets_are_disjoint_while_they_last() -> None:
    topics = [f"t{i}" for i in range(25)]
    sets = list(disjoint_sets(topics, 8, 7, seed=3))
    assert [len(own) for own in sets] == [8] * 7
    for group in (sets[:3], sets[3:6]):
        assert len(set().union(*group)) == 24
    assert len(set(sets)) == 7
    assert all(list(own) == sorted(own, key=topics.index) for own in sets)
    assert list(disjoint_sets(topics, 8, 7, seed=4)) != sets


def test_steepness_comes_from_the_first_one() -> None:
    assert continuation(32.0) == ALPHAS
    assert continuation(10.0) == (ALPHAS[0], 10.0)
    assert continuation(2.0) == (2.0,)


def test_means_are_those_of_the_topics_outside(found: Any) -> None:
    pool = load_pool(NAME, topics=24, seed=0)
    fits = found["fits"]
    for size, train in ((10, 10), (0, 12)):
        for number, own in enumerate(disjoint_sets(pool.topics, train, 6, seed=0)):
            rows = fits[(fits["size"] == size) & (fits["set"] == number)]
            outside = [topic for topic in pool.topics if topic not in own]
            for row in rows.to_dict("records"):
                for name, topics in (("train", own), ("test", outside)):
                    if row["method"] == "Optimal" and name == "train":
                        continue
                    values = measure(
                        pool,
                        {"lambda": row["lambda"], "mu": row["mu"]},
                        measures=[row["measure"]],
                        topics=topics,
                    )
                    assert row[name] == pytest.approx(values.to_numpy().mean(), rel=1e-12)
            tests = rows.pivot(index="measure", columns="method", values="test")
            assert (tests.max(axis=1) == tests["Optimal"]).all()


def test_differences_and_their_errors_are_by_hand(found: Any) -> None:
    fits, table = found["fits"], found["equivalence"]
    [row] = table.query("size == 10 and measure == 'AP' and method == 'approx-AP, alpha 8'").to_dict(
        "records"
    )
    own = fits.query("size == 10 and measure == 'AP'").pivot(index="set", columns="method", values="test")
    values = (own["approx-AP, alpha 8"] - own["Direct"]).to_numpy()
    assert row["difference"] == pytest.approx(values.mean())
    error = values.std(ddof=1) * math.sqrt(1 / 6 + 14 / 10)
    # Student's t with five degrees of freedom: 2.015 at 95%.
    assert row["high"] - row["low"] == pytest.approx(2 * 2.0150484 * error, rel=1e-6)
    assert row["fits"] == 6
    # Two of 24 topics' sets of ten are independent, and the topics' part comes on top.
    by_sets = values.std(ddof=1) / math.sqrt(2)
    assert row["high_crossed"] - row["low_crossed"] > 2 * 1.64 * by_sets
    for suffix in ("", "_crossed"):
        inside = row[f"low{suffix}"] > -0.002 and row[f"high{suffix}"] < 0.002
        assert (row[f"p_equivalent{suffix}"] < 0.05) is inside


def test_work_counts_the_documents_of_lists_and_candidates(found: Any) -> None:
    pool = load_pool(NAME, topics=24, seed=0)
    lists = Lists.build(pool, ParameterSpace.of(), depth=200)
    fits = found["fits"].query("size == 10 and set == 0 and measure == 'AP'").set_index("method")
    train = pool.positions(next(disjoint_sets(pool.topics, 10, 1, seed=0)))
    for method, columns in (("Direct", pool.candidates), ("RankNet over lists", lists.columns)):
        documents = np.diff(columns.start)[train].sum()
        assert fits.loc[method, "documents"] == documents * fits.loc[method, "evaluations"]
    assert fits.loc["Direct", "evaluations"] > 6 * 8
    assert set(found["work"]["method"]) == {*fits.index, "approx-P@5, alpha 8"} - {"Optimal"}


def test_collections_are_compared_as_drawn() -> None:
    differences = np.array([0.001, -0.0005, 0.0015, 0.0002])
    rows = [
        {"measure": "AP", "method": method, "size": size, "difference": difference}
        for size, difference in [(10, own) for own in differences] + [(0, 0.1)]
        for method in ("Direct", "smooth", "Optimal")
    ]
    [row] = over_collections(pd.DataFrame(rows), 0.0012)
    assert (row["size"], row["collections"], row["within"]) == (10, 4, 3)
    low, high = stats.t.interval(0.9, 3, loc=differences.mean(), scale=stats.sem(differences))
    assert (row["low"], row["high"]) == pytest.approx((low, high))
    sides = (
        stats.ttest_1samp(differences, -0.0012, alternative="greater").pvalue,
        stats.ttest_1samp(differences, 0.0012, alternative="less").pvalue,
    )
    assert (row["p_not_worse"], row["p_equivalent"]) == pytest.approx((sides[0], max(sides)))
