"""Fixtures that several rooms' tests share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Give the folder of real collections beside the checkout, or skip with the reason."""
    folder = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("real collections are not here: no ../shared/data beside the checkout")
    return folder
