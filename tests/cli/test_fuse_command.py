"""``lmtune fuse`` end to end."""

from __future__ import annotations

import csv
import io
import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from one_p_value import p_values_by_difference
from scripts import refusal, run_command
from support import read_answer

from lmtune.io.runs import read_run
from lmtune.measures.from_files import topic_values
from lmtune.report.comparison_tables import p_value_text

TOPICS = range(1, 11)


fused = partial(run_command, "fuse")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    for name, topics in (("", TOPICS), ("new-", range(21, 25))):
        qrels = "".join(f"{t} 0 d{t}-{i} {int(i < 4)}\n" for t in topics for i in range(20))
        (tmp_path / f"{name}qrels.txt").write_text(qrels)
        for run, skill in (("a", 0.5), ("b", 1.0), ("c", 0.2)):
            lines = []
            for t in topics:
                scores = rng.normal(0, 1, 20) + skill * (np.arange(20) < 4)
                lines += [f"{t} Q0 d{t}-{i} 1 {scores[i]:.6f} tag\n" for i in range(20)]
            (tmp_path / f"{name}{run}.run").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_weights_are_chosen_written_and_taken_to_other_topics(home: Path) -> None:
    files = ("qrels.txt", "a.run", "b.run", "c.run")
    arguments = (*files, "-m", "AP", "-m", "nDCG@5", "--method", "linear,rrf-tuned,combmnz", "--folds", "2")
    out, err = fused(*arguments, "--format json --output fused.run.gz")
    (home / "results.json").write_text(out)
    found = json.loads(out)
    methods = [row["method"] for row in found["rows"]]
    assert methods == 2 * ["single", "single", "single", "linear", "rrf-tuned", "rrf", "combmnz"]
    linear = found["rows"][3]
    [used] = [row for row in found["rows"] if row["recommended"] and row["measure"] == "AP"]
    how = (
        f"fused by {used['method']}"
        if used["method"] != "single"
        else f"a copy of {next(iter(used['weights']))}"
    )
    assert f"wrote 10 topics to fused.run.gz, {how}" in err
    assert found["output"]["weights"] == dict.fromkeys("abc", 0.0) | used["weights"]
    assert linear["weights"].keys() == linear["flat"].keys() == linear["interval"].keys() == {"a", "b", "c"}
    values = topic_values("qrels.txt", "fused.run.gz", "map").to_numpy()
    assert values.mean() == pytest.approx(used["in_sample"], abs=1e-12)
    assert found["options"]["method"] == ["linear", "rrf-tuned", "combmnz"]

    err = fused("--from results.json new-b.run new-a.run new-c.run --output n.run").err
    assert "matched by order: new-b for a, new-a for b" in err
    assert set(read_run("n.run")) == {"21", "22", "23", "24"}
    given = ("--from", "results.json", "b.run", "a.run", "c.run", "--measure", "AP", "--output", "no.run")
    assert "options of tuning conflict with --from" in fused(*given, status=2).err
    fused("--from results.json b.run a.run c.run --output again.run")
    assert read_run("again.run") == read_run("fused.run.gz")


