"""Models of scores: true scores, computed in 50 digits, never leave them."""

from __future__ import annotations

import mpmath
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support import COLLECTIONS

from lmtune.models.taylor_kernels import ERROR, ROWS, SS, SU, UU, VALUE, S, U, half_width, two_stage_models

mpmath.mp.dps = 50

documents = st.lists(
    st.tuples(st.lists(st.integers(0, 200), min_size=3, max_size=3), st.integers(0, 3000)),
    min_size=1,
    max_size=5,
)
probabilities = st.lists(st.floats(1e-9, 0.6), min_size=3, max_size=3)


def true_score(y: list[float], length: float, count: list[int], s: mpmath.mpf, u: mpmath.mpf) -> mpmath.mpf:
    """Return G by its definition; what is given is exact."""
    keep, mu = mpmath.exp(s), mpmath.exp(u)
    return mpmath.fsum(
        c * mpmath.log(keep * (mpmath.mpf(float(yw)) + mu) / (mu + length) + 1 - keep)
        for yw, c in zip(y, count, strict=True)
    )


@settings(deadline=None, max_examples=COLLECTIONS)
@given(
    documents,
    probabilities,
    st.lists(st.integers(1, 3), min_size=3, max_size=3),
    st.floats(-8.0, 0.0),
    st.floats(0.0, 2.0),
    st.floats(-5.0, 14.0),
    st.floats(0.0, 3.0),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=4),
    st.booleans(),
)
def test_scores_stay_within_the_error_of_their_model(
    docs: list[tuple[list[int], int]],
    p: list[float],
    count: list[int],
    s_high: float,
    s_width: float,
    u_low: float,
    u_width: float,
    inside: list[tuple[float, float]],
    product: bool,
) -> None:
    y = np.array([tf for tf, _ in docs]).T / np.array(p)[:, None]
    length = np.array([float(max(sum(tf), 1) + more) for tf, more in docs])
    box = (s_high - s_width, s_high, u_low, u_low + u_width)
    out = np.empty((ROWS, len(docs)))
    # The error must hold by itself: the slack is for the rounding of values alone.
    slack = 1e-11
    every = np.arange(len(docs), dtype=np.int32)
    two_stage_models(y, length, every, np.array(count), product, slack, box, out)
    hs, hu = half_width(*box[:2]), half_width(*box[2:])
    corners = [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]
    for a, b in inside + corners:
        s = box[0] + a * (box[1] - box[0]) if a < 1.0 else box[1]
        u = box[2] + b * (box[3] - box[2]) if b < 1.0 else box[3]
        x = (mpmath.mpf(s) - 0.5 * (box[0] + box[1])) / hs if hs else mpmath.mpf(0)
        z = (mpmath.mpf(u) - 0.5 * (box[2] + box[3])) / hu if hu else mpmath.mpf(0)
        assert abs(x) <= 1
        assert abs(z) <= 1
        for j in range(len(docs)):
            row = [mpmath.mpf(float(value)) for value in out[:, j]]
            if not np.isfinite(out[ERROR, j]):
                continue
            model = row[VALUE] + row[S] * x + row[U] * z
            model += row[SS] * x**2 + row[SU] * x * z + row[UU] * z**2
            true = true_score(list(y[:, j]), length[j], count, mpmath.mpf(s), mpmath.mpf(u))
            assert abs(true - model) <= row[ERROR]


def test_errors_shrink_with_the_cube_of_the_box() -> None:
    y = np.array([[300.0, 0.0], [0.0, 9000.0]])
    length = np.array([120.0, 400.0])
    errors = []
    for width in (0.4, 0.2, 0.1):
        out = np.empty((ROWS, 2))
        box = (-1.0, -1.0 + width, 5.0, 5.0 + width)
        two_stage_models(y, length, np.arange(2, dtype=np.int32), np.ones(2, np.int64), True, 0.0, box, out)
        errors.append(out[ERROR])
    assert (errors[0] > 6.0 * errors[1]).all()
    assert (errors[1] > 6.0 * errors[2]).all()


def test_a_score_beyond_a_double_has_an_infinite_error() -> None:
    out = np.empty((ROWS, 1))
    box = (-1e-300, 0.0, -800.0, -740.0)
    every = np.zeros(1, np.int32)
    two_stage_models(np.zeros((1, 1)), np.ones(1), every, np.ones(1, np.int64), True, 0.0, box, out)
    assert out[ERROR, 0] == np.inf
    assert (out[:ERROR] == 0.0).all()
