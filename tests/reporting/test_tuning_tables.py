"""The table against a result whose marks are known."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from scipy import stats

from lmtune.datasets.folds import Fold
from lmtune.errors import InputError
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.tests import paired_t_test
from lmtune.reporting.tuning_tables import parameter_table, tuning_table
from lmtune.tuning.experiment.result import DIRECT, OPTIMAL, RANKNET, CollectionResult, Fit, Row

TOPICS = tuple(str(t) for t in range(1, 9))
BASE = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
NOISE = np.array([0.01, 0.02, 0.01, 0.03, 0.01, 0.02, 0.01, 0.02])


def result(name: str) -> CollectionResult:
    """Make RankNet < Direct < Optimal for AP, each significantly; P@10 without differences."""
    values = {
        ("AP", RANKNET): BASE,
        ("AP", DIRECT): BASE + NOISE,
        ("AP", OPTIMAL): BASE + NOISE + NOISE[::-1],
        ("P@10", DIRECT): BASE,
        ("P@10", RANKNET): BASE[::-1],
        ("P@10", OPTIMAL): BASE,
    }
    rows = []
    for measure in ("AP", "P@10"):
        for method in (DIRECT, RANKNET, OPTIMAL):
            own = values[measure, method]
            p_values = {
                other: paired_t_test(own, values[measure, other])
                for other in (DIRECT, RANKNET)
                if other != method
            }
            fits = (Fit({"lambda": 0.5, "mu": 100.0}, 0.31, float(own.mean()), 522, ()),)
            rows.append(Row(parse_measure(measure), method, TOPICS, own, fits, p_values))
    return CollectionResult(name, (Fold(TOPICS, TOPICS),), tuple(rows), {}, ())


def test_plain_text_marks_what_is_significant() -> None:
    lines = tuning_table([result("one"), result("two")]).splitlines()
    assert lines[0].split() == ["Metric", "Estimate", "one", "two"]
    assert lines[1].split() == ["MAP", "Direct", ".4663‡", ".4663‡"]
    assert lines[2].split() == ["RankNet", ".4500", ".4500"]
    assert lines[3].split() == ["Optimal", ".4825†‡", ".4825†‡"]
    assert lines[4].split() == ["P@10", "Direct", ".4500", ".4500"]
    assert "†" in lines[-1]


def test_markdown_and_latex_mark_in_their_own_way() -> None:
    markdown = tuning_table([result("a_b")], "markdown").splitlines()
    assert markdown[2] == "| MAP | Direct | **.4663** |"
    assert markdown[4] == "| MAP | Optimal | **_.4825_** |"
    latex = tuning_table([result("a_b")], "latex")
    assert r"Metric & Estimate & a\_b \\" in latex
    assert r"MAP & Direct & \textbf{.4663} \\" in latex
    assert r" & Optimal & \textbf{\textit{.4825}} \\" in latex


def test_csv_and_json_hold_every_figure() -> None:
    rows = list(csv.DictReader(io.StringIO(tuning_table([result('a,"b"')], "csv"))))
    assert json.loads(tuning_table([result('a,"b"')], "json")) == [
        {
            "collection": row["collection"],
            "measure": row["measure"],
            "method": row["method"],
            "mean": float(row["mean"]),
            "topics": int(row["topics"]),
            "p_value_direct": float(row["p_value_direct"]) if row["p_value_direct"] else None,
            "p_value_ranknet": float(row["p_value_ranknet"]) if row["p_value_ranknet"] else None,
            "beats_direct": row["beats_direct"] == "True",
            "beats_ranknet": row["beats_ranknet"] == "True",
            "evaluations": int(row["evaluations"]),
        }
        for row in rows
    ]
    assert {row["collection"] for row in rows} == {'a,"b"'}
    optimal = next(row for row in rows if row["measure"] == "AP" and row["method"] == OPTIMAL)
    expected = stats.ttest_rel(BASE + NOISE + NOISE[::-1], BASE + NOISE).pvalue
    assert float(optimal["p_value_direct"]) == pytest.approx(expected, rel=1e-10)


def test_parameters_name_each_row_once() -> None:
    lines = parameter_table([result("one")]).text().splitlines()
    assert len(lines) == 7
    assert lines[1].split()[:7] == ["one", "MAP", "Direct", "1", "0.5000", "100.00", "0.3100"]


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(InputError, match="markdown"):
        tuning_table([result("one")], "html")
