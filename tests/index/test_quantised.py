"""Lucene's one-byte lengths against what Lucene itself answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.index.quantised import quantised_lengths

GOLDEN = json.loads(Path(__file__).with_name("lucene_lengths.json").read_text(encoding="utf-8"))


def test_every_length_is_kept_as_lucene_keeps_it() -> None:
    starts, values = np.array(GOLDEN["steps"]).T
    lengths = np.arange(GOLDEN["every length up to"] + 1)
    assert lengths.size == 100_001
    expected = values[np.searchsorted(starts, lengths, "right") - 1]
    np.testing.assert_array_equal(quantised_lengths(lengths), expected)


def test_powers_of_two_are_kept_as_lucene_keeps_them() -> None:
    lengths, expected = np.array(GOLDEN["powers of two"]).T
    assert lengths.max() == 2**31 - 1
    np.testing.assert_array_equal(quantised_lengths(lengths), expected)


def test_quantised_lengths_stay_as_they_are() -> None:
    once = quantised_lengths(np.arange(200_000))
    np.testing.assert_array_equal(quantised_lengths(once), once)


def test_the_order_of_lengths_and_their_shape_are_kept() -> None:
    lengths = np.random.default_rng(0).integers(0, 2**31, (7, 300))
    kept = quantised_lengths(np.sort(lengths, axis=1))
    assert kept.shape == lengths.shape
    assert kept.dtype == np.int32
    assert (np.diff(kept, axis=1) >= 0).all()
    assert len(np.unique(quantised_lengths(np.arange(2**17)))) < 256


@pytest.mark.parametrize("length", [-1, 2**31])
def test_lengths_that_lucene_refuses_are_refused(length: int) -> None:
    with pytest.raises(InputError, match=str(length)):
        quantised_lengths([5, length])