@pytest.mark.first_case
@pytest.mark.parametrize("runs", [("a.run", "b.run"), ("a.run", "c.run"), ("b.run", "c.run")])
@pytest.mark.parametrize(
    "more", [(), ("--normalise", "logistic"), pytest.param(("--normalise", "choose"), marks=pytest.mark.slow)]
)
def test_the_answer_the_run_and_the_file_agree(runs: tuple[str, str], more: tuple[str, ...]) -> None:
    """Also where a single run is best, which was a KeyError with fitted normalisations."""
    given = ("qrels.txt", *runs, "-m", "AP", "--folds", "2", *more)
    given += ("--method", "shrunk,equal,combmnz,rrf")
    out, err = fused(*given, "--output fused.run")
    lines = read_answer(out)[1]
    answer = lines["Recommended"]
    text = fused(*given, "--format json").out
    Path("fused.json").write_text(text)
    found = json.loads(text)
    [row] = [row for row in found["rows"] if row["recommended"]]
    singles = [own for own in found["rows"] if own["method"] == "single"]
    best = max(singles, key=lambda own: own["held_out"])
    shrunk = next(own for own in found["rows"] if own["method"] == "shrunk")
    is_better = (shrunk["p_best_single"] or 1.0) < 0.05 and shrunk["held_out"] > best["held_out"]
    assert row is (shrunk if is_better else best)
    p_values = p_values_by_difference(found)
    assert len(p_values) == 9 and all(len(known) == 1 for known in p_values.values())
    if shrunk["p_best_single"] is not None:
        assert f", {p_value_text(shrunk['p_best_single'])} (paired t-test)" in lines["Difference"]
    assert found["output"]["method"] == row["method"]
    single = next(iter(row["weights"])) if row["method"] == "single" else None
    assert answer.startswith(f"{single} alone" if single else row["method"])
    assert (f"a copy of {single}" if single else f"fused by {row['method']}") in err
    written = topic_values("qrels.txt", "fused.run", "map").to_numpy().mean()
    assert written == pytest.approx(row["in_sample"], abs=1e-12)
    fused("--from fused.json", *runs, "--output again.run")
    assert read_run("again.run") == read_run("fused.run")
    run_command("check-run fused.run fused.json qrels.txt", *runs)
    out, err = run_command("deploy fused.json --to opensearch --method rrf")
    assert "rrf: reciprocal ranks, k = 60" in out
    err = run_command("deploy fused.json --to opensearch --method nothing", status=2).err
    assert "no fusion with this measure and method: 'nothing'" in err
    if single:
        err = run_command("deploy fused.json --to opensearch", status=2).err
        assert "a single run is recommended" in err


