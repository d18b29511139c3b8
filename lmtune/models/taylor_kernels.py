"""Second-order Taylor models of scores over a box of parameters, with rigorous remainders.

Two-stage smoothing: in s = log(1 - lambda) and u = log mu, a document's score is, up to a constant per topic,

    G = sum over query terms of c log x,    x = 1 + b z,
    b = exp(s) |D| / (mu + |D|),    z = tf / (P(w|C) |D|) - 1.

Define

    q = b z / x = 1 - 1/x,    k = mu / (mu + |D|),
    E = sum c q,    F = sum c q (1 - q),    H = sum c q (1 - q) (1 - 2 q).

The derivatives along a line of direction (ds, du) are, with w = ds - k du and dw/dt = -k (1 - k) du^2,

    G'   = E w
    G''  = F w^2 - k (1 - k) E du^2
    G''' = H w^3 - 3 k (1 - k) F w du^2 - k (1 - k) (1 - 2 k) E du^3.

In a box with half-widths (hs, hu), |ds| <= hs, |du| <= hu and |w| <= hs + k_max hu. b is monotone in s and u,
and so is every q. The interval of each term's q at the ends of the box bounds E, F and H. By Taylor's
theorem, G differs from its second-order model at the centre by at most a sixth of the largest |G'''|.

BM25: with m = 1 - b + b |D| / L and v = log k1 + log m, a term's score is w q(v), q = tf / (tf + exp v). A
document's score depends on k1 and b only through v. In s = log k1 and b, with g = (|D| / L - 1) / m,

    dv = ds + g db,    v'' = -(g db)^2,    v''' = 2 (g db)^3    along a line of direction (ds, db).

With the score's first three derivatives in v,

    E = -sum w q (1 - q),    F = sum w q (1 - q) (1 - 2 q),    H = -sum w q (1 - q) (1 - 6 q (1 - q)),

the derivatives along the line are

    G'   = E dv
    G''  = F dv^2 - E (g db)^2
    G''' = H dv^3 - 3 F dv (g db)^2 + 2 E (g db)^3.

In a box with half-widths (hs, hb):

    |ds| <= hs,    |db| <= hb,    |dv| <= hs + g_max hb.

|g| is largest at the end of b with the smallest m. q decreases in v, which is extreme at the ends of k1 and
m. The interval of each term's q bounds E, F and H, and Taylor's theorem bounds the remainder as above.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lmtune.arrays import Doubles, Integers, Integers32
from lmtune.compiled import compiled

VALUE, S, U, SS, SU, UU, ERROR = range(7)
"""Rows of a model: G(centre), the first and second-order terms for a step of one half-width in s and in u,
and the bound of the error, including rounding."""

ROWS = 7

_CHUNK = 128
# The extremes of q (1 - q) (1 - 2 q) on [0, 1]: +-sqrt(3) / 18 at (3 -+ sqrt(3)) / 6.
_PEAK = math.sqrt(3.0) / 18.0 * (1.0 + 1e-12)
_PEAK_AT = (3.0 - math.sqrt(3.0)) / 6.0
# Relative rounding errors of E, F and H are at most a few dozen units of 2**-53; 2**-44 is 512 units.
_ROUNDING = 2.0**-44
# A model with larger or undefined numbers gets an infinite error.
_LARGEST = 1e150


Sides = tuple[float, float, float, float]
"""A box: bounds of s = log(1 - lambda), then of u = log mu; for BM25, of s = log k1 and b."""


class _Ends(NamedTuple):
    """Half-widths of a box, and 1 - lambda, lambda and mu at its centre, low end and high end."""

    hs: float
    hu: float
    keep: float
    keep_low: float
    keep_high: float
    lam: float
    lam_low: float
    lam_high: float
    mu: float
    mu_low: float
    mu_high: float


class _Sums(NamedTuple):
    """Lengths of documents, and sums over query terms: G, E, F, bounds of E, F, H, and c |q|."""

    length: Doubles
    value: Doubles
    e: Doubles
    f: Doubles
    e_low: Doubles
    e_high: Doubles
    f_low: Doubles
    f_high: Doubles
    h_low: Doubles
    h_high: Doubles
    far: Doubles


@compiled()
def half_width(low: float, high: float) -> float:
    """Return a half-width that, despite rounding, reaches both ends from the computed centre."""
    size = max(abs(low), abs(high))
    return 0.5 * (high - low) * (1.0 + 1e-15) + 4.5e-16 * size


@compiled()
def two_stage_models(
    y: Doubles,
    length: Doubles,
    docs: Integers32,
    count: Integers,
    product: bool,
    slack: float,
    box: Sides,
    out: Doubles,
) -> None:
    """Fill out (`ROWS`, docs.size) with the models of documents over a box.

    ``y`` is tf / P(w|C), shape (terms, documents); ``docs`` are the selected documents. ``slack`` is added to
    every error, for the rounding of scores here and in the ranking kernel.
    """
    ends = _ends(box)
    weight = float(count.sum())
    room = np.empty((18, min(docs.size, _CHUNK)))
    for first in range(0, docs.size, _CHUNK):
        some = docs[first : min(first + _CHUNK, docs.size)]
        size = some.size
        room[1:11] = 0.0
        sums = _Sums(
            room[0, :size],
            room[1, :size],
            room[2, :size],
            room[3, :size],
            room[4, :size],
            room[5, :size],
            room[6, :size],
            room[7, :size],
            room[8, :size],
            room[9, :size],
            room[10, :size],
        )
        for j in range(size):
            sums.length[j] = length[some[j]]
        _sum_over_terms(y, some, count, product, ends, sums, room[11:])
        _expand(sums, weight, slack, ends, out[:, first : first + size])


@compiled()
def _ends(box: Sides) -> _Ends:
    s_low, s_high, u_low, u_high = box
    s = 0.5 * (s_low + s_high)
    u = 0.5 * (u_low + u_high)
    return _Ends(
        half_width(s_low, s_high),
        half_width(u_low, u_high),
        math.exp(s),
        math.exp(s_low),
        math.exp(s_high),
        -math.expm1(s),
        -math.expm1(s_high),
        -math.expm1(s_low),
        math.exp(u),
        math.exp(u_low),
        math.exp(u_high),
    )


@compiled()
def _sum_over_terms(
    y: Doubles, some: Integers32, count: Integers, product: bool, ends: _Ends, sums: _Sums, room: Doubles
) -> None:
    """Compute the sums of some documents; `room` is scratch memory."""
    size, sizes, v = some.size, sums.length, sums.value
    mid, least, most = room[0, :size], room[1, :size], room[2, :size]
    yw, x, near, far = room[3, :size], room[4, :size], room[5, :size], room[6, :size]
    v[:] = 1.0 if product else 0.0
    for j in range(size):
        mid[j] = ends.keep / (ends.mu + sizes[j])
        # b is smallest at the low end of s and the high end of u.
        least[j] = ends.keep_low / (ends.mu_high + sizes[j])
        most[j] = ends.keep_high / (ends.mu_low + sizes[j])
    # Short loops over few arrays, so that the compiler vectorises them.
    for w in range(count.size):
        c = float(count[w])
        row = y[w]
        for j in range(size):
            yw[j] = row[some[j]]
        for j in range(size):
            x[j] = mid[j] * (yw[j] + ends.mu) + ends.lam
            near[j] = mid[j] * (yw[j] - sizes[j]) / x[j]
        for j in range(size):
            sums.e[j] += c * near[j]
            sums.f[j] += c * near[j] * (1.0 - near[j])
        if product:
            for _ in range(count[w]):
                for j in range(size):
                    v[j] *= x[j]
        else:
            for j in range(size):
                v[j] += c * math.log(x[j])
        _q(yw, sizes, least, ends.mu_high, ends.lam_high, near)
        _q(yw, sizes, most, ends.mu_low, ends.lam_low, far)
        _add_ends(c, near, far, sums)
    if product:
        for j in range(size):
            v[j] = math.log(v[j])


@compiled()
def _q(y: Doubles, sizes: Doubles, ratio: Doubles, mu: float, lam: float, q: Doubles) -> None:
    for j in range(sizes.size):
        q[j] = ratio[j] * (y[j] - sizes[j]) / (ratio[j] * (y[j] + mu) + lam)


@compiled()
def _add_ends(c: float, near: Doubles, far: Doubles, sums: _Sums) -> None:
    """Add a term's bounds of E, F and H, from the ends of its q."""
    size = near.size
    for j in range(size):
        sums.far[j] += c * abs(far[j])
        sums.e_low[j] += c * min(near[j], far[j])
        sums.e_high[j] += c * max(near[j], far[j])
    for j in range(size):
        one, two = near[j] * (1.0 - near[j]), far[j] * (1.0 - far[j])
        sums.f_low[j] += c * min(one, two)
        sums.f_high[j] += c * (0.25 if near[j] < 0.5 and far[j] > 0.5 else max(one, two))
    for j in range(size):
        one = near[j] * (1.0 - near[j]) * (1.0 - 2.0 * near[j])
        two = far[j] * (1.0 - far[j]) * (1.0 - 2.0 * far[j])
        up = near[j] < _PEAK_AT and far[j] > _PEAK_AT
        down = near[j] < 1.0 - _PEAK_AT and far[j] > 1.0 - _PEAK_AT
        sums.h_low[j] += c * (-_PEAK if down else min(one, two))
        sums.h_high[j] += c * (_PEAK if up else max(one, two))


