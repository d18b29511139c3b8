"""Small helpers for tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows as dictionaries by column."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
