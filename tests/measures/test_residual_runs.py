"""Bounds of runs: of their means, as frames, and what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.measures.from_files import EvaluationOptions, evaluate
from lmtune.measures.residual_runs import difference_bounds, residuals, run_residuals

QRELS = {"1": {"a": 2, "b": 0, "z": 1}, "2": {"a": 1}, "3": {"c": 1}}
RUN = {"1": {"x": 3.0, "a": 2.0, "y": 1.0}, "2": {"y": 2.0, "a": 1.0}, "9": {"a": 1.0}}
OTHER = {"1": {"y": 3.0, "b": 2.0}, "2": {"a": 2.0, "w": 1.0}, "3": {"v": 1.0}}
COMPLETE = EvaluationOptions(complete=True)


def means(measure: str, run: dict[str, dict[str, float]]) -> list[float]:
    """Evaluate under every way to judge what a run or the other one ranks."""
    unjudged = [("1", "x"), ("1", "y"), ("2", "y"), ("2", "w"), ("3", "v")]
    found = []
    for gains in product(range(3), repeat=len(unjudged)):
        judged = {topic: dict(own) for topic, own in QRELS.items()}
        for (topic, docno), gain in zip(unjudged, gains, strict=True):
            judged[topic][docno] = gain
        found.append(evaluate(judged, {"one": run}, [measure], settings=COMPLETE).to_numpy()[0, 0])
    return found


@pytest.mark.parametrize("measure", ["P@2", "nDCG@2", "R@1", "RR"])
def test_means_are_bounded_exactly(measure: str) -> None:
    one, other = np.array(means(measure, RUN)), np.array(means(measure, OTHER))
    frame = residuals(QRELS, {"one": RUN}, measure, settings=COMPLETE)
    own = frame.to_dict("index")["one", measure]
    assert own["value"] == evaluate(QRELS, {"one": RUN}, [measure], settings=COMPLETE).iloc[0, 0]
    # Documents of the other run alone move this run's measures too, but for those of its own documents.
    if measure in ("P@2", "RR"):
        assert (own["lowest"], own["highest"]) == pytest.approx((one.min(), one.max()), abs=1e-12)
    found = difference_bounds(QRELS, {"one": RUN, "two": OTHER}, [("one", "two")], measure, COMPLETE)
    assert found["one", "two"][0] == pytest.approx([(one - other).min(), (one - other).max()], abs=1e-12)


def test_a_frame_and_its_topics() -> None:
    frame = residuals(QRELS, {"one": RUN, "two": OTHER}, ["AP", "Bpref(rel=2)"])
    assert list(frame.columns) == ["value", "lowest", "highest", "judged@10"]
    assert frame.index.to_list() == [(r, m) for r in ("one", "two") for m in ("AP", "Bpref(rel=2)")]
    assert frame["judged@10"].to_list()[:2] == pytest.approx([(1 / 3 + 1 / 2) / 2] * 2)
    (found,) = run_residuals(QRELS, {"one": RUN}, "P@2", settings=COMPLETE)
    topics = found.to_frame(per_topic=True)
    assert topics.topic.to_list() == ["1", "2", "3"]
    assert topics[["value", "lowest", "highest"]].to_numpy().tolist() == [
        [0.5, 0.5, 1.0],
        [0.5, 0.5, 1],
        [0, 0, 0],
    ]
    assert "judged@10" in repr(found)


def test_the_depth_counts() -> None:
    found = residuals(QRELS, {"one": RUN}, "R@5", settings=EvaluationOptions(depth=1))
    assert found.to_numpy()[0].tolist() == pytest.approx([0.0, 0.0, (1 / 3 + 1 / 2) / 2, 0.0])


@pytest.mark.parametrize("settings", [EvaluationOptions(judged_only=True), EvaluationOptions(level=2)])
def test_settings_that_leave_no_bounds_are_refused(settings: EvaluationOptions) -> None:
    with pytest.raises(InputError, match="bounds"):
        residuals(QRELS, {"one": RUN}, "AP", settings=settings)
