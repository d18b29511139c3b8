from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from lmtune.errors import InputError
from lmtune.measures.from_files import Evaluation, EvaluationOptions, evaluations, run_names
from lmtune.report.run_tables import run_table


@pytest.fixture
def runs(tmp_path: Path) -> list[Evaluation]:
    (tmp_path / "qrels").write_text("1 0 a 1\n1 0 b 0\n2 0 a 1\n")
    (tmp_path / "first").write_text("1 Q0 a 1 2 one_1\n2 Q0 b 1 2 one_1\n2 Q0 a 2 1 one_1\n")
    (tmp_path / "second").write_text("1 Q0 b 1 2 t|wo\n1 Q0 a 2 1 t|wo\n")
    files = [tmp_path / "first", tmp_path / "second"]
    whole = EvaluationOptions(complete=True)
    return list(evaluations(tmp_path / "qrels", files, ["runid", "map", "num_ret", "AP@1"], settings=whole))


def test_measures_down_and_runs_across(runs: list[Evaluation]) -> None:
    assert run_table(runs, "table") == (
        "measure   one_1    t|wo\nnum_ret       3       2\nmap      0.7500  0.2500\nAP@1     0.5000  0.0000\n"
    )


def test_more_runs_than_measures_go_down(runs: list[Evaluation]) -> None:
    one = [replace(run, columns=run.columns[2:3]) for run in runs]
    assert run_table(one, "table") == "run       map\none_1  0.7500\nt|wo   0.2500\n"


def test_markdown_and_latex_escape_names(runs: list[Evaluation]) -> None:
    markdown = run_table(runs, "markdown").splitlines()
    assert markdown[:4] == [
        r"| measure | one_1 | t\|wo |",
        "| --- | ---: | ---: |",
        "| num_ret | 3 | 2 |",
        "| map | 0.7500 | 0.2500 |",
    ]
    latex = run_table(runs, "latex").splitlines()
    assert latex[3:6] == [r"\begin{tabular}{lrr}", r"\toprule", r"measure & one\_1 & t$|$wo \\"]
    assert r"num\_ret & 3 & 2 \\" in latex
    assert latex[-2] == r"\end{tabular}"


def test_each_topic(runs: list[Evaluation]) -> None:
    lines = [line.split() for line in run_table(runs, "table", per_topic=True).splitlines()]
    assert lines[0] == ["measure", "topic", "one_1", "t|wo"]
    assert ["map", "1", "1.0000", "0.5000"] in lines
    # The second run has no topic 2: nothing stands there.
    assert ["map", "2", "0.5000"] in lines
    assert lines[-1] == ["AP@1", "all", "0.5000", "0.0000"]
    topics = [line[1] for line in lines[1:]]
    assert topics == sorted(topics)


def test_csv_and_json_keep_full_precision(runs: list[Evaluation]) -> None:
    rows = list(csv.DictReader(io.StringIO(run_table(runs, "csv", per_topic=True))))
    assert {tuple(row)[:1] for row in rows} == {("run",)}
    found = {(r["run"], r["measure"], r["topic"]): r["value"] for r in rows}
    assert found["one_1", "map", "all"] == "0.75"
    assert found["t|wo", "map", "1"] == "0.5"
    assert ("t|wo", "map", "2") not in found
    records = json.loads(run_table(runs, "json", per_topic=True))
    assert [record["run"] for record in records] == ["one_1", "t|wo"]
    assert records[0]["all"]["map"] == 0.75
    assert records[1]["topics"] == {"1": {"map": 0.5, "num_ret": 2, "AP@1": 0.0}}
    assert "topics" not in json.loads(run_table(runs, "json"))[0]
    assert "all" not in json.loads(run_table(runs, "json", summary=False))[0]


def test_runs_of_one_tag_are_named_by_file(runs: list[Evaluation]) -> None:
    same = [replace(run, tag="x") for run in runs]
    assert run_names(same) == ["first", "second"]
    assert run_names([same[0], same[0]]) == [same[0].file] * 2


def test_unknown_style(runs: list[Evaluation]) -> None:
    with pytest.raises(InputError, match="'html'; accepted: table, markdown, latex, csv, json"):
        run_table(runs, "html")
