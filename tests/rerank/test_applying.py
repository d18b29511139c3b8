"""What shuffling a feature's values costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from made_lists import made_lists

pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError
from lmtune.measures.lists import Measurer
from lmtune.rerank.applying import permutation_importance
from lmtune.rerank.data import RankingData
from lmtune.rerank.learners.learner import Scorer
from lmtune.rerank.learners.trees import fit
from lmtune.rerank.rankers import TreeSettings
from lmtune.rerank.reranker import Reranker
from lmtune.rerank.settings import Settings


@dataclass
class Sum:
    """Scores by some features' sum."""

    columns: list[int]
    settings = Settings()

    def score(self, data: RankingData, *, progress: Any, device: str) -> Any:
        del progress
        assert device == "cpu"
        return data.features[:, self.columns].sum(1, dtype=np.float64)


def summing(*columns: int) -> Reranker:
    return Reranker(cast(Scorer, Sum([*columns])), tuple("abcdef"))


def test_a_shuffled_feature_ranks_as_chance_does() -> None:
    data = made_lists(3, queries=12, empty=0.2)
    found = permutation_importance(summing(1), data, measure="ap", repeats=100)
    measurer = Measurer("ap", data)
    counted = measurer.counted
    whole = measurer.values(data.features[:, 1].astype(float))[counted]
    # Ties count as the mean over all their orders: what shuffling comes to.
    chance = measurer.values(np.zeros(data.labels.size))[counted]
    assert found.topics == tuple(np.array(data.queries)[counted])
    by_name = {own.system: own for own in found.contrasts}
    assert by_name["b"].difference == pytest.approx((chance - whole).mean(), abs=0.02)
    assert [by_name[name].difference for name in "acdef"] == pytest.approx([0.0] * 5, abs=1e-12)
    assert found.measures == ("AP",)


def test_what_all_documents_of_a_query_share_cannot_rank_them() -> None:
    data = made_lists(3, queries=12)
    data.features[:, 0] = np.arange(12)[data.query_of_row]
    data.features[:, 1] = data.labels
    found = permutation_importance(summing(0, 1), data, repeats=3)
    assert found.contrasts[0].difference == pytest.approx(0.0, abs=1e-12)
    assert found.contrasts[1].difference < 0.0
    with pytest.raises(InputError, match="shuffles: 0"):
        permutation_importance(summing(0), data, repeats=0)
    with pytest.raises(InputError, match="too few queries"):
        permutation_importance(summing(0), data.take([0]))


def test_trees_know_their_gain() -> None:
    data = made_lists(0)
    settings = TreeSettings(rounds=3, threads=1, min_rows=2, min_hessian=0.0)
    trees = fit(data, data, settings)
    told = [line for line in trees.text.splitlines() if line.startswith(("split_feature=", "split_gain="))]
    gains = np.zeros(6)
    for features, values in zip(told[::2], told[1::2], strict=True):
        pairs = [(line.partition("=")[2].split()) for line in (features, values)]
        np.add.at(gains, np.array(pairs[0], int), np.array(pairs[1], float))
    assert trees.gains == pytest.approx(gains, rel=1e-4)
