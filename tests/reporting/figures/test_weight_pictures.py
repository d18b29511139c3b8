"""Weights of terms by feature: means and intervals over folds as scipy has them, and where they are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.datasets.folds import Fold
from lmtune.errors import InputError
from lmtune.measures.measure import parse_measure
from lmtune.models.model import find_model
from lmtune.reporting.figures import alt_text, draw, feature_weights
from lmtune.reporting.tuning_results import read_results, write_results
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.run import run_experiment


def table(folds: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {"method": m, "fold": f, "k1": 1.0, "theta_idf": rng.normal(), "theta_place": 0.0, "centre_x": 3.0}
        for m in ("Direct", "Approx")
        for f in range(folds)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("folds", [1, 2, 5])
def test_intervals_are_of_students_t_over_folds(folds: int) -> None:
    own = table(folds)
    figure = feature_weights(own)
    [ax] = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["idf", "place"]
    drawn: list[Any] = list(ax.containers)
    for container, method in zip(drawn, ("Direct", "Approx"), strict=True):
        part = own[own["method"].eq(method)]
        assert container.get_label() == method
        points, _, [bars] = container.lines
        values = part["theta_idf"]
        assert points.get_xdata()[0] == pytest.approx(values.mean())
        low, high = np.sort([x for x, _ in bars.get_segments()[0]])
        if folds > 1:
            half = stats.t.ppf(0.975, folds - 1) * values.std() / np.sqrt(folds)
            assert (low, high) == (pytest.approx(values.mean() - half), pytest.approx(values.mean() + half))
        else:
            assert low == high == values.iloc[0]
        assert f"{method}: idf {values.mean():+.2f}, place +0.00" in alt_text(figure)


def test_what_has_no_features_is_refused() -> None:
    with pytest.raises(InputError, match="no features"):
        feature_weights(table(2)[["method", "fold", "k1"]])


@pytest.mark.slow
def test_results_of_weights_have_the_pictures(tmp_path: Path) -> None:
    index, queries, qrels = random_collection(3, documents=120, topics=10, vocabulary=40)
    names = list(queries)
    folds = [Fold(tuple(names[5:]), tuple(names[:5])), Fold(tuple(names[:5]), tuple(names[5:]))]
    drawn: dict[str, list[str]] = {}
    for model in ("bm25+weights:idf,place", "bm25"):
        pool = CandidatePool.build(index, queries, qrels, model=model)
        settings: dict[str, Any] = {"model": model, "starts": 1, "restarts": 1, "approx": False}
        plan = Plan((parse_measure("AP"),), baseline=find_model(model).default, **settings)
        result = run_experiment(pool, folds, plan)
        record = {"command": "", "versions": {}, "plan": {"model": model}, "collections": [{}], "notes": {}}
        write_results(tmp_path / "kept", [result], [pool], record)
        drawn[model] = [own.name for own in draw(tmp_path / "kept", read_results(tmp_path / "kept").results)]
    assert {"tiny-AP-features", "tiny-AP-gains", "tiny-AP-topics"} <= set(drawn["bm25+weights:idf,place"])
    assert "tiny-AP-features" not in drawn["bm25"]
    assert drawn["bm25"][:2] == ["tiny-answer", "tiny-AP-gains"]
