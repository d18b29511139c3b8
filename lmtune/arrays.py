"""Type aliases of arrays by element type, for any shape."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]
Integers32 = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Booleans = NDArray[np.bool_]
