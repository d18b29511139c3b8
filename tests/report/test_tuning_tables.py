"""The table against a result whose marks are known."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from lmtune.collections.folds import Fold
from lmtune.measures.measure import parse_measure
from lmtune.report.tuning_tables import final_tables, parameter_table, tuning_table
from lmtune.tuning.experiment.result import (
    DEFAULT,
    DIRECT,
    EDGE,
    OPTIMAL,
    RANKNET,
    SAMPLED_NEGATIVES,
    CollectionResult,
    Fit,
    Row,
)

TOPICS = tuple(str(t) for t in range(1, 9))
BASE = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
NOISE = np.array([0.01, 0.02, 0.01, 0.03, 0.01, 0.02, 0.01, 0.02])


def result(name: str) -> CollectionResult:
    """Make RankNet < Default < Direct < Optimal for AP, each significantly; P@10 without differences."""
    values = {
        ("AP", DEFAULT): BASE,
        ("AP", DIRECT): BASE + NOISE,
        ("AP", RANKNET): BASE - NOISE[::-1],
        ("AP", OPTIMAL): BASE + NOISE + NOISE[::-1],
        ("P@10", DEFAULT): BASE,
        ("P@10", DIRECT): BASE[::-1],
        ("P@10", RANKNET): BASE,
        ("P@10", OPTIMAL): BASE,
    }
    rows = []
    for (measure, method), own in values.items():
        fits = (Fit({"lambda": 0.5, "mu": 100.0}, 0.31, float(own.mean()), 522, ()),)
        rows.append(Row(parse_measure(measure), method, TOPICS, own, fits))
    return CollectionResult(name, (Fold(TOPICS, TOPICS),), tuple(rows), {}, ())


def test_plain_text_marks_what_is_significant() -> None:
    lines = tuning_table([result("one"), result("two")]).splitlines()
    low, high = stats.ttest_rel(BASE + NOISE, BASE).confidence_interval(0.95)
    difference = f"  Difference    +0.0163, 95% CI [{low:+.4f}, {high:+.4f}], p < 0.001 (paired t-test)"
    assert lines[:5] == [
        "one: two-stage, 8 training topics, 8 test topics",
        "",
        "  Recommended   Direct",
        "  MAP           0.4663; default (lambda = 0.5, mu = 100) 0.4500",
        difference,
    ]
    lines = lines[lines.index("Measure  Method   one      two") :]
    assert lines[1].split() == ["MAP", "Default", "0.4500", "0.4500"]
    assert lines[2].split() == ["Direct", "0.4663†", "0.4663†"]
    assert lines[3].split() == ["RankNet", "0.4338‡", "0.4338‡"]
    assert lines[4].split() == ["Optimal", "0.4825", "0.4825"]
    assert lines[5].split() == ["P@10", "Default", "0.4500", "0.4500"]
    assert lines[9].startswith("Optimal: tuned on the test topics")
    assert lines[10].startswith("† significantly better than Default, ‡ significantly worse (")
    assert lines[10].endswith("Direct first, then the others with Holm's correction)")
    assert len(lines) == 12


def test_markdown_and_latex_mark_in_their_own_way() -> None:
    markdown = tuning_table([result("a_b")], "markdown").splitlines()
    assert markdown[3] == "| MAP | Direct | 0.4663† |"
    assert markdown[4] == "| MAP | RankNet | 0.4338‡ |"
    assert markdown[5] == "| MAP | Optimal | 0.4825 |"
    latex = tuning_table([result("a_b")], "latex")
    assert r"Measure & Method & a\_b \\" in latex
    assert r" & Direct & 0.4663$^{\dagger}$ \\" in latex
    assert r" & RankNet & 0.4338$^{\ddagger}$ \\" in latex
    assert r" & Optimal & 0.4825 \\" in latex


def test_csv_and_json_hold_every_figure() -> None:
    rows = list(csv.DictReader(io.StringIO(tuning_table([result('a,"b"')], "csv"))))
    assert json.loads(tuning_table([result('a,"b"')], "json")) == [
        {
            "collection": row["collection"],
            "measure": row["measure"],
            "method": row["method"],
            "mean": float(row["mean"]),
            "topics": int(row["topics"]),
            "recommended": row["recommended"] == "True",
            **{
                name: float(row[name]) if row[name] else None
                for name in ("difference_default", "low_default", "high_default", "p_value_default")
            },
            "better": row["better"] == "True",
            "worse": row["worse"] == "True",
            "evaluations": int(row["evaluations"]),
            "bound": None,
            "cautions": [],
            "folds": [
                {
                    "params": {"lambda": float(row["lambda_fold1"]), "mu": float(row["mu_fold1"])},
                    "train_value": 0.31,
                    "test_value": float(row["mean"]),
                    "evaluations": 522,
                    "at_edge": [],
                    "bound": None,
                    "step": "",
                }
            ],
            "final": None,
            "setting": {"lambda": 0.5, "mu": 100.0} if row["method"] == DEFAULT else None,
        }
        for row in rows
    ]
    assert {row["lambda_final"] for row in rows} == {""}
    assert {row["collection"] for row in rows} == {'a,"b"'}
    by_method = {row["method"]: row for row in rows if row["measure"] == "AP"}
    expected = stats.ttest_rel(BASE + NOISE, BASE)
    names = ("p_value_default", "low_default", "high_default")
    found = [float(by_method[DIRECT][name]) for name in names]
    assert found == pytest.approx([expected.pvalue, *expected.confidence_interval(0.95)], rel=1e-10)
    assert by_method[OPTIMAL]["difference_default"] and not by_method[OPTIMAL]["p_value_default"]
    assert not by_method[DEFAULT]["difference_default"]


def test_parameters_name_each_row_once() -> None:
    lines = parameter_table([result("one")]).text().splitlines()
    assert len(lines) == 7  # without Default
    assert lines[1].split()[:7] == ["one", "MAP", "Direct", "1", "0.5000", "100.00", "0.3100"]


def cautious() -> list[CollectionResult]:
    """Make two collections: one as `result`, one of two folds with final fits and all cautions."""
    plain = result("plain")
    rows = []
    for row in plain.rows:
        edges = ("lambda = 0.95", "mu = 100000") if row.method == RANKNET else ()
        bound = 0.49994 if row.method == OPTIMAL else None
        fits = tuple(replace(row.fits[0], at_edge=own, bound=bound) for own in ((), edges))
        fitted = Fit({"lambda": 0.25, "mu": 7.0}, 0.32, row.mean, 9, ())
        final = None if row.method in (DEFAULT, OPTIMAL) else fitted
        if row.measure.kind == "P":
            continue
        marks = (SAMPLED_NEGATIVES, EDGE) if row.method == RANKNET else ()
        rows.append(replace(row, fits=fits, final=final, cautions=marks))
    folds = (Fold(TOPICS[4:], TOPICS[:4]), Fold(TOPICS[:4], TOPICS[4:]))
    return [plain, CollectionResult("odd_one", folds, tuple(rows), {}, ())]


def test_dashes_and_references_have_their_reason_below() -> None:
    lines = tuning_table(cautious()).splitlines()
    lines = lines[next(at for at, line in enumerate(lines) if line.startswith("Measure")) :]
    assert lines[3].split() == ["RankNet", "0.4338‡", "0.4338‡§¶"]
    assert [line.split()[-1] for line in lines[5:9]] == ["–"] * 4
    legend = "\n".join(lines[9:16])
    assert "– odd_one has no judged non-relevant documents" in legend
    assert "§ odd_one: unjudged documents sampled as negatives" in legend
    assert "of the range in fold 2 of odd_one (lambda = 0.95 and mu = 100000)" in legend
    assert "--ranknet-validation" in legend
    assert "Proven: no parameters exceed 0.5000 MAP on odd_one" in legend
    assert "§" not in tuning_table([result("one")])
    markdown = tuning_table(cautious(), "markdown")
    assert "| MAP | RankNet | 0.4338‡ | 0.4338‡§¶ |" in markdown
    assert "--ranknet-validation 0.2" in markdown
    latex = tuning_table(cautious(), "latex")
    assert r" & RankNet & 0.4338$^{\ddagger}$ & 0.4338$^{\ddagger\S\P}$ \\" in latex
    assert r"P@10 & Default & 0.4500 & -- \\" in latex
    assert r"$\P$ RankNet ended on the edge of the range in fold 2 of odd\_one" in latex
    assert r"Proven: no parameters exceed 0.5000 MAP on odd\_one." in latex
    assert latex.isascii()
    assert "0.8000  –" not in parameter_table(cautious()).text()


def test_records_know_what_the_table_knows() -> None:
    rows = list(csv.DictReader(io.StringIO(tuning_table(cautious(), "csv"))))
    content = json.loads(tuning_table(cautious(), "json"))
    assert [row["measure"] for row in rows if row["collection"] == "odd_one"] == ["AP"] * 4
    for row, record in zip(rows, content, strict=True):
        odd = row["collection"] == "odd_one"
        assert row["cautions"].split() == record["cautions"]
        assert float(row["mean"]) == record["mean"]
        assert (row["p_value_default"] == "") == (row["method"] in (DEFAULT, OPTIMAL))
        assert row["mu_fold2"] == ("100.0" if odd else "")
        assert row["mu_final"] == ("7.0" if odd and row["method"] not in (DEFAULT, OPTIMAL) else "")
        assert (record["final"] or {"params": {}})["params"].get("mu", "") == (7.0 if row["mu_final"] else "")
        assert len(record["folds"]) == 1 + odd
        proven = odd and row["method"] == OPTIMAL
        assert record["bound"] == (pytest.approx(0.49994) if proven else None)


def test_final_settings_stand_beside_the_estimate_of_their_quality() -> None:
    assert final_tables([result("one")]) == []
    [table] = final_tables(cautious()[1:])
    lines = table.text().splitlines()
    assert lines[0] == "Collection  Measure  Method   lambda    mu  all topics  held out"
    assert lines[1].split() == ["odd_one", "MAP", "Direct", "0.2500", "7.00", "0.3200", "0.4663"]
    assert lines[2].split() == ["RankNet", "0.2500", "7.00", "0.3200", "0.4338"]
    assert "fitted on all topics (8 of odd_one)" in lines[-2]
    assert "held out (2 folds)" in lines[-1]
    for style in ("table", "markdown", "latex"):
        assert "Final: fitted on all topics" in tuning_table(cautious()[1:], style)
