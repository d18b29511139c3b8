"""Direct against RankNet on a small collection: the table's marks, the small sets, the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from same_results import assert_drawn, assert_same_results, run_twice
from scipy.stats import ttest_rel

from lmtune.errors import InputError
from lmtune.laboratory.data import load_pool
from lmtune.laboratory.estimators import Estimators, small_splits
from lmtune.laboratory.running import run
from lmtune.measures.evaluate import measure
from lmtune.tuning.pairs import Pairs

NAME = "synthetic:1000x40"
SETTINGS = Estimators(datasets=(NAME,), measures=("AP", "P@10"), small=8)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder that the index is built in."""
    return tmp_path_factory.mktemp("laboratory")


@pytest.fixture(scope="module")
def found(place: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        return run(SETTINGS, workers=0)


def test_small_splits_share_no_topic() -> None:
    topics = [f"t{i}" for i in range(50)]
    splits = small_splits(topics, 8, seed=3)
    assert len(splits) == 3
    used = [topic for fold in splits for part in (fold.train, fold.test) for topic in part]
    assert len(used) == len(set(used)) == 48
    for fold in splits:
        for part in (fold.train, fold.test):
            assert len(part) == 8
            assert list(part) == sorted(part, key=topics.index)
    assert small_splits(topics, 0) == []
    assert small_splits(topics, 26) == []
    assert small_splits(topics, 8, seed=4) != splits


def test_the_small_sets_tests_are_scipys(found: Any) -> None:
    pool = load_pool(NAME)
    splits = small_splits(pool.topics, 8, seed=0)
    small = found.tables["small"]
    assert len(small) == len(splits) * 2 * 4
    for number, fold in enumerate(splits[:2], 1):
        own = small[(small["measure"] == "AP") & (small["fold"] == number)].set_index("method")
        values = {
            method: measure(
                pool, {"lambda": row["lambda"], "mu": row["mu"]}, measures=["AP"], topics=fold.test
            )["AP"].to_numpy()
            for method, row in own.iterrows()
        }
        for method, row in own.iterrows():
            assert row["test"] == pytest.approx(values[method].mean())
        if (values["RankNet"] != values["Direct"]).any():
            p_value = ttest_rel(values["RankNet"], values["Direct"]).pvalue
            assert own.loc["RankNet", "p_value_direct"] == pytest.approx(p_value)


def test_losses_are_against_optimal(found: Any) -> None:
    fits, losses = found.tables["fits"], found.tables["losses"]
    own = fits[fits["measure"] == "P@10"].pivot(index="fold", columns="method", values="test")
    expected = 1.0 - own["RankNet"] / own["Optimal"]
    row = losses[
        (losses["sets"] == "folds") & (losses["measure"] == "P@10") & (losses["method"] == "RankNet")
    ].iloc[0]
    assert row["mean"] == pytest.approx(expected.mean())
    assert row["worst"] == pytest.approx(expected.max())
    assert row["deviation"] == pytest.approx(expected.std())
    assert (losses["mean"] >= 0.0).all()


def test_work_counts_documents_and_pairs(found: Any) -> None:
    pool = load_pool(NAME)
    work, fits = found.tables["work"], found.tables["fits"]
    # Each topic trains in one of two folds.
    assert work[work["method"] == "RankNet"]["pairs"].sum() == Pairs.build(pool).per_topic.sum()
    direct = work[(work["method"] == "Direct") & (work["measure"] == "AP")]
    assert direct["documents"].sum() == pool.candidates.doc.size
    own = fits[(fits["method"] == "Direct") & (fits["measure"] == "AP")]
    assert direct["evaluations"].tolist() == own["evaluations"].tolist()
    assert len(work) == 2 * (2 + 1)


def test_conclusions_count_the_marks(found: Any) -> None:
    table = found.tables["table1"].set_index(["measure", "method"])
    better = sum(bool(table.loc[(m, "RankNet"), "beats_direct"]) for m in ("AP", "P@10"))
    assert f"cells 2, better {better}," in " ".join(found.conclusions)


def test_pictures_are_drawn(found: Any) -> None:
    assert_drawn(found, ["losses-small", "losses"])


@run_twice
def test_pictures_are_the_same_twice(found: Any, place: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        again = run(SETTINGS, workers=0)
    assert_same_results(found, again)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"datasets": ()}, "datasets"),
        ({"datasets": ("a/cacm", "b/cacm")}, "one name"),
        ({"folds": 1}, "folds"),
        ({"small": 1}, "small"),
        ({"validation": 1.0}, "validation"),
        ({"topics": 1000}, "topics"),
        ({"measures": ("MAPP",)}, "measure"),
    ],
)
def test_bad_settings_are_refused(
    changes: dict[str, Any], problem: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    with pytest.raises(InputError, match=problem):
        Estimators(**{"datasets": (NAME,), **changes}).units()
