"""Whether two systems' per-topic values differ by more than chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def paired_t_test(a: ArrayLike, b: ArrayLike) -> float:
    """Return the two-sided p-value of a paired t-test.

    Parameters
    ----------
    a, b : array_like of float, shape (topics,)
        Values of two systems on the same topics, at least two.

    Returns
    -------
    float
        In [0, 1]; 1 where the values are equal on every topic.

    Examples
    --------
    >>> round(paired_t_test([0.2, 0.4, 0.6], [0.1, 0.2, 0.5]), 4)
    0.0572
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    difference = a - b
    if difference.size < 2 or not difference.any():
        return 1.0
    spread = difference.std(ddof=1)
    if spread == 0.0:
        return 0.0
    # The regularised incomplete beta function is Student's tail; scipy.stats would take a second.
    from scipy.special import stdtr

    t = difference.mean() / (spread / np.sqrt(difference.size))
    return float(2.0 * stdtr(difference.size - 1, -abs(t)))
