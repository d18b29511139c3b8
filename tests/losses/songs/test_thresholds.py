"""K-SONG's thresholds against SciPy's root finder, list by list."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.losses.songs.k_song import Slope, solve_thresholds  # noqa: E402


@pytest.mark.parametrize(
    ("lists", "items", "spread", "tau1", "tau2"),
    [
        (6, 120, 1.0, 0.5, 1e-4),
        (3, 1100, 5.0, 0.1, 1e-4),
        (5, 7, 1e6, 0.1, 1e-4),
        (4, 50, 1e-3, 0.1, 1e-2),
        (3, 1, 1.0, 0.5, 1e-4),
        (3, 30, 0.0, 0.1, 1e-4),
    ],
)
def test_roots(lists: int, items: int, spread: float, tau1: float, tau2: float) -> None:
    random = np.random.default_rng(items)
    scores = random.normal(scale=spread, size=(lists, items))
    weights = random.random(scores.shape) * (random.random(scores.shape) < 0.8)
    weights[0] = 0
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    target = (np.full((lists, 1), min(10, items)) + 0.5) / items
    unknown = torch.arange(lists)[:, None] != lists - 1
    tensors = {"scores": scores, "weights": weights, "target": target}
    slope = Slope(**{name: torch.from_numpy(own) for name, own in tensors.items()}, tau1=tau1, tau2=tau2)
    found = solve_thresholds(torch.full((lists, 1), 7.0).double(), unknown, slope).numpy()[:, 0]
    assert found[-1] == 7
    for one, score, weight, share in zip(found[:-1], scores, weights, target[:, 0], strict=False):

        def tilt(t: float, score=score, weight=weight, share=share) -> float:  # type: ignore[no-untyped-def]
            return float(share + tau2 * t - (weight * expit((score - t) / tau1)).sum())

        far = 2 * (np.abs(score).max() + 40 * tau1 + (1 + share) / tau2)
        wanted = brentq(tilt, -far, far, xtol=1e-14, rtol=1e-15, maxiter=500)
        # Where only tau2 bends, rounding alone moves the root by eps / tau2.
        assert one == pytest.approx(wanted, rel=1e-12, abs=4e-16 / tau2)
