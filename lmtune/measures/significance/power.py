"""What difference a number of topics can show."""

from __future__ import annotations

import math

from lmtune.errors import InputError, check_least
from lmtune.measures.significance.tests import FEWEST

POWER, LEVEL = 0.8, 0.05


def detectable_difference(
    deviation: float, topics: int, *, power: float = POWER, level: float = LEVEL
) -> float:
    """Return the mean difference that a two-sided paired t-test finds with a given probability.

    Parameters
    ----------
    deviation : float
        The standard deviation of topics' differences, 0 or more.
    topics : int
        `lmtune.measures.significance.tests.FEWEST` or more.
    power : float
        The probability, between the level and 1; smaller differences are missed more often.
    level : float
        Of the test, between 0 and 1.

    Returns
    -------
    float
        In the unit of the deviation, from the noncentral t distribution of normal differences (J. Cohen,
        Statistical Power Analysis for the Behavioral Sciences, 1988, chapter 2).

    Raises
    ------
    InputError
        For a value outside its domain.

    Examples
    --------
    >>> round(detectable_difference(0.1, 50), 4)
    0.0404
    """
    from scipy.optimize import brentq
    from scipy.special import nctdtr, stdtrit

    check_least("too few topics", topics, FEWEST)
    if not 0.0 <= deviation < math.inf:
        raise InputError("bad deviation", value=deviation, accepted="0 or more")
    if not 0.0 < level < power < 1.0:
        raise InputError("bad power or level", value=(power, level), accepted="0 < level < power < 1")
    critical = float(stdtrit(topics - 1, 1.0 - level / 2.0))

    def missed(shift: float) -> float:
        below = float(nctdtr(topics - 1, shift, -critical))
        # Far out it has no weight and is not computed.
        below = 0.0 if math.isnan(below) else below
        return float(nctdtr(topics - 1, shift, critical)) - below - (1.0 - power)

    far = critical
    while missed(far) > 0.0:
        far *= 1.5
    shift = float(brentq(missed, 0.0, far, xtol=1e-10))
    return shift * deviation / math.sqrt(topics)
