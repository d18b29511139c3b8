"""The table of losses in its formats."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from support import read_answer

from lmtune.errors import InputError
from lmtune.measures.measure import exponential_ndcg
from lmtune.measures.significance.tests import confidence_interval
from lmtune.report.loss_tables import loss_table
from lmtune.report.table import STYLES
from lmtune.rerank.comparison import Outcome
from lmtune.rerank.reranker import reported_measures

MEASURES = reported_measures(exponential_ndcg(10))


def outcome(label: str, start: float, rates: tuple[float, ...] = (0.003,)) -> Outcome:
    """Make three trials of four queries, the last of them without relevant documents."""
    trials, measures = 0.01 * np.arange(3)[:, None, None], 0.1 * np.arange(len(MEASURES))
    values = start + trials + measures + np.array([-0.1, 0.0, 0.1])[:, None]
    return Outcome(label, rates, MEASURES, np.append(values, np.full((3, 1, 4), np.nan), axis=1))


OUTCOMES = [outcome("ranknet", 0.4), outcome("k-song:gamma=0.5", 0.45, ())]


def test_plain() -> None:
    _, answer = read_answer(loss_table(OUTCOMES))
    *lines, marks, tests, legend = loss_table(OUTCOMES).splitlines()[7:]
    assert answer["Recommended"] == "ranknet (learning rate 0.003)"  # the first: there is no test
    assert answer["nDCG@10 (gains 2^g - 1)"] == "k-song:gamma=0.5 0.7600; ranknet 0.7100"
    assert answer["Difference"] == "k-song:gamma=0.5 minus ranknet: +0.0500"
    half = f"{confidence_interval([0.4, 0.41, 0.42]).half:.4f}"
    names = [text for k in (1, 3, 5, 10) for text in (f"nDCG@{k}", "trials")]
    assert lines[0].split() == ["Empty", "queries", "System", *names, "rate"]
    assert lines[1].split()[:7] == ["left", "out", "a", "ranknet", "0.4100–", "±", f"{half}–"]
    assert lines[1].endswith("0.003")
    # A constant difference has no variance and so no test, over queries as over trials.
    assert lines[2].split()[:7] == ["left", "out", "b", "k-song:gamma=0.5", "0.4600–", "±", f"{half}–"]
    assert legend.endswith("; – no t-test of a difference without variance")
    assert [line.split()[:2] for line in lines[1:]] == [["left", "out"]] * 2 + [["count", "0"]] * 2
    assert "0.3075" in lines[3]
    assert "over queries" in marks and "over 1 pair," in tests
    assert len(loss_table(OUTCOMES, empty=["zero"]).splitlines()) == 13


def test_pairs_of_losses_are_tested_over_queries_and_over_trials() -> None:
    rng, pairs = np.random.default_rng(1), [(0, 1), (0, 2), (1, 2)]
    made = [
        Outcome(name, (0.1,), MEASURES, skill + rng.normal(0, 0.1, (5, 30, 4)))
        for name, skill in zip("xyz", np.linspace(0.4, 0.5, 3), strict=True)
    ]
    for one in made:
        one.queries[:, 7] = np.nan
    records = json.loads(loss_table(made, "json"))
    verdicts = []
    for convention in ("skip", "zero"):
        for m, measure in enumerate(map(str, MEASURES)):
            tables = [one.queries[:, :, m] for one in made]
            tables = [np.nan_to_num(t) if convention == "zero" else np.delete(t, 7, 1) for t in tables]
            own = [r for r in records if (r["empty"], r["measure"]) == (convention, measure)]
            for over, axis in (("queries", 0), ("trials", 1)):
                means = [table.mean(axis) for table in tables]
                p_values = np.array([stats.ttest_rel(means[a], means[b]).pvalue for a, b in pairs])
                order = np.argsort(p_values)
                adjusted = np.empty(3)
                adjusted[order] = np.minimum(1, np.maximum.accumulate(p_values[order] * [3, 2, 1]))
                for (a, b), p in zip(pairs, adjusted, strict=True):
                    assert own[a]["adjusted_p"][over]["xyz"[b]] == pytest.approx(p)
                    assert own[b]["adjusted_p"][over]["xyz"[a]] == pytest.approx(p)
                    better = bool(p < 0.05 and means[b].mean() > means[a].mean())
                    assert ("xyz"[a] in own[b]["better_than"][over]) == better
                    verdicts.append(better)
    assert set(verdicts) == {True, False}


def test_the_same_numbers_in_all_formats() -> None:
    records = json.loads(loss_table(OUTCOMES, "json"))
    assert len(records) == 2 * 2 * 4
    assert records[0]["mean"] == pytest.approx(0.41) and records[0]["learning_rates"] == [0.003]
    assert records[4]["learning_rates"] == []
    rows = list(csv.DictReader(io.StringIO(loss_table(OUTCOMES, "csv"))))
    assert [float(row["value"]) for row in rows[:3]] == records[0]["trials"]
    assert len(rows) == 3 * len(records)
    assert loss_table(OUTCOMES, "markdown").splitlines()[1].count("---:") == 9
    assert r"0.4600$^{–}$ & ±" in loss_table(OUTCOMES, "latex")
    assert {*STYLES} == {"table", "markdown", "latex", "csv", "json"}
    with pytest.raises(InputError, match="markdown"):
        loss_table(OUTCOMES, "html")


def test_two_trials_are_no_test_over_trials() -> None:
    rng = np.random.default_rng(3)
    draws = {name: rng.random((2, 30, 4)) / 9 + skill for name, skill in (("x", 0.0), ("y", 0.5))}
    made = [Outcome(name, (0.1,), MEASURES, values) for name, values in draws.items()]
    *lines, legend = loss_table(made, empty=["skip"]).splitlines()[7:]
    assert "–" in lines[2].split()[6] and "ᵃ" not in lines[2].split()[6]
    assert "ᵃ" in lines[2]
    assert "– 2 trials: a t-test needs 3" in legend
    [record] = [own for own in json.loads(loss_table(made, "json", empty=["skip"])) if own["loss"] == "y"][:1]
    assert record["better_than"]["trials"] == [] and record["adjusted_p"]["trials"] == {}


def test_one_trial_has_its_interval_over_queries() -> None:
    values = np.random.default_rng(2).random((1, 9, 4))
    values[0, 8] = np.nan
    one = Outcome("x", (0.1,), MEASURES, values)
    half = confidence_interval(values[0, :8, 0].tolist()).half
    header, row, legend = loss_table([one], empty=["skip"]).splitlines()
    assert legend == "gains 2^g - 1"
    assert header.split()[4] == "queries" and f"± {half:.4f}" in row
    assert json.loads(loss_table([one], "json", empty=["skip"]))[0]["half_width"] == pytest.approx(half)
    single = Outcome("x", (0.1,), MEASURES, values[:, :1])
    assert json.loads(loss_table([single], "json", empty=["skip"]))[0]["half_width"] is None