@compiled()
def _expand(sums: _Sums, weight: float, slack: float, ends: _Ends, out: Doubles) -> None:
    """Compute the models from the sums."""
    hs, hu, mu, mu_low, mu_high = ends.hs, ends.hu, ends.mu, ends.mu_low, ends.mu_high
    value, to_s, to_u = out[VALUE], out[S], out[U]
    to_ss, to_su, to_uu, error = out[SS], out[SU], out[UU], out[ERROR]
    for j in range(sums.length.size):
        e, f, size = sums.e[j], sums.f[j], sums.length[j]
        k = mu / (mu + size)
        k_low, k_high = mu_low / (mu_low + size), mu_high / (mu_high + size)
        value[j] = sums.value[j]
        to_s[j] = e * hs
        to_u[j] = -k * e * hu
        to_ss[j] = 0.5 * f * hs * hs
        to_su[j] = -k * f * hs * hu
        to_uu[j] = 0.5 * k * (k * f - (1.0 - k) * e) * hu * hu
        peak = 0.25
        if k_low >= 0.5:
            peak = k_low * (1.0 - k_low)
        elif k_high <= 0.5:
            peak = k_high * (1.0 - k_high)
        slope = max(abs(1.0 - 2.0 * k_low), abs(1.0 - 2.0 * k_high))
        wide = hs + k_high * hu
        e_most = max(abs(sums.e_low[j]), abs(sums.e_high[j]))
        f_most = max(abs(sums.f_low[j]), abs(sums.f_high[j]))
        h_most = max(abs(sums.h_low[j]), abs(sums.h_high[j]))
        third = h_most * wide**3 + peak * hu * hu * (3.0 * f_most * wide + slope * e_most * hu)
        # |q| is largest at `far`, so that powers of this bound the terms of E, F and H.
        size_of_q = (weight + 2.0 * sums.far[j]) * wide
        rounding = size_of_q * (1.0 + size_of_q + size_of_q**2) * (1.0 + hu) ** 2
        error[j] = third / 6.0 * (1.0 + _ROUNDING) + _ROUNDING * rounding + slack
        size_of_all = abs(value[j]) + abs(to_s[j]) + abs(to_u[j])
        size_of_all += abs(to_ss[j]) + abs(to_su[j]) + abs(to_uu[j]) + error[j]
        if not size_of_all < _LARGEST:
            out[:ERROR, j] = 0.0
            error[j] = np.inf


