"""Whether two candidate pools are the same."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from lmtune.candidates.pool import CandidatePool


def assert_same(a: CandidatePool, b: CandidatePool) -> None:
    """Hold two pools against each other, array for array; of any indexes."""
    for one in fields(CandidatePool):
        if one.name in ("index", "collection_extent"):
            continue
        x, y = getattr(a, one.name), getattr(b, one.name)
        if hasattr(x, "__dataclass_fields__"):
            for inner in fields(x):
                left, right = getattr(x, inner.name), getattr(y, inner.name)
                assert np.array_equal(left, right), (one.name, inner.name)
                assert getattr(left, "dtype", None) == getattr(right, "dtype", None)
        elif isinstance(x, np.ndarray):
            assert np.array_equal(x, y), one.name
            assert x.dtype == y.dtype
        else:
            assert x == y, one.name
