"""Ranking data: what it holds, what it refuses, and parts of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.rerank.data import RankingData, RankingSplit, hard_negatives


def test_select() -> None:
    rows = np.arange(10)
    data = RankingData.from_lengths(
        np.stack([rows + 1, rows, rows], axis=1),
        rows % 3,
        [2, 3, 1, 4],
        queries=[f"q{q}" for q in range(4)],
        docnos=[f"d{row}" for row in rows],
    )
    some = data.select(["q3", "q0"])
    assert some.queries == ("q3", "q0")
    assert some.starts.tolist() == [0, 4, 6]
    assert some.features[:, 0].tolist() == [7, 8, 9, 10, 1, 2]
    assert some.docnos == ("d6", "d7", "d8", "d9", "d0", "d1")
    side_by_side = data.select(["q1", "q2"])
    assert np.shares_memory(side_by_side.features, data.features)
    assert side_by_side.features[:, 0].tolist() == [3, 4, 5, 6]
    assert side_by_side.docnos == ("d2", "d3", "d4", "d5")
    nothing = data.select([])
    assert nothing.features.shape == (0, 3)
    with pytest.raises(InputError, match="no such query: 'q9'"):
        data.select(["q9"])
    with pytest.raises(InputError, match="comes twice: 'q1'"):
        data.select(["q1", "q1"])


def test_what_is_no_ranking_data() -> None:
    with pytest.raises(InputError, match="shapes do not fit"):
        RankingData.from_lengths(np.zeros((3, 2)), [0, 1], [2])
    with pytest.raises(InputError, match="shapes do not fit"):
        RankingData.from_lengths(np.zeros((3, 2)), [0, 1, 0], [2])
    with pytest.raises(InputError, match="no documents: '1'"):
        RankingData.from_lengths(np.zeros((2, 2)), [0, 1], [2, 0])
    for label in (-1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="label is out of range"):
            RankingData.from_lengths(np.zeros((2, 2)), [0, label], [2])
    with pytest.raises(InputError, match="shapes do not fit"):
        RankingData.from_lengths(np.zeros(2), [0, 1], [2])
    with pytest.raises(InputError, match="shapes do not fit"):
        RankingData.from_lengths(np.zeros((2, 1)), [0, 1], [2], docnos=["d1"])
    with pytest.raises(InputError, match="shapes do not fit"):
        RankingData.from_lengths(np.zeros((2, 1)), [0, 1], [2], queries=["q1", "q2"])


def test_widened() -> None:
    data = RankingData.from_lengths([[1.0, 2.0]], [1], [1])
    assert data.widened(2) is data
    wider = data.widened(4)
    assert isinstance(wider, RankingData)
    assert wider.features.tolist() == [[1, 2, 0, 0]] and wider.features.dtype == np.float32


def test_every_part_of_a_split_is_changed() -> None:
    data = RankingData.from_lengths([[1.0]], [1], [1])
    split = RankingSplit("s", data, data, data).map(lambda part: part.widened(2))
    assert split.name == "s"
    assert [part.features.shape for part in (split.train, split.validation, split.test)] == [(1, 2)] * 3


def test_hard_negatives_are_from_some_places_of_a_list() -> None:
    labels = [0, 1, 0, 0, 2, 0, 0, 0, 0]
    data = replace(
        RankingData.from_lengths(np.arange(9.0)[:, None], labels, [5, 4], docnos=[f"d{n}" for n in range(9)]),
        teacher=np.arange(9, dtype=np.float32),
    )
    kept = hard_negatives(data, "3-3")
    # The second list has nothing relevant: its third document alone.
    assert kept.docnos == ("d1", "d2", "d4", "d7")
    assert kept.labels.tolist() == [1, 0, 2, 0]
    assert kept.starts.tolist() == [0, 3, 4]
    assert kept.features[:, 0].tolist() == [1, 2, 4, 7]
    assert kept.teacher is not None
    assert kept.teacher.tolist() == [1, 2, 4, 7]
    assert hard_negatives(data, "90-99").docnos == ("d1", "d4", "d5")
    assert hard_negatives(data, None) is data
    back = data.select(["1", "0"])
    assert back.teacher is not None
    assert back.teacher.tolist() == [5, 6, 7, 8, 0, 1, 2, 3, 4]
