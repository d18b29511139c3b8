"""Exponentials and logarithms of the kernels against mpmath."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from lmtune.compiled import compiled
from lmtune.losses.exponential_kernels import decay, log1p

# Of `decay`, the last argument whose result is told apart from the next.
BOTH = pytest.mark.parametrize(("dtype", "farthest"), [("float32", 87), ("float64", 708)])


@compiled()
def _decays(numbers, out):  # type: ignore[no-untyped-def]
    for i in range(numbers.size):
        out[i] = decay(numbers[i])


@compiled()
def _logarithms(numbers, out):  # type: ignore[no-untyped-def]
    for i in range(numbers.size):
        out[i] = log1p(numbers[i])


def each(kernel: Any, numbers: NDArray[Any]) -> NDArray[Any]:
    out = np.empty_like(numbers)
    kernel(numbers, out)
    return out


def farthest_off(got: NDArray[Any], numbers: NDArray[Any], function: Callable[[Any], Any]) -> float:
    """Return the greatest error in units of the last place."""
    with mpmath.workdps(40):
        right = [function(mpmath.mpf(float(number))) for number in numbers]
        units = np.spacing(np.array([float(value) for value in right], got.dtype))
        return max(
            abs(float((mpmath.mpf(float(one)) - value) / float(unit)))
            for one, value, unit in zip(got, right, units, strict=True)
        )


@BOTH
def test_decay_is_right_to_the_last_place(dtype: str, farthest: int) -> None:
    between_powers = (np.arange(farthest) + 0.5) * np.log(2)
    spread = [np.linspace(0, farthest, 6001), np.geomspace(1e-30, farthest, 2001), between_powers]
    numbers = np.concatenate(spread).astype(dtype)
    assert farthest_off(each(_decays, numbers), numbers, lambda x: mpmath.exp(-x)) < 1.2


@BOTH
def test_decay_stays_where_numbers_cease_to_be_normal(dtype: str, farthest: int) -> None:
    beyond = [farthest, np.nextafter(farthest, np.inf), farthest + 0.3, 2 * farthest, 1e30, np.inf]
    decays = each(_decays, np.array(beyond, dtype))
    assert (decays == decays[0]).all()
    least = np.finfo(dtype).smallest_normal
    assert least <= decays[0] < np.exp(1.0) * least


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithm_is_right_to_the_last_places(dtype: str) -> None:
    spread = [np.linspace(0, 1, 6001), np.geomspace(1e-30, 1, 2001), each(_decays, np.linspace(0, 80, 2001))]
    numbers = np.concatenate(spread).astype(dtype)
    assert farthest_off(each(_logarithms, numbers), numbers, mpmath.log1p) < 2


@pytest.mark.parametrize("function", [decay, log1p])
@pytest.mark.parametrize(("dtype", "kind"), [("float32", "float"), ("float64", "double")])
def test_loops_become_vector_instructions(function: Any, dtype: str, kind: str) -> None:
    @njit
    def loop(numbers, out):  # type: ignore[no-untyped-def]
        for i in range(numbers.size):
            out[i] = function(numbers[i])

    each(loop, np.ones(3, dtype))
    (text,) = loop.inspect_llvm().values()
    assert re.search(rf"fmul contract <\d+ x {kind}>", text)
