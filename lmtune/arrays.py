"""Names of the kinds of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
