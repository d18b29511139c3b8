"""Means of a model's judgments corrected by people's: formulas, coverage, files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scripts import refusal, run_command
from statsmodels.api import OLS, add_constant

from lmtune.errors import InputError
from lmtune.measures.judges import powered_mean, powered_runs


def drawn(seed: int, few: int, many: int, error: float) -> tuple[NDArray[np.float64], ...]:
    rng = np.random.default_rng(seed)
    values = rng.beta(1.0, 2.0, few + many)
    model = 0.7 * values + 0.1 + error * rng.standard_normal(values.size)
    return values[:few], model[:few], model[few:]


def test_the_tuned_mean_is_what_a_regression_predicts_at_the_mean_of_all() -> None:
    human, model, elsewhere = drawn(1, 12, 80, 0.1)
    found = powered_mean(human, model, elsewhere)
    everywhere = np.concatenate((model, elsewhere))
    fitted = OLS(human, add_constant(model)).fit()
    predicted = fitted.get_prediction([[1.0, everywhere.mean()]])
    assert found.mean == pytest.approx(float(predicted.predicted_mean[0]), rel=1e-12)
    assert found.weight == pytest.approx(float(fitted.params[1]), rel=1e-12)
    drawn_too = found.weight**2 * everywhere.var(ddof=1) / everywhere.size
    assert found.error**2 == pytest.approx(float(predicted.se_mean[0]) ** 2 + drawn_too, rel=1e-12)


def test_weight_one_is_the_models_mean_with_its_error_taken_off() -> None:
    human, model, elsewhere = drawn(2, 9, 40, 0.2)
    found = powered_mean(human, model, elsewhere, tuned=False)
    everywhere = np.concatenate((model, elsewhere)).mean()
    assert found.mean == pytest.approx(everywhere + (human - model).mean(), rel=1e-12)
    assert found.weight == 1.0
    # A model that errs by a constant leaves nothing to correct but that.
    exact = powered_mean(human, human + 0.3, elsewhere + 0.3, tuned=False)
    assert exact.mean == pytest.approx(np.concatenate((human, elsewhere)).mean(), rel=1e-12)


@pytest.mark.parametrize("tuned", [True, False])
def test_intervals_hold_as_often_as_they_say(tuned: bool) -> None:
    rng = np.random.default_rng(3)
    values = rng.beta(1.0, 2.0, (4000, 90))
    model = 0.7 * values + 0.1 + 0.15 * rng.standard_normal(values.shape)
    low, high = powered_mean(values[:, :15], model[:, :15], model[:, 15:], tuned=tuned).interval()
    assert 0.93 < ((low <= 1.0 / 3.0) & (high >= 1.0 / 3.0)).mean() < 0.97
    assert (high - low).mean() < 0.8 * 2 * 2.145 * values[:, :15].std(axis=1, ddof=1).mean() / 15**0.5


@pytest.mark.parametrize("rare", [0.2, 0.5, 0.8])
def test_intervals_of_two_values_hold_from_20_topics_on(rare: float) -> None:
    rng = np.random.default_rng(5)
    values = (rng.random((4000, 120)) < rare).astype(float)
    model = np.where(rng.random(values.shape) < 0.1, 1.0 - values, values)
    low, high = powered_mean(values[:, :20], model[:, :20], model[:, 20:]).interval()
    known = ~np.isnan(low)
    assert known.mean() > 0.98
    assert 0.91 < ((low <= rare) & (high >= rare))[known].mean() < 0.97
    with pytest.raises(InputError, match="measure with two values: 19; accepted: 20 or more"):
        powered_mean(values[:, :19], model[:, :19], model[:, 19:])


def test_intervals_of_many_values_hold_from_8_topics_on() -> None:
    rng = np.random.default_rng(6)
    values = rng.beta(1.0, 2.0, (4000, 90))
    model = 0.7 * values + 0.1 + 0.15 * rng.standard_normal(values.shape)
    low, high = powered_mean(values[:, :8], model[:, :8], model[:, 8:]).interval()
    assert 0.92 < ((low <= 1.0 / 3.0) & (high >= 1.0 / 3.0)).mean() < 0.97
    with pytest.raises(InputError, match="with both kinds of judgments: 7; accepted: 8 or more"):
        powered_mean(values[:, :7], model[:, :7], model[:, 7:])


def test_equal_values_of_people_leave_no_interval() -> None:
    rng = np.random.default_rng(8)
    found = powered_mean(np.ones(25), np.ones(25), rng.integers(0, 2, 50))
    assert np.isnan([found.error, *found.interval()]).all()
    people = {str(t): {"a": 1, "b": 0} for t in range(25)}
    model = people | {str(t): {"a": t % 2, "b": 1} for t in range(25, 60)}
    run = {"r": {topic: {"a": 2.0, "b": 1.0} for topic in model}}
    result = powered_runs(people, model, run, "P@1")
    assert "no interval, because all human values are equal" in repr(result)
    [record] = result.to_frame().to_dict("records")
    assert record["people"] == 1.0
    assert np.isnan([record["low"], record["high"], record["people_error"]]).all()
    with pytest.raises(InputError, match=r"P@1 of r: too few topics .* for a measure with two"):
        powered_runs(dict(list(people.items())[:19]), model, run, "P@1")


def write(folder: Path) -> tuple[Path, Path, list[Path]]:
    rng = np.random.default_rng(4)
    gains = {(t, d): int(rng.random() < 0.3) for t in range(30) for d in range(12)}
    model = {pair: 1 - gain if rng.random() < 0.1 else gain for pair, gain in gains.items()}
    files = {"people.txt": [p for p in gains if p[0] < 11], "model.txt": list(gains)}
    for (name, pairs), own in zip(files.items(), (gains, model), strict=True):
        (folder / name).write_text("".join(f"{t} 0 d{d} {own[t, d]}\n" for t, d in pairs))
    for name in ("a", "b"):
        lines = [
            f"{t} Q0 d{d} 1 {2 * rng.random() + gains[t, d]} {name}\n" for t in range(30) for d in range(12)
        ]
        (folder / f"{name}.run").write_text("".join(lines))
    return folder / "people.txt", folder / "model.txt", [folder / "a.run", folder / "b.run"]


def test_runs_are_corrected_topic_by_topic(tmp_path: Path) -> None:
    people, model, runs = write(tmp_path)
    given = (people, runs[0], runs[1], "--predicted", model, "-m AP")
    means = json.loads(run_command("evaluate --format json", *given).out)
    assert [row["run"] for row in means] == ["a", "b"]
    below = powered_runs(people, model, runs, "AP", subtract=True)
    [difference] = below.to_frame().to_dict("records")
    assert difference["baseline"] == "a"
    assert repr(below).strip() in run_command("compare", *given).out
    refusal("compare --format json", *given)
    # With differences, each run's weight is the difference's own.
    assert difference["people"] == pytest.approx(means[1]["people"] - means[0]["people"], abs=1e-12)
    assert difference["model"] == pytest.approx(means[1]["model"] - means[0]["model"], abs=1e-12)
    for row in means:
        assert row["low"] < row["corrected"] < row["high"]
    result = powered_runs(people, model, dict(zip("ab", runs, strict=True)), "AP")
    assert [row.corrected.mean for row in result.rows] == [row["corrected"] for row in means]


def test_topics_that_both_judged_are_needed(tmp_path: Path) -> None:
    people, model, runs = write(tmp_path)
    with pytest.raises(InputError, match="too few topics to correct predicted judgments"):
        powered_runs(model, people, runs, "AP")
    with pytest.raises(InputError, match="too few topics with both kinds of judgments"):
        powered_mean([0.1, 0.2], [0.1, 0.2], [0.3])
    assert "human only" in repr(powered_runs(people, model, runs, "AP"))
    error = refusal("evaluate", people, runs[0], "--predicted", model, "--depth 5")
    assert error.startswith("lmtune: an option conflicts with --predicted")
