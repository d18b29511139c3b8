"""YetiRank: it learns, the same with any number of threads, and its file is CatBoost's own."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_trees import made

from lmtune.errors import InputError, MissingExtraError
from lmtune.measures.lists import mean_over_lists, ndcg
from lmtune.rerank.data import RankingData
from lmtune.rerank.learners.yeti import YetiRank, fit
from lmtune.rerank.rankers import YetiSettings

QUICK = YetiSettings(rounds=30, depth=4, learning_rate=0.2)


@pytest.fixture(scope="module")
def catboost() -> Any:
    return pytest.importorskip("catboost", reason="the extra 'catboost' is not installed")


@pytest.mark.usefixtures("catboost")
@pytest.mark.parametrize("mode", ["ndcg", "classic"])
def test_it_learns_the_same_with_any_number_of_threads(mode: str) -> None:
    train, validation, test = made(0), made(1), made(2)
    seen: list[tuple[int, int]] = []
    settings = YetiSettings(rounds=30, depth=4, learning_rate=0.2, mode=mode)
    model = fit(train, validation, settings, progress=lambda n, of, _: seen.append((n, of)))
    before = mean_over_lists(ndcg(np.zeros(len(test.labels)), test, [10]))[0]
    assert mean_over_lists(ndcg(model.score(test), test, [10]))[0] > before + 0.2
    assert seen == [(n, 30) for n in range(1, 31)]
    assert model.model.tree_count_ == np.argmax(model.history) + 1
    again = mean_over_lists(ndcg(model.score(validation), validation, [10]))[0]
    assert again == pytest.approx(model.validation, abs=1e-12)
    two = fit(train, validation, replace(settings, threads=2))
    other = fit(train, validation, replace(settings, seed=1))
    assert (model.score(test) == two.score(test)).all()
    assert (model.score(test) != other.score(test)).any()


def test_it_is_saved_as_catboost_saves(tmp_path: Path, catboost: Any) -> None:
    data = made(0)
    model = fit(data, made(1), YetiSettings(rounds=5))
    assert model.settings.learning_rate is not None
    record = {**model.save(tmp_path), "best_round": 0}
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    again = YetiRank.load(tmp_path, files, record)
    assert (again.score(data) == model.score(data)).all()
    assert (again.history, again.settings) == (model.history, model.settings)
    theirs = catboost.CatBoost().load_model(str(tmp_path / "trees.cbm")).predict(data.features)
    assert (model.score(data) == theirs).all()
    assert model.score(data.select([])).shape == (0,)
    with pytest.raises(InputError, match="not a CatBoost model"):
        YetiRank.load(tmp_path, files | {"trees.cbm": model.content[:500]}, record)


@pytest.mark.usefixtures("catboost")
def test_data_that_do_not_fit() -> None:
    data = made(0, 10)
    narrow = RankingData(data.features[:, :3], data.labels, data.starts, data.queries)
    with pytest.raises(InputError, match="different features"):
        fit(data, narrow, QUICK)
    nothing = RankingData(data.features, data.labels * 0, data.starts, data.queries)
    with pytest.raises(InputError, match="no validation query has a relevant document"):
        fit(data, nothing, QUICK)
    with pytest.raises(InputError, match="wrong number of features: 3; accepted: 6"):
        fit(made(1), data, QUICK).score(narrow)
    with pytest.raises(InputError, match="unknown mode"):
        YetiSettings(mode="NDCG")


def test_without_catboost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "catboost", None)
    with pytest.raises(MissingExtraError, match="YetiRank needs the 'catboost' extra"):
        fit(made(0), made(1))
