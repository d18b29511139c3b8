"""Second-order models of scores over a box of parameters, with rigorous remainders.

In s = log(1 - lambda) and u = log mu, a document's score is, up to a constant of its topic,

    G = sum over query terms of c log x,    x = 1 + b z,
    b = exp(s) |D| / (mu + |D|),    z = tf / (P(w|C) |D|) - 1.

With q = b z / x = 1 - 1/x, k = mu / (mu + |D|) and the sums E = sum c q, F = sum c q (1 - q),
H = sum c q (1 - q) (1 - 2 q), the derivatives along a line of direction (ds, du) are, with
w = ds - k du (so that dw/dt = -k (1 - k) du^2),

    G'   = E w
    G''  = F w^2 - k (1 - k) E du^2
    G''' = H w^3 - 3 k (1 - k) F w du^2 - k (1 - k) (1 - 2 k) E du^3.

Half-widths (hs, hu) of a box bound |ds|, |du|, and |w| <= hs + k_max hu. b is monotone in s and u,
hence so is every q; so E, F and H lie between sums of the ends of each term's interval, and
Taylor's theorem bounds G minus its second-order model at the centre by a sixth of the largest
|G'''|.
"""

from __future__ import annotations

import math

import numpy as np

from lmtune.compiled import compiled

VALUE, S, U, SS, SU, UU, ERROR = range(7)
"""Rows of a model: G(centre); its first and second-order terms for a step of one half-width in s
and in u; and the largest distance from the model, rounding included."""

ROWS = 7

_CHUNK = 128
# The extremes of q (1 - q) (1 - 2 q) on [0, 1]: +-sqrt(3) / 18 at (3 -+ sqrt(3)) / 6.
_PEAK = math.sqrt(3.0) / 18.0 * (1.0 + 1e-12)
_PEAK_AT = (3.0 - math.sqrt(3.0)) / 6.0
# Relative rounding errors of E and F are a few dozen units at most; 2**-44 is 512 of them.
_ROUNDING = 2.0**-44
# A model with larger or undefined numbers says nothing of its document.
_LARGEST = 1e150


@compiled()
def half_width(low, high):  # type: ignore[no-untyped-def]
    """Return a half-width that reaches both ends from the rounded centre."""
    size = max(abs(low), abs(high))
    return 0.5 * (high - low) * (1.0 + 1e-15) + 4.5e-16 * size


