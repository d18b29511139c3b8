"""Exponentials and logarithms of the kernels against mpmath."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np

from lmtune.compiled import compiled
from lmtune.surrogates.exponential_kernels import decay, log1p


@compiled()
def _each(numbers, decays, logarithms):  # type: ignore[no-untyped-def]
    for i in range(numbers.size):
        decays[i] = decay(numbers[i])
        logarithms[i] = log1p(decays[i])


def test_exponential_is_right_to_the_last_places() -> None:
    numbers = np.concatenate([np.linspace(0, 87, 4001), [0.0, 1e-30, 0.3465735, 88.0, 1e4, 3e38]])
    for dtype, units in ((np.float32, 1.5), (np.float64, 1.0)):
        x: Any = numbers.astype(dtype)
        decays, logarithms = np.empty_like(x), np.empty_like(x)
        _each(x, decays, logarithms)
        near = x <= 87
        unit = units * np.finfo(dtype).eps
        for one, got, logarithm in zip(x[near], decays[near], logarithms[near], strict=True):
            assert abs(got / mpmath.exp(-mpmath.mpf(float(one))) - 1) < unit
            assert abs(logarithm / mpmath.log1p(mpmath.mpf(float(got))) - 1) < 2 * unit
        assert ((decays[~near] >= 0) & (decays[~near] < 2e-38)).all()
