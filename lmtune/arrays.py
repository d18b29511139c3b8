"""Type aliases of arrays by element type, for any shape, and of tables by column."""

from __future__ import annotations

from collections.abc import Iterable
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

Columns = dict[str, NDArray[Any]]
"""A table: arrays of one length, by the name of the column."""


def stack(columns: Columns, names: Iterable[str]) -> Doubles:
    """Return columns of numbers side by side, shape (rows, names)."""
    return np.column_stack([columns[name] for name in names]).astype(np.float64)
