"""What topics show, on a small collection: the pairs by hand, and shares of drawn samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from experiments.datasets import load_pool
from experiments.estimation.power import experiment, found_share
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.tests import detectable_difference

NAME = "synthetic:1000x40"


@pytest.mark.slow
def test_shares_are_those_of_scipys_test() -> None:
    differences = np.random.default_rng(0).exponential(0.1, 40)
    least = detectable_difference(float(differences.std(ddof=1)), 15)
    rng = np.random.default_rng(1)
    shifted = differences - differences.mean() + least
    drawn = np.array([shifted[rng.integers(40, size=15)] for _ in range(4000)])
    expected = (np.asarray(stats.ttest_1samp(drawn, 0.0, axis=1).pvalue) < 0.05).mean()
    assert found_share(differences, 15, least, np.random.default_rng(1)) == expected
    assert found_share(differences, 15, 0.0, np.random.default_rng(1)) < 0.15


@pytest.mark.slow
def test_pairs_are_of_settings_and_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = experiment(datasets=(NAME,), sizes=(10,), grid=(3, 4), topics=30)
    seen = found["seen"].set_index("pair")
    values = {}
    for model, setting in (("bm25", {"k1": 0.9, "b": 0.4}), ("two-stage", {"lambda": 0.0, "mu": 1000.0})):
        pool = load_pool(NAME, model=model, topics=30)
        values[model] = measure_settings(pool, setting, [parse_measure("AP")])[:, 0, 0]
    differences = values["bm25"] - values["two-stage"]
    row = seen.loc["bm25, two-stage: defaults"]
    assert row["difference"] == pytest.approx(differences.mean(), abs=1e-15)
    assert row["deviation"] == pytest.approx(differences.std(ddof=1), abs=1e-15)
    assert len(seen) == 7
    assert (seen["seen_from"] == [detectable_difference(own, 10) for own in seen["deviation"]]).all()
