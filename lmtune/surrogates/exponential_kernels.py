"""e^-x and ln(1 + x) that a compiler can turn into vector instructions, in single precision.

In double precision they are the library's own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from lmtune.compiled import compiled

_F = np.float32
# e^-87 is the least power of e that is a normal number.
_FARTHEST = _F(87.0)
_LOG2_E = _F(1.4426950408889634)
# ln 2 in two parts, so that k * the first is exact.
_LN2_HIGH, _LN2_LOW = _F(0.693359375), _F(-2.12194440e-4)
# e^r = 1 + r + r^2 (...) for |r| <= ln(2) / 2: Cephes (expf), Moshier.
_E0, _E1, _E2 = _F(5.0000001201e-1), _F(1.6666665459e-1), _F(4.1665795894e-2)
_E3, _E4, _E5 = _F(8.3334519073e-3), _F(1.3981999507e-3), _F(1.9875691500e-4)
# ln(1 + t) = t (...) for 0 <= t <= 1: interpolated at Chebyshev's points, error 5.4e-9 of it.
_L0, _L1, _L2 = _F(0.999999994656292), _F(-0.49999892648063277), _F(0.3332971049891775)
_L3, _L4, _L5 = _F(-0.24951616262872076), _F(0.19663274257204805), _F(-0.15269667074363288)
_L6, _L7, _L8 = _F(0.10543623795419527), _F(-0.05637361283010733), _F(0.019542527261014103)
_L9 = _F(-0.00317605701843196)
_ONE = _F(1.0)


@compiled(contract=True)
def _decay32(x: Any) -> Any:
    x = -min(x, _FARTHEST)
    k = np.rint(x * _LOG2_E)
    r = x - k * _LN2_HIGH
    r = r - k * _LN2_LOW
    p = _E5
    p = p * r + _E4
    p = p * r + _E3
    p = p * r + _E2
    p = p * r + _E1
    p = p * r + _E0
    p = p * (r * r) + r + _ONE
    power_of_two = np.int32((np.int32(k) + np.int32(127)) << np.int32(23))
    return p * power_of_two.view(np.float32)


@compiled(contract=True)
def _log1p32(t: Any) -> Any:
    p = _L9
    p = p * t + _L8
    p = p * t + _L7
    p = p * t + _L6
    p = p * t + _L5
    p = p * t + _L4
    p = p * t + _L3
    p = p * t + _L2
    p = p * t + _L1
    p = p * t + _L0
    return p * t


@compiled()
def _decay64(x: float) -> float:
    return math.exp(-x)


@compiled()
def _log1p64(t: float) -> float:
    return math.log1p(t)


def decay(x: Any) -> Any:
    """Return e^-x for x >= 0, to about a unit in the last place; no less than e^-87 in float32."""
    raise NotImplementedError("for compiled code only")


def log1p(t: Any) -> Any:
    """Return ln(1 + t) for 0 <= t <= 1, to about a unit in the last place."""
    raise NotImplementedError("for compiled code only")


@overload(decay)
def _decay(x: Any) -> Any:
    def single(x: Any) -> Any:
        return _decay32(x)

    def double(x: Any) -> Any:
        return _decay64(x)

    return single if x == types.float32 else double


@overload(log1p)
def _log1p(t: Any) -> Any:
    def single(t: Any) -> Any:
        return _log1p32(t)

    def double(t: Any) -> Any:
        return _log1p64(t)

    return single if t == types.float32 else double