# The maximum of q (1 - q) (1 - 6 q (1 - q)), 1 / 24, is here; at q = 1 / 2 the function is -1 / 8.
_CREST_AT = (3.0 - math.sqrt(6.0)) / 6.0


class _BM25Sums(NamedTuple):
    """Sums over query terms for some documents: G, E, F, and bounds of E, F and H."""

    value: Doubles
    e: Doubles
    f: Doubles
    e_most: Doubles
    f_low: Doubles
    f_high: Doubles
    h_low: Doubles
    h_high: Doubles


def slack_of(weight: Doubles) -> float:
    """Return an upper bound of the rounding errors of BM25 scores and models, from the terms' weights.

    Let T be the number of terms, W the sum of their weights, and u = 2**-53. The ranking kernel computes a
    term's score w - w / (1 + tf / n) with an error of at most 10 w u: n has 5 roundings, the rest has 5. The
    T additions contribute T W u. A model's value has additional roundings of exp, with at most twice the
    error. The bound 32 u W (1 + T) covers a score and a model's value.
    """
    return 32.0 * 2.0**-53 * float(weight.sum()) * (1.0 + weight.size)


@compiled()
def bm25_models(
    tf: Doubles, length: Doubles, docs: Integers32, weight: Doubles, slack: float, box: Sides, out: Doubles
) -> None:
    """Fill out (`ROWS`, docs.size) with the models of documents over a box.

    ``tf`` has shape (terms, documents), ``length`` is |D| / L, ``docs`` are the selected documents, and
    ``weight`` is each term's idf times its count. ``slack`` is added to every error, for the rounding of
    scores here and in the ranking kernel.
    """
    room = np.empty((12, min(docs.size, _CHUNK)))
    for first in range(0, docs.size, _CHUNK):
        some = docs[first : min(first + _CHUNK, docs.size)]
        size = some.size
        part = room[:, :size]
        part[:8] = 0.0
        sums = _BM25Sums(part[0], part[1], part[2], part[3], part[4], part[5], part[6], part[7])
        _sum_bm25_terms(tf, length, some, weight, box, sums, part[8:])
        _expand_bm25(length, some, sums, weight.sum(), slack, box, out[:, first : first + size])