def test_a_run_of_one_document_a_topic_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The relevant document is the lexical run's only one, and the dense run's last of seven."""
    monkeypatch.chdir(tmp_path)
    Path("q").write_text("".join(f"{t} 0 code{t} 1\n{t} 0 n{t}_0 0\n" for t in TOPICS))
    Path("lex").write_text("".join(f"{t} Q0 code{t} 1 {12.5 + t} lex\n" for t in TOPICS))
    dense = [(f"n{t}_{n}", t, 0.9 - n / 100) for t in TOPICS for n in range(6)]
    dense += [(f"code{t}", t, 0.8) for t in TOPICS]
    Path("den").write_text("".join(f"{t} Q0 {docno} 1 {score} den\n" for docno, t, score in dense))
    out = fused("q lex den -m RR@10 --method linear,equal --folds 2").out
    rows = [line.split() for line in out.splitlines() if line.startswith("MRR@10 ")]
    means = {row[1]: row[3] for row in rows[:4]}
    assert (means["lex"], means["den"]) == ("1.0000", "0.1429")
    # Of the equal sum the single document has 1 + 0, the dense run's first 0 + 1: a tie, the docno decides.
    assert (means["linear"], means["equal"]) == ("1.0000", "0.5000")
    assert "Judged@10: 1.0000 (lex)" in out


def test_the_only_method_asked_for_is_written() -> None:
    assert "fused by equal" in fused("qrels.txt b.run c.run --method equal --output fused.run").err


def test_weights_that_are_given_are_measured_and_written() -> None:
    Path("more").mkdir()
    Path("more/a.run").write_bytes(Path("c.run").read_bytes())
    files = ("qrels.txt", "b.run", "a.run", "more/a.run")
    given = ("--weights", "more/a.run=0.5,b.run=2,a.run=0.25", "-m", "AP")
    assert "each of b, " in refusal("fuse", *files, *given, "--output fused.run")  # a.run may be either
    Path("more/a.run").rename("more/c2.run")
    given = ("--weights", "c2=0.5,b.run=2,a=0.25", "-m", "AP")
    out = fused(*files[:3], "more/c2.run", *given, "--format json --output fused.run").out
    found = json.loads(out)
    assert [row["method"] for row in found["rows"]] == ["single", "single", "single", "linear", "rrf"]
    assert found["output"]["weights"] == {"b": 2.0, "a": 0.25, "c2": 0.5}
    assert found["folds"] == "weights as given" and found["rows"][3]["held_out"] is None
    values = topic_values("qrels.txt", "fused.run", "map").to_numpy()
    assert values.mean() == pytest.approx(found["rows"][3]["in_sample"], abs=1e-12)
    assert "weights as given" in fused(*files[:3], "--weights a=1,b=0").out


def test_tables() -> None:
    arguments = ("qrels.txt", "a.run", "b.run", "-m", "AP", "--method", "linear,borda")
    out = fused(*arguments).out
    title, answer = read_answer(out)
    assert title.startswith("2 runs, ") and "Verdict" in answer
    header = next(line for line in out.splitlines() if line.startswith("Measure"))
    assert header.split() == ["Measure", "Method", "In", "sample", "Held", "out", "At", "most", "a", "b"]
    assert "5-fold cross-validation" in out
    assert "Scores: min-max, missing documents get the topic's minimum; " in out
    out = fused(*arguments, "--in-sample --normalise z-score --missing zero --plot p").out
    assert "Held out" not in out and "Recommended" not in out
    assert "Scores: z-score, missing documents get 0;" in out
    out, err = fused(*arguments, "--format csv --plot pictures")
    assert {path.name for path in Path("pictures").iterdir()} == {"AP-linear-weights.svg", "formulas.txt"}
    assert "drew 1 picture in pictures" in err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["method"] for row in rows] == ["single", "single", "linear", "rrf", "borda"]
    assert float(rows[2]["in_sample"]) == pytest.approx(float(rows[2]["bound"]), abs=1e-9)
    assert "missing documents get the topic's minimum" in err
    for style in ("markdown", "latex"):
        fused(*arguments, "--format", style)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("qrels.txt a.run", "two runs or more"),
        ("qrels.txt a.run ./a.run", "given twice"),
        ("qrels.txt a.run b.run --method no", "linear"),
        ("qrels.txt a.run b.run --normalise no", "min-max"),
        ("qrels.txt a.run b.run -m ERR@10", "no exact line search"),
        ("qrels.txt a.run new-b.run", "no topic in common"),
        ("new-qrels.txt a.run b.run", "no topic of the runs has relevant documents"),
        ("qrels.txt a.run b.run --output a.run", "would replace what the command reads"),
        ("qrels.txt a.run b.run --folds 99", "2 to 10"),
        ("qrels.txt a.run b.run --plot a.run", "a.run"),
        ("--from qrels.txt a.run b.run --output o.run", "qrels.txt"),
        ("--from r.json a.run b.run --output o.run", "not a fusion"),
        ("--from r.json a.run b.run", "--output RUN"),
        ("--from r.json a.run b.run --output o.run --plot p", "--plot conflicts with --from"),
        ("qrels.txt a.run b.run --weights a=1", "each of a, b"),
        ("qrels.txt a.run b.run --weights a=1,b=1 --normalise choose", "options of tuning conflict with"),
        ("qrels.txt a.run b.run --weights a=1,b=1 --window 3,5", "options of tuning conflict with --weights"),
        ("qrels.txt a.run b.run --leave-out z", "some of a, b"),
        ("qrels.txt a.run b.run --leave-out a,b", "some of a, b"),
        ("qrels.txt a.run b.run --weights a=1,c=2", "each of a, b"),
        ("qrels.txt a.run b.run --weights a=1,b=x", "a number"),
        ("qrels.txt a.run b.run --weights a=1,b=-1", "numbers from 0"),
        ("qrels.txt a.run b.run --weights a=0,b=0", "not all 0"),
        ("qrels.txt a.run b.run --weights a=1,a=2", "each RUN=X once"),
        ("qrels.txt a.run b.run --weights a=1,b=2 --folds 3", "options of tuning conflict with --weights"),
        ("qrels.txt a.run b.run --engine solr", "unknown --engine"),
        ("qrels.txt a.run b.run --engine qdrant --method rrf", "--method conflicts with --engine"),
        ("qrels.txt a.run b.run --engine qdrant --normalise sum", "--normalise conflicts with --engine"),
        ("qrels.txt a.run b.run --engine qdrant --plot p", "--plot conflicts with --engine"),
        ("qrels.txt a.run b.run --engine qdrant --weights a=1,b=2", "options of tuning conflict"),
        ("qrels.txt a.run b.run c.run --engine weaviate", "fuses two queries"),
        ("other.txt a.run b.run", "no run retrieves a relevant document"),
    ],
)
def test_bad_input_is_one_line(home: Path, line: str, words: str) -> None:
    (home / "r.json").write_text('{"output": {"method": "no", "weights": {}}, "options": {}}')
    (home / "other.txt").write_text("1 0 none 1\n")
    before = sorted(home.iterdir())
    assert words in refusal("fuse", *line.split())
    assert sorted(home.iterdir()) == before


BEYOND = 10**400
KEPT = {"normalise": "min-max", "missing": "minimum", "rrf_k": 60.0, "depth": 1000}
CHOSEN = {"method": "rrf-tuned", "weights": {"a": 0.5, "b": 0.5}, "constant": 5.0}


@pytest.mark.parametrize(
    ("output", "options"),
    [
        ({"weights": {"a": 0.5, "b": BEYOND}}, {}),
        ({"weights": {"a": 0.5, "b": float("inf")}}, {}),
        ({"weights": {"a": 0.5, "b": -0.5}}, {}),
        ({"weights": ["a", "b"]}, {}),
        ({"constant": BEYOND}, {}),
        ({"constant": float("nan")}, {}),
        ({"window": BEYOND}, {}),
        ({"window": 10**30}, {}),
        ({"window": 2.5}, {}),
        ({"weights": {"a": 1e308, "b": 1.0}}, {}),
        ({"depths": {"a": 0}}, {}),
        ({"depths": {"c": 10}}, {}),
        ({"depths": {"a": 2.5}}, {}),
        ({"method": ["rrf"]}, {}),
        ({"engine": "solr"}, {}),
        ({"engine": ["qdrant"]}, {}),
        ({"engine": "opensearch", "combine": "rrf", "constant": 0.5}, {}),
        ({"engine": "opensearch", "combine": "rrf", "constant": BEYOND}, {}),
        ({"engine": "opensearch", "combine": "linear", "normalise": "min_max"}, {}),
        ({"engine": "opensearch", "combine": "geometric_mean", "normalise": "z_score"}, {}),
        ({"engine": "opensearch", "combine": "arithmetic_mean", "normalise": "l2,min_max"}, {}),
        ({"engine": "opensearch", "combine": "arithmetic_mean", "normalise": 3}, {}),
        ({"engine": "elasticsearch", "combine": "linear", "normalise": "none,none,minmax"}, {}),
        ({"logistic": {"a": [1, 2]}}, {}),
        ({"powers": {"length a": BEYOND}}, {}),
        ({}, {"rrf_k": BEYOND}),
        ({}, {"rrf_k": float("inf")}),
        ({}, {"depth": BEYOND}),
        ({}, {"depth": 10**30}),
        ({}, {"depth": 0}),
    ],
)
def test_numbers_of_a_fusion_are_checked(output: dict[str, object], options: dict[str, object]) -> None:
    Path("f.json").write_text(json.dumps({"output": CHOSEN | output, "options": KEPT | options}))
    for line in (
        "fuse --from f.json a.run b.run --output o.run",
        "check-run a.run f.json qrels.txt a.run b.run",
        "deploy f.json --to lancedb",
    ):
        err = refusal(*line.split())
        assert re.search(r"f\.json: not (a fusion|JSON: 'the number \w+ is not finite)", err.splitlines()[-1])
    assert not Path("o.run").exists()
