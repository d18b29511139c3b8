"""Second-order models of BM25's scores over a box of parameters, with rigorous remainders.

With m = 1 - b + b |D| / L and v = log k1 + log m, a term's part is w q(v), q = tf / (tf + exp v): a
document's score depends on k1 and b through v alone. In s = log k1 and b, with g = (|D| / L - 1) / m,

    dv = ds + g db,    v'' = -(g db)^2,    v''' = 2 (g db)^3    along a line of direction (ds, db),

and with E = -sum w q (1 - q), F = sum w q (1 - q) (1 - 2 q), H = -sum w q (1 - q) (1 - 6 q (1 - q)),
the score's first three derivatives in v,

    G'   = E dv
    G''  = F dv^2 - E (g db)^2
    G''' = H dv^3 - 3 F dv (g db)^2 + 2 E (g db)^3.

Half-widths (hs, hb) of a box bound |ds|, |db|, and |dv| <= hs + g_max hb, where |g| is largest at the
end of b where m is least. q falls in v, and v's ends are those of k1 and of m; so E, F and H lie
between sums of the ends of each term's interval, and Taylor's theorem bounds G minus its
second-order model at the centre by a sixth of the largest |G'''|.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lmtune.arrays import Doubles, Integers32
from lmtune.compiled import compiled
from lmtune.models.taylor_kernels import ERROR, SS, SU, UU, VALUE, S, Sides, U, half_width

_CHUNK = 128
# Where q (1 - q) (1 - 2 q) is greatest, sqrt(3) / 18 (and least, the other way round), and where
# q (1 - q) (1 - 6 q (1 - q)) is greatest, 1 / 24; in the middle that is -1 / 8.
_PEAK = math.sqrt(3.0) / 18.0 * (1.0 + 1e-12)
_PEAK_AT = (3.0 - math.sqrt(3.0)) / 6.0
_CREST_AT = (3.0 - math.sqrt(6.0)) / 6.0
# Relative rounding errors of E, F and H are a few dozen units at most; 2**-44 is 512 of them.
_ROUNDING = 2.0**-44


class _Sums(NamedTuple):
    """What is summed over query terms for some documents: G, E, F, and ends of E, F and H."""

    value: Doubles
    e: Doubles
    f: Doubles
    e_most: Doubles
    f_low: Doubles
    f_high: Doubles
    h_low: Doubles
    h_high: Doubles


def slack_of(weight: Doubles) -> float:
    """Return more than what rounding can do to scores and their models, given the terms' weights.

    With T terms and weights that add up to W, the measuring kernel computes a part w - w / (1 +
    tf / n) of a term to 10 units w u (n takes 5 roundings, the rest 5), and T sums to T W u; a
    model's value has its roundings of exp besides, and costs no more than twice as much. So 32 u W
    (1 + T) is more than a score and a model's value can be wrong by.
    """
    return 32.0 * 2.0**-53 * float(weight.sum()) * (1.0 + weight.size)


@compiled()
def models(
    tf: Doubles, length: Doubles, docs: Integers32, weight: Doubles, slack: float, box: Sides, out: Doubles
) -> None:
    """Fill out (`ROWS`, docs.size) with the models of documents over a box.

    ``tf`` holds frequencies as (terms, documents), ``length`` |D| / L, ``docs`` the columns wanted,
    ``weight`` each term's idf times its count. ``slack`` is added to every error: it covers the
    rounding of the value, here and in the measuring kernel.
    """
    room = np.empty((12, min(docs.size, _CHUNK)))
    for first in range(0, docs.size, _CHUNK):
        some = docs[first : min(first + _CHUNK, docs.size)]
        size = some.size
        part = room[:, :size]
        part[:8] = 0.0
        own = _Sums(part[0], part[1], part[2], part[3], part[4], part[5], part[6], part[7])
        _sum_over_terms(tf, length, some, weight, box, own, part[8:])
        _expand(length, some, own, weight.sum(), slack, box, out[:, first : first + size])


@compiled()
def _sum_over_terms(
    tf: Doubles, length: Doubles, some: Integers32, weight: Doubles, box: Sides, own: _Sums, room: Doubles
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
            # Where all of them are 0, the part is 0 at every setting.
            q = frequency[j] / (frequency[j] + mid[j])
            spread = q * (1.0 - q)
            own.value[j] += c * q
            own.e[j] -= c * spread
            own.f[j] += c * spread * (1.0 - 2.0 * q)
        for j in range(some.size):
            low, high = frequency[j] / (frequency[j] + most[j]), frequency[j] / (frequency[j] + least[j])
            one, two = low * (1.0 - low), high * (1.0 - high)
            middle = (low < 0.5) & (high > 0.5)
            own.e_most[j] += c * (0.25 if middle else max(one, two))
            f_one, f_two = one * (1.0 - 2.0 * low), two * (1.0 - 2.0 * high)
            up = (low < _PEAK_AT) & (high > _PEAK_AT)
            down = (low < 1.0 - _PEAK_AT) & (high > 1.0 - _PEAK_AT)
            own.f_low[j] += c * (-_PEAK if down else min(f_one, f_two))
            own.f_high[j] += c * (_PEAK if up else max(f_one, f_two))
            h_one, h_two = one * (1.0 - 6.0 * one), two * (1.0 - 6.0 * two)
            crest = (low < _CREST_AT) & (high > _CREST_AT)
            crest |= (low < 1.0 - _CREST_AT) & (high > 1.0 - _CREST_AT)
            own.h_low[j] += c * (-0.125 if middle else min(h_one, h_two))
            own.h_high[j] += c * (1.0 / 24.0 if crest else max(h_one, h_two))


@compiled()
def _expand(
    length: Doubles, some: Integers32, own: _Sums, weight: float, slack: float, box: Sides, out: Doubles
) -> None:
    """Make models of the sums."""
    s_low, s_high, b_low, b_high = box
    hs, hb = half_width(s_low, s_high), half_width(b_low, b_high)
    b = 0.5 * (b_low + b_high)
    for j in range(some.size):
        size = length[some[j]]
        slope = (size - 1.0) / ((1.0 - b) + b * size) * hb
        smallest = min((1.0 - b_low) + b_low * size, (1.0 - b_high) + b_high * size)
        steep = abs(size - 1.0) / smallest * hb
        wide = hs + steep
        out[VALUE, j] = own.value[j]
        out[S, j] = own.e[j] * hs
        out[U, j] = own.e[j] * slope
        out[SS, j] = 0.5 * own.f[j] * hs * hs
        out[SU, j] = own.f[j] * hs * slope
        out[UU, j] = 0.5 * (own.f[j] - own.e[j]) * slope * slope
        f_most = max(abs(own.f_low[j]), abs(own.f_high[j]))
        h_most = max(abs(own.h_low[j]), abs(own.h_high[j]))
        third = h_most * wide**3 + 3.0 * f_most * wide * steep**2 + 2.0 * own.e_most[j] * steep**3
        # |D| / L - 1 loses what cancels.
        reach = hs + (size + 1.0) / smallest * hb
        rounding = weight * reach * (1.0 + reach) ** 2
        out[ERROR, j] = third / 6.0 * (1.0 + _ROUNDING) + _ROUNDING * rounding + slack
