"""Data of the experiments by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.datasets import load_pool, load_split, short_name, usable_topics
from lmtune.errors import InputError


def test_topics_are_drawn_by_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    every = usable_topics("synthetic:1000x20")
    some = load_pool("synthetic:1000x20", topics=5, seed=1).topics
    assert len(some) == 5
    assert [topic for topic in every if topic in some] == list(some)
    assert load_pool("synthetic:1000x20", topics=5, seed=2).topics != some


def test_short_names() -> None:
    assert short_name("irds:a/b") == "irds:a/b"
    assert short_name("a/b/") == "b"


@pytest.mark.slow
def test_artificial_names() -> None:
    assert load_split("artificial:10x7").train.lengths.tolist() == [7] * 10
    assert load_split("artificial:10").test.lengths.tolist() == [50] * 10
    for name in ("artificial:0", "artificial:10x", "nowhere"):
        with pytest.raises(InputError):
            load_split(name)


def test_a_letor_folder_is_scaled_by_its_training_part(shared_data: Path) -> None:
    fold = load_split(str(shared_data / "ltr" / "mq2008"))
    varied = fold.train.features[:, np.ptp(fold.train.features, axis=0) > 0]
    np.testing.assert_allclose(varied.mean(axis=0, dtype=float), 0.0, atol=1e-4)
    np.testing.assert_allclose(varied.std(axis=0, dtype=float), 1.0, atol=1e-3)
