"""Ranks and places of items by label against brute force."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtune.losses.packing_kernels import doubled_ranks, first_below


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0]), st.integers(0, 3)), min_size=1, max_size=20
    )
)
def test_ranks_are_those_of_the_formula(pairs: list[tuple[float, int]]) -> None:
    pairs = sorted(pairs, key=lambda pair: -pair[1])
    scores, labels = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    want = [
        1
        + sum(t > s or (t == s and z < y) for t, z in pairs)
        + (sum(t == s and z == y for t, z in pairs) - 1) / 2
        for s, y in pairs
    ]
    got = doubled_ranks(scores, labels, np.argsort(-scores))
    np.testing.assert_array_equal(got / 2, want)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_below_is_the_first_lower_label(labels: list[int]) -> None:
    falling = sorted(labels, reverse=True)
    want = [sum(z >= y for z in falling) for y in falling]
    assert first_below(np.array(falling, dtype=np.float32)).tolist() == want