@compiled()
def models(y, length, docs, count, product, slack, box, out):  # type: ignore[no-untyped-def]
    """Fill out (`ROWS`, docs.size) with the models of documents over a box.

    ``y`` holds tf / P(w|C) as (terms, documents), ``docs`` the columns wanted. ``slack`` is added
    to every error: it covers the rounding of the value, here and in the measuring kernel.
    """
    s_low, s_high, u_low, u_high = box
    s = 0.5 * (s_low + s_high)
    u = 0.5 * (u_low + u_high)
    hs = half_width(s_low, s_high)
    hu = half_width(u_low, u_high)
    keep, keep_low, keep_high = math.exp(s), math.exp(s_low), math.exp(s_high)
    lam, lam_low, lam_high = -math.expm1(s), -math.expm1(s_high), -math.expm1(s_low)
    mu, mu_low, mu_high = math.exp(u), math.exp(u_low), math.exp(u_high)
    weight = float(count.sum())
    part = np.empty((18, _CHUNK))
    for first in range(0, docs.size, _CHUNK):
        some = docs[first : min(first + _CHUNK, docs.size)]
        size = some.size
        sizes, v, e, f = part[0, :size], part[1, :size], part[2, :size], part[3, :size]
        e_low, e_high = part[4, :size], part[5, :size]
        f_low, f_high = part[6, :size], part[7, :size]
        h_low, h_high, far_abs = part[8, :size], part[9, :size], part[10, :size]
        mid, least, most = part[11, :size], part[12, :size], part[13, :size]
        yw, x, near, far = part[14, :size], part[15, :size], part[16, :size], part[17, :size]
        part[2:11] = 0.0
        v[:] = 1.0 if product else 0.0
        for j in range(size):
            sizes[j] = length[some[j]]
        for j in range(size):
            mid[j] = keep / (mu + sizes[j])
            # b is least at the lowest s and the highest u.
            least[j] = keep_low / (mu_high + sizes[j])
            most[j] = keep_high / (mu_low + sizes[j])
        # Short loops over few arrays each: the compiler makes vector instructions of them.
        for w in range(count.size):
            c = float(count[w])
            row = y[w]
            for j in range(size):
                yw[j] = row[some[j]]
            for j in range(size):
                x[j] = mid[j] * (yw[j] + mu) + lam
                near[j] = mid[j] * (yw[j] - sizes[j]) / x[j]
            for j in range(size):
                e[j] += c * near[j]
                f[j] += c * near[j] * (1.0 - near[j])
            if product:
                for _ in range(count[w]):
                    for j in range(size):
                        v[j] *= x[j]
            else:
                for j in range(size):
                    v[j] += c * math.log(x[j])
            _q(yw, sizes, least, mu_high, lam_high, near)
            _q(yw, sizes, most, mu_low, lam_low, far)
            for j in range(size):
                far_abs[j] += c * abs(far[j])
                e_low[j] += c * min(near[j], far[j])
                e_high[j] += c * max(near[j], far[j])
            for j in range(size):
                one, two = near[j] * (1.0 - near[j]), far[j] * (1.0 - far[j])
                f_low[j] += c * min(one, two)
                f_high[j] += c * (0.25 if near[j] < 0.5 and far[j] > 0.5 else max(one, two))
            for j in range(size):
                one = near[j] * (1.0 - near[j]) * (1.0 - 2.0 * near[j])
                two = far[j] * (1.0 - far[j]) * (1.0 - 2.0 * far[j])
                up = near[j] < _PEAK_AT and far[j] > _PEAK_AT
                down = near[j] < 1.0 - _PEAK_AT and far[j] > 1.0 - _PEAK_AT
                h_low[j] += c * (-_PEAK if down else min(one, two))
                h_high[j] += c * (_PEAK if up else max(one, two))
        here = out[:, first : first + size]
        value, to_s, to_u = here[VALUE], here[S], here[U]
        to_ss, to_su, to_uu, error = here[SS], here[SU], here[UU], here[ERROR]
        if product:
            for j in range(size):
                v[j] = math.log(v[j])
        for j in range(size):
            k = mu / (mu + sizes[j])
            k_low, k_high = mu_low / (mu_low + sizes[j]), mu_high / (mu_high + sizes[j])
            value[j] = v[j]
            to_s[j] = e[j] * hs
            to_u[j] = -k * e[j] * hu
            to_ss[j] = 0.5 * f[j] * hs * hs
            to_su[j] = -k * f[j] * hs * hu
            to_uu[j] = 0.5 * k * (k * f[j] - (1.0 - k) * e[j]) * hu * hu
            peak = 0.25
            if k_low >= 0.5:
                peak = k_low * (1.0 - k_low)
            elif k_high <= 0.5:
                peak = k_high * (1.0 - k_high)
            slope = max(abs(1.0 - 2.0 * k_low), abs(1.0 - 2.0 * k_high))
            wide = hs + k_high * hu
            e_most = max(abs(e_low[j]), abs(e_high[j]))
            f_most = max(abs(f_low[j]), abs(f_high[j]))
            h_most = max(abs(h_low[j]), abs(h_high[j]))
            third = h_most * wide**3 + peak * hu * hu * (3.0 * f_most * wide + slope * e_most * hu)
            # |q| is largest at `far`: powers of this bound what E, F and H sum, term by term.
            size_of_q = (weight + 2.0 * far_abs[j]) * wide
            rounding = size_of_q * (1.0 + size_of_q + size_of_q**2) * (1.0 + hu) ** 2
            error[j] = third / 6.0 * (1.0 + _ROUNDING) + _ROUNDING * rounding + slack
            size_of_all = abs(value[j]) + abs(to_s[j]) + abs(to_u[j])
            size_of_all += abs(to_ss[j]) + abs(to_su[j]) + abs(to_uu[j]) + error[j]
            if not size_of_all < _LARGEST:
                here[:ERROR, j] = 0.0
                error[j] = np.inf


@compiled()
def _q(y, sizes, ratio, mu, lam, q):  # type: ignore[no-untyped-def]
    for j in range(sizes.size):
        q[j] = ratio[j] * (y[j] - sizes[j]) / (ratio[j] * (y[j] + mu) + lam)
