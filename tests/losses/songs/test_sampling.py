"""Relevant pairs, samples of lists, and scores at previous weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError  # noqa: E402
from lmtune.losses.songs import ListSampler, RelevantPairs  # noqa: E402


class TestPairs:
    def test_rows_in_any_order(self) -> None:
        pairs = RelevantPairs.from_rows([7, 3, 7, 7, 9], [1, 5, 8, 0, 5], [2, 1, 0, 3, 0])
        assert pairs.queries.tolist() == [3, 7, 9]
        assert pairs.lengths.tolist() == [1, 3, 1]
        assert pairs.starts.tolist() == [0, 1, 3, 3]
        assert pairs.items.tolist() == [5, 0, 1]
        assert pairs.labels.tolist() == [1, 3, 2]
        ideal = [1, 7 + 3 / np.log2(3), 0]
        assert pairs.ideal_dcg().tolist() == pytest.approx(ideal)
        assert pairs.ideal_dcg(1).tolist() == [1, 7, 0]
        assert pairs.label_sums().tolist() == [1, 5, 0]

    @pytest.mark.parametrize(
        ("rows", "words"),
        [
            (([0, 0], [1, 1], [0, 1]), "occurs twice"),
            (([0, -1], [1, 1], [0, 1]), "negative query ids"),
            (([0, 1], [1, -1], [0, 1]), "negative item ids"),
            (([0, 1], [1, 1], [0, float("nan")]), "not finite"),
            (([0, 1], [1], [0, 1]), "differ in"),
            (([0.5, 1], [1, 2], [0, 1]), "not integers"),
            (([], [], []), "no query ids"),
        ],
    )
    def test_wrong_rows(self, rows: Any, words: str) -> None:
        with pytest.raises(InputError, match=words):
            RelevantPairs.from_rows(*(np.array(r, dtype=None if r else int) for r in rows))

    def test_lists_shorter_than_their_rows(self) -> None:
        with pytest.raises(InputError, match=r"below the number of the query's rows: 1; accepted: 2 or more"):
            RelevantPairs.from_rows([0, 0], [1, 2], [0, 1], lengths=1)

    def test_starts_that_do_not_fit(self) -> None:
        with pytest.raises(InputError, match="starts do not split"):
            RelevantPairs.from_lists([0, 3], [1, 0])


class TestListSampler:
    def sampler(self, **options: Any) -> ListSampler:
        pairs = RelevantPairs.from_rows(
            [0] * 5 + [1, 2] + [3] * 12,
            [0, 3, 4, 9, 11, 5, 6, *range(12)],
            [1] * 6 + [0] + [2] * 12,
            lengths=12,
        )
        return ListSampler(pairs, 12, **{"relevant": 3, "others": 4, "seed": 1, **options})

    @pytest.mark.slow
    def test_draws_are_uniform_and_right(self) -> None:
        sampler = self.sampler()
        counts = np.zeros(12)
        for step in range(3000):
            sample = sampler.draw(np.array([0, 1, 2, 3]), epoch=0, step=step)
            items = sample.items
            assert len(set(items[0, :3])) == 3
            assert set(items[0, :3]) <= {0, 3, 4, 9, 11}
            assert not set(items[0, 3:]) & {0, 3, 4, 9, 11}
            assert items[1, :3].tolist() == [5, -1, -1]
            assert 5 not in items[1, 3:]
            assert (items[2, :3] == -1).all()
            assert (items[3, 3:] == -1).all()
            assert sample.labels[3, :3].tolist() == [2, 2, 2]
            assert (sample.labels[:, 3:] == 0).all()
            np.add.at(counts, items[0], 1)
        relevant = [0, 3, 4, 9, 11]
        assert counts[relevant] == pytest.approx(np.full(5, 3000 * 3 / 5), rel=0.1)
        rest = [i for i in range(12) if i not in relevant]
        assert counts[rest] == pytest.approx(np.full(7, 3000 * 4 / 7), rel=0.1)

    def test_takes_all_where_there_are_few(self) -> None:
        sample = self.sampler(relevant=6, others=8).draw(np.array([0]), epoch=0, step=0)
        assert sorted(sample.items[0]) == [-1, -1, *range(12)]

    def test_is_seeded(self) -> None:
        first = self.sampler().draw(np.array([0, 3]), epoch=2, step=5)
        again = self.sampler().draw(np.array([0, 3]), epoch=2, step=5)
        assert (first.items == again.items).all()
        other = self.sampler().draw(np.array([0, 3]), epoch=2, step=6)
        assert (first.items != other.items).any()

    def test_whole_lists(self) -> None:
        sample = self.sampler().all_items(np.array([1, 0]))
        assert sample.items.tolist() == [list(range(12))] * 2
        assert np.flatnonzero(sample.labels[1]).tolist() == [0, 3, 4, 9, 11]

    def test_items_outside_the_catalogue(self) -> None:
        pairs = RelevantPairs.from_rows([0], [12], [1], lengths=12)
        with pytest.raises(InputError, match="outside the catalogue: 12"):
            ListSampler(pairs, 12, seed=0)