@compiled()
def _sum_bm25_terms(
    tf: Doubles,
    length: Doubles,
    some: Integers32,
    weight: Doubles,
    box: Sides,
    sums: _BM25Sums,
    room: Doubles,
) -> None:
    s_low, s_high, b_low, b_high = box
    k1, k1_low, k1_high = math.exp(0.5 * (s_low + s_high)), math.exp(s_low), math.exp(s_high)
    b = 0.5 * (b_low + b_high)
    mid, least, most, frequency = room[0], room[1], room[2], room[3]
    for j in range(some.size):
        size = length[some[j]]
        one, other = (1.0 - b_low) + b_low * size, (1.0 - b_high) + b_high * size
        mid[j] = k1 * ((1.0 - b) + b * size)
        least[j] = k1_low * min(one, other)
        most[j] = k1_high * max(one, other)
    for w in range(weight.size):
        c = weight[w]
        row = tf[w]
        for j in range(some.size):
            frequency[j] = row[some[j]]
        for j in range(some.size):
            # A frequency of 0 gives q = 0 at every setting.
            q = frequency[j] / (frequency[j] + mid[j])
            spread = q * (1.0 - q)
            sums.value[j] += c * q
            sums.e[j] -= c * spread
            sums.f[j] += c * spread * (1.0 - 2.0 * q)
        for j in range(some.size):
            low, high = frequency[j] / (frequency[j] + most[j]), frequency[j] / (frequency[j] + least[j])
            one, two = low * (1.0 - low), high * (1.0 - high)
            middle = (low < 0.5) & (high > 0.5)
            sums.e_most[j] += c * (0.25 if middle else max(one, two))
            f_one, f_two = one * (1.0 - 2.0 * low), two * (1.0 - 2.0 * high)
            up = (low < _PEAK_AT) & (high > _PEAK_AT)
            down = (low < 1.0 - _PEAK_AT) & (high > 1.0 - _PEAK_AT)
            sums.f_low[j] += c * (-_PEAK if down else min(f_one, f_two))
            sums.f_high[j] += c * (_PEAK if up else max(f_one, f_two))
            h_one, h_two = one * (1.0 - 6.0 * one), two * (1.0 - 6.0 * two)
            crest = (low < _CREST_AT) & (high > _CREST_AT)
            crest |= (low < 1.0 - _CREST_AT) & (high > 1.0 - _CREST_AT)
            sums.h_low[j] += c * (-0.125 if middle else min(h_one, h_two))
            sums.h_high[j] += c * (1.0 / 24.0 if crest else max(h_one, h_two))


@compiled()
def _expand_bm25(
    length: Doubles, some: Integers32, sums: _BM25Sums, weight: float, slack: float, box: Sides, out: Doubles
) -> None:
    """Compute the models from the sums."""
    s_low, s_high, b_low, b_high = box
    hs, hb = half_width(s_low, s_high), half_width(b_low, b_high)
    b = 0.5 * (b_low + b_high)
    for j in range(some.size):
        size = length[some[j]]
        slope = (size - 1.0) / ((1.0 - b) + b * size) * hb
        smallest = min((1.0 - b_low) + b_low * size, (1.0 - b_high) + b_high * size)
        steep = abs(size - 1.0) / smallest * hb
        wide = hs + steep
        out[VALUE, j] = sums.value[j]
        out[S, j] = sums.e[j] * hs
        out[U, j] = sums.e[j] * slope
        out[SS, j] = 0.5 * sums.f[j] * hs * hs
        out[SU, j] = sums.f[j] * hs * slope
        out[UU, j] = 0.5 * (sums.f[j] - sums.e[j]) * slope * slope
        f_most = max(abs(sums.f_low[j]), abs(sums.f_high[j]))
        h_most = max(abs(sums.h_low[j]), abs(sums.h_high[j]))
        third = h_most * wide**3 + 3.0 * f_most * wide * steep**2 + 2.0 * sums.e_most[j] * steep**3
        # |D| / L - 1 has rounding errors relative to |D| / L + 1, because of cancellation.
        reach = hs + (size + 1.0) / smallest * hb
        rounding = weight * reach * (1.0 + reach) ** 2
        out[ERROR, j] = third / 6.0 * (1.0 + _ROUNDING) + _ROUNDING * rounding + slack
