"""Vectorisable e^-x and ln(1 + t), as polynomials, and vectorisable sums in a fixed order.

The library functions process one number at a time, and a loop over a tuple of coefficients would not be
vectorised. e^-x is computed as 2^k e^r with |r| <= ln(2) / 2.

Sums use eight partial sums in a fixed order, which the compiler can vectorise without permission to reorder.
With reordering (fast-math), the last bit depended on the addresses of arrays, so that training twice from
the same seed gave different networks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from lmtune.arrays import Floats
from lmtune.compiled import compiled

_F = np.float32
# e^-87 is approximately the smallest normal float32.
_FARTHEST = _F(87.0)
_LOG2_E = _F(1.4426950408889634)
# ln 2 as a sum of two parts; k times the high part is exact.
_LN2_HIGH, _LN2_LOW = _F(0.693359375), _F(-2.12194440e-4)
# e^r = 1 + r + r^2 (...) for |r| <= ln(2) / 2: Cephes (expf), Moshier.
_E0, _E1, _E2 = _F(5.0000001201e-1), _F(1.6666665459e-1), _F(4.1665795894e-2)
_E3, _E4, _E5 = _F(8.3334519073e-3), _F(1.3981999507e-3), _F(1.9875691500e-4)
# ln(1 + t) = t (...) for 0 <= t <= 1: interpolation at Chebyshev points, relative error 5.4e-9.
_L0, _L1, _L2 = _F(0.999999994656292), _F(-0.49999892648063277), _F(0.3332971049891775)
_L3, _L4, _L5 = _F(-0.24951616262872076), _F(0.19663274257204805), _F(-0.15269667074363288)
_L6, _L7, _L8 = _F(0.10543623795419527), _F(-0.05637361283010733), _F(0.019542527261014103)
_L9 = _F(-0.00317605701843196)
_ONE = _F(1.0)
# For float64: the high part ends in 21 zero bits and k has at most 10 bits, so their product is exact.
_LN2_HIGH64, _LN2_LOW64 = 0.6931471803691238, 1.9082149292705877e-10


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


@compiled(contract=True)
def _decay64(x: Any) -> Any:
    """Use e^r = 1 + r + r^2 p(r), with p interpolated at Chebyshev points; relative error 1.6e-17."""
    x = -min(x, 708.0)
    k = np.rint(x * 1.4426950408889634)
    r = x - k * _LN2_HIGH64
    r = r - k * _LN2_LOW64
    p = 2.5100375832561234e-08
    p = p * r + 2.7620075879983367e-07
    p = p * r + 2.7557268480310024e-06
    p = p * r + 2.4801521322368692e-05
    p = p * r + 0.00019841269863040545
    p = p * r + 0.0013888888917196719
    p = p * r + 0.008333333333330065
    p = p * r + 0.041666666666624164
    p = p * r + 0.16666666666666669
    p = p * r + 0.5000000000000001
    p = p * (r * r) + r + 1.0
    power_of_two = np.int64((np.int64(np.int32(k)) + np.int64(1023)) << np.int64(52))
    return p * power_of_two.view(np.float64)


@compiled(contract=True)
def _log1p64(t: Any) -> Any:
    """Use ln(1 + t) = t + t^2 p(t), with p interpolated at Chebyshev points; relative error 4.2e-17."""
    p = -2.2938856818471438e-05
    p = p * t + 0.000265295970542531
    p = p * t - 0.0014569248473329174
    p = p * t + 0.005081090478548994
    p = p * t - 0.012732150528247672
    p = p * t + 0.024682950191684934
    p = p * t - 0.03912505115233944
    p = p * t + 0.053223522460321214
    p = p * t - 0.06504010366036855
    p = p * t + 0.07444817019942226
    p = p * t - 0.0825618541627825
    p = p * t + 0.09071835292534261
    p = p * t - 0.09996324347550137
    p = p * t + 0.11110571142855806
    p = p * t - 0.12499941281507687
    p = p * t + 0.14285709745445543
    p = p * t - 0.1666666643097834
    p = p * t + 0.1999999999247163
    p = p * t - 0.2499999999987205
    p = p * t + 0.33333333333332466
    p = p * t - 0.5
    return p * (t * t) + t


def decay(x: Any) -> Any:
    """Return e^-x for x >= 0, accurate to about one unit in the last place.

    x is limited to 87 in float32 and 708 in float64; beyond, results would not be normal numbers.
    """
    raise NotImplementedError("for compiled code only")


def log1p(t: Any) -> Any:
    """Return ln(1 + t) for 0 <= t <= 1, accurate to less than two units in the last place."""
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


@compiled()
def lane_sum(x: Floats) -> Any:
    """Return the sum of an array, computed in the array's type."""
    zero = x.dtype.type(0.0)
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    whole = x.size - x.size % 8
    for j in range(0, whole, 8):
        a += x[j]
        b += x[j + 1]
        c += x[j + 2]
        d += x[j + 3]
        e += x[j + 4]
        f += x[j + 5]
        g += x[j + 6]
        h += x[j + 7]
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for j in range(whole, x.size):
        total += x[j]
    return total


@compiled()
def lane_dot(x: Floats, y: Floats) -> Any:
    """Return the inner product of two arrays."""
    zero = x.dtype.type(0.0)
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    whole = x.size - x.size % 8
    for j in range(0, whole, 8):
        a += x[j] * y[j]
        b += x[j + 1] * y[j + 1]
        c += x[j + 2] * y[j + 2]
        d += x[j + 3] * y[j + 3]
        e += x[j + 4] * y[j + 4]
        f += x[j + 5] * y[j + 5]
        g += x[j + 6] * y[j + 6]
        h += x[j + 7] * y[j + 7]
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for j in range(whole, x.size):
        total += x[j] * y[j]
    return total


@compiled()
def lane_max(x: Floats) -> Any:
    """Return the maximum of an array; minus infinity if it is empty."""
    a = x.dtype.type(-np.inf)
    b, c, d = a, a, a
    whole = x.size - x.size % 4
    for j in range(0, whole, 4):
        a = x[j] if x[j] > a else a
        b = x[j + 1] if x[j + 1] > b else b
        c = x[j + 2] if x[j + 2] > c else c
        d = x[j + 3] if x[j + 3] > d else d
    for j in range(whole, x.size):
        a = x[j] if x[j] > a else a
    return max(max(a, b), max(c, d))


@compiled()
def add_scaled(factor: Any, x: Floats, sums: Floats) -> None:
    """Add a multiple of an array to another."""
    for j in range(sums.size):
        sums[j] += factor * x[j]
