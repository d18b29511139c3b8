"""What a number of topics can show: against the power's own integral, and against tests of drawn topics."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from lmtune.errors import InputError
from lmtune.measures.significance.tests import detectable_difference


def _power(topics: int, shift: float, level: float) -> float:
    """Integrate the chance that a normal value lies beyond a critical value in drawn standard deviations."""
    freedom = topics - 1
    critical = mpmath.mpf(float(stats.t.isf(level / 2.0, freedom)))
    half = mpmath.mpf(freedom) / 2

    def density(square: mpmath.mpf) -> mpmath.mpf:
        limit = critical * mpmath.sqrt(square / freedom)
        beyond = mpmath.ncdf(shift - limit) + mpmath.ncdf(-shift - limit)
        return square ** (half - 1) * mpmath.exp(-square / 2) / (2**half * mpmath.gamma(half)) * beyond

    knots = [0, 0.01, 0.1, 0.5, 1, freedom / 2 + 1, freedom + 2, 2 * freedom + 10, 4 * freedom + 50]
    return float(mpmath.quad(density, knots))


@pytest.mark.slow
@pytest.mark.parametrize("topics", [3, 4, 10, 50, 2000])
@pytest.mark.parametrize(("power", "level"), [(0.8, 0.05), (0.5, 0.01), (0.1, 0.05), (0.99, 0.05)])
def test_the_power_is_that_of_the_integral(topics: int, power: float, level: float) -> None:
    found = detectable_difference(0.25, topics, power=power, level=level)
    assert _power(topics, found / 0.25 * math.sqrt(topics), level) == pytest.approx(power, abs=1e-8)


def test_drawn_topics_show_it_as_often() -> None:
    rng = np.random.default_rng(0)
    least = detectable_difference(0.1, 12)
    drawn = rng.normal(least, 0.1, (20_000, 12))
    found = np.asarray(stats.ttest_1samp(drawn, 0.0, axis=1).pvalue) < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.01)


def test_no_deviation_shows_all() -> None:
    assert detectable_difference(0.0, 3) == 0.0


@pytest.mark.parametrize(
    ("deviation", "topics", "options"),
    [(-0.1, 9, {}), (math.nan, 9, {}), (0.1, 2, {}), (0.1, 9, {"power": 0.05}), (0.1, 9, {"level": 0.0})],
)
def test_bad_values_are_refused(deviation: float, topics: int, options: dict[str, float]) -> None:
    with pytest.raises(InputError):
        detectable_difference(deviation, topics, **options)
