"""Batches: nothing lost, nothing doubled, resumable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtune.rerank.data import Batch, RankingData, batches, number_of_batches


def made(lengths: list[int], seed: int = 0, width: int = 3) -> RankingData:
    """Make data whose first feature is the row's number plus 1."""
    random = np.random.default_rng(seed)
    rows = sum(lengths)
    features = random.normal(size=(rows, width))
    features[:, 0] = np.arange(rows) + 1
    names = [f"q{n}" for n in range(len(lengths))]
    docnos = [f"d{n}" for n in range(rows)]
    labels = random.integers(0, 3, rows)
    return RankingData.from_lengths(features, labels, lengths, queries=names, docnos=docnos)


def check_batch(data: RankingData, batch: Batch) -> None:
    assert batch.labels.dtype == np.float32
    assert batch.mask.any(axis=0).all()  # no column of padding alone
    assert (batch.mask == (batch.rows >= 0)).all()
    assert (np.diff(batch.mask.astype(int), axis=1) <= 0).all()  # padding stands last
    assert (batch.labels[batch.mask] == data.labels[batch.rows[batch.mask]]).all()
    assert not batch.labels[~batch.mask].any()
    owners = data.query_of_row[batch.rows[batch.mask]]
    assert (owners == np.repeat(batch.queries, batch.mask.sum(axis=1))).all()


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=30),
    size=st.integers(1, 7),
    shuffle=st.booleans(),
)
def test_an_epoch_has_every_row_once(lengths: list[int], size: int, shuffle: bool) -> None:
    data = made(lengths)
    epoch = list(batches(data, size=size, seed=1, epoch=2, shuffle=shuffle))
    assert len(epoch) == number_of_batches(data, size)
    for batch in epoch:
        check_batch(data, batch)
    rows = np.concatenate([batch.rows[batch.mask] for batch in epoch])
    assert sorted(rows) == list(range(len(data.labels)))
    assert sorted(np.concatenate([batch.queries for batch in epoch])) == list(range(len(lengths)))


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=20),
    list_size=st.integers(1, 6),
    shuffle=st.booleans(),
)
def test_cut_lists_are_samples(lengths: list[int], list_size: int, shuffle: bool) -> None:
    data = made(lengths)
    for batch in batches(data, size=4, seed=5, epoch=0, list_size=list_size, shuffle=shuffle):
        check_batch(data, batch)
        for q, row in zip(batch.queries, batch.rows, strict=True):
            kept = row[row >= 0]
            assert len(kept) == len(set(kept.tolist())) == min(list_size, lengths[q])
            assert (np.diff(kept) > 0).all()
            if shuffle and data.labels[data.rows(q)].any():
                assert data.labels[kept].any()
            if not shuffle:
                assert (kept == data.starts[q] + np.arange(len(kept))).all()


def test_cut_lists_are_uniform_and_keep_a_relevant_document() -> None:
    labels = np.zeros(10)
    data = RankingData.from_lengths(np.zeros((10, 1)), labels, [10])
    seen = np.zeros(10)
    for epoch in range(2000):
        [batch] = batches(data, size=1, seed=0, epoch=epoch, list_size=3)
        seen[batch.rows[0]] += 1
    assert abs(seen / 2000 - 0.3).max() < 0.05  # 5 standard deviations are 0.051
    labels[7] = 1
    data = RankingData.from_lengths(np.zeros((10, 1)), labels, [10])
    for epoch in range(50):
        [batch] = batches(data, size=1, seed=0, epoch=epoch, list_size=3)
        assert 7 in batch.rows[0]


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12), wanted=st.integers(1, 4))
def test_cut_lists_with_a_number_of_relevant_documents(lengths: list[int], wanted: int) -> None:
    data = made(lengths)
    for batch in batches(data, size=4, seed=5, epoch=0, list_size=4, list_relevant=wanted):
        check_batch(data, batch)
        for row, q in enumerate(batch.queries.tolist()):
            labels = data.labels[data.rows(q)]
            seen = batch.labels[row][batch.mask[row]]
            relevant, others = int((labels > 0).sum()), int((labels == 0).sum())
            assert len(seen) == min(4, len(labels))
            if len(labels) > 4:
                assert (seen > 0).sum() == max(min(wanted, relevant), 4 - others)


def test_relevant_and_others_are_drawn_uniformly() -> None:
    data = RankingData.from_lengths(np.zeros((9, 1)), [1, 0, 2, 0, 0, 1, 0, 0, 0], [9])
    counts = np.zeros(9)
    for epoch in range(2_000):
        [batch] = batches(data, size=1, seed=0, epoch=epoch, list_size=4, list_relevant=2)
        counts[batch.rows] += 1
    shares = np.where(data.labels > 0, 2 / 3, 2 / 6)
    assert np.abs(counts / 2_000 - shares).max() < 4 * np.sqrt(0.25 / 2_000)


@pytest.mark.parametrize("list_size", [None, 4])
def test_resumed_at_a_step_is_never_stopped(list_size: int | None) -> None:
    data = made([int(n) for n in np.random.default_rng(3).integers(1, 15, 50)])
    arguments: dict[str, Any] = {"size": 4, "seed": 9, "epoch": 3, "list_size": list_size}
    whole = list(batches(data, **arguments))
    for step in (0, 1, 7, len(whole) - 1, len(whole)):
        rest = list(batches(data, start=step, **arguments))
        assert len(rest) == len(whole) - step
        for one, other in zip(whole[step:], rest, strict=True):
            assert (one.rows == other.rows).all()
            assert (one.labels == other.labels).all()


def test_seed_and_epoch_change_the_order() -> None:
    data = made([3] * 40)

    def order(seed: int, epoch: int) -> list[int]:
        found = batches(data, size=4, seed=seed, epoch=epoch)
        return [int(q) for batch in found for q in batch.queries]

    assert order(0, 0) == order(0, 0)
    assert len({tuple(order(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4


def test_buckets_save_padding() -> None:
    data = made([int(n) for n in np.random.default_rng(0).integers(1, 200, 400)])

    lengths = np.random.default_rng(0).permutation(data.lengths).reshape(-1, 8)
    epoch = batches(data, size=8, seed=0, epoch=0)
    padding = sum(int((~batch.mask).sum()) for batch in epoch)
    assert padding < (lengths.max(axis=1, keepdims=True) - lengths).sum() / 3


def test_no_queries_make_no_batches() -> None:
    assert list(batches(made([2]).select([]), size=2, seed=0, epoch=0)) == []
