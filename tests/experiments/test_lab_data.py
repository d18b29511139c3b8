"""Data by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.data import digest, load_split
from lmtune.errors import InputError


@pytest.mark.slow
def test_artificial_names() -> None:
    fold = load_split("artificial:4x20", 2)
    assert (len(fold.train.queries), fold.train.labels.size) == (4, 80)
    assert load_split("artificial:4x20", 2) is fold
    assert load_split("artificial:4", 2).train.labels.size == 200


def test_a_letor_folder_is_scaled_by_its_training_part(shared_data: Path) -> None:
    fold = load_split(str(shared_data / "ltr" / "mq2008"))
    assert fold.name == "Fold1"
    varied = fold.train.features[:, np.ptp(fold.train.features, axis=0) > 0]
    np.testing.assert_allclose(varied.mean(axis=0, dtype=float), 0.0, atol=1e-4)
    np.testing.assert_allclose(varied.std(axis=0, dtype=float), 1.0, atol=1e-3)


@pytest.mark.parametrize("name", ["artificial", "artificial:0", "artificial:5x", "nowhere"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(InputError, match=f"{name}: no such folder"):
        load_split(name)


def test_digests_know_names_and_content_but_no_hidden_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    first = digest(str(tmp_path))
    (tmp_path / ".cache").write_text("2")
    assert digest(str(tmp_path)) == first
    (tmp_path / "a").rename(tmp_path / "b")
    second = digest(str(tmp_path))
    (tmp_path / "b").write_text("3")
    assert len({first, second, digest(str(tmp_path))}) == 3
    assert digest(str(tmp_path)) == digest(str(tmp_path / "b"))
