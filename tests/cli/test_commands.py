"""Commands as a user runs them; in processes of their own where that is what is tested."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from made_folder import write_folder
from scripts import refusal, run_command
from support import read_answer

import lmtune
from lmtune.io.runs import read_run
from lmtune.report.comparison_tables import p_value_text

SEED_WORDS = [f"word{i}" for i in range(40)]


LMTUNE = [sys.executable, "-c", "from lmtune.cli import main; main()"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a working folder that holds two small collections."""
    folder = tmp_path_factory.mktemp("home")
    for seed, name in enumerate(["one", "two"]):
        rng = np.random.default_rng(seed)
        documents = {f"d{d}": " ".join(rng.choice(SEED_WORDS, rng.integers(3, 40))) for d in range(80)}
        topics = {t: " ".join(rng.choice(SEED_WORDS, 3)) for t in range(1, 13)}
        judged = range(1, 12)  # topic 12 is not
        gains = ((t, f"d{d}", int(rng.integers(0, 2))) for t in judged for d in rng.permutation(80)[:20])
        write_folder(folder / name, documents, topics, gains)
    return folder


@pytest.mark.slow
def test_tune_prints_the_table_and_keeps_the_same_bytes(home: Path) -> None:
    arguments = ["tune", "one", "two", "--folds", "3", "--grid", "4x5", "--seed", "3", "--verbose"]
    shown = run_command(*arguments, "--output kept/a", cwd=home)
    titles = [line for line in shown.out.splitlines() if line.endswith("3-fold cross-validation")]
    assert [line.split(":")[0] for line in titles] == ["one", "two"]
    assert "MAP      Default" in shown.out
    assert "skipped: 1 topic without a relevant document (12)" in shown.out
    assert "3-fold cross-validation" in shown.out
    again = [*LMTUNE, *arguments, "--output", "kept/b"]
    printed = subprocess.run(again, cwd=home, capture_output=True, text=True, check=True).stdout
    assert printed.replace("kept/b", "kept/a") == shown.out
    first, second = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (home / "kept/a", home / "kept/b")
    )
    assert first == second
    names = {str(path) for path in first}
    assert {"table.txt", "table.md", "table.tex", "table.csv", "table.json", "made.json"} <= names
    assert {"runs/one/ranknet.run.gz", "runs/two/direct-AP.run.gz"} <= names
    assert {"traces/one/ranknet-fold1.csv", "traces/two/direct-P@10-fold3.csv"} <= names
    made = json.loads(first[Path("made.json")])
    assert made["command"] == "lmtune tune one two --folds 3 --grid 4x5 --seed 3 --verbose"
    assert made["versions"]["lmtune"]
    assert len(made["collections"]) == 2
    table = json.loads(first[Path("table.json")])
    assert {row["collection"] for row in table} == {"one", "two"}


def test_kept_runs_measure_what_the_table_says(home: Path) -> None:
    run_command("tune one --folds 2 --grid 3x4 --output kept/c", cwd=home)
    import ir_measures

    data = lmtune.load(home / "one")
    rows = json.loads((home / "kept/c/table.json").read_text())
    for row in rows:
        one = row["method"] in ("RankNet", "Default")
        name = row["method"].lower() + ("" if one else f"-{row['measure']}")
        run = read_run(home / f"kept/c/runs/one/{name}.run.gz")
        measure = ir_measures.parse_measure(row["measure"])
        qrels = {topic: data.qrels[topic] for topic in run}
        value = ir_measures.calc_aggregate([measure], qrels, run)[measure]
        assert row["mean"] == pytest.approx(value, abs=1e-12), row


def test_search_and_features_take_what_tuning_ended_with(home: Path) -> None:
    tune = ["tune", "one", "--stemmer", "none", "--grid", "3x4", "--restarts", "0", "--no-approx", "-m", "AP"]
    shown = run_command(*tune, "-m P@5 --output kept/final --verbose", cwd=home)
    assert "Final: fitted on all topics (11 of one)" in shown.out
    table = json.loads((home / "kept/final/table.json").read_text())
    final = {(row["measure"], row["method"]): row["final"] for row in table}
    params = final["P@5", "RankNet"]["params"]
    arguments = ["search", "one", "--from", "kept/final", "-m", "P_5", "--method", "ranknet"]
    run_command(*arguments, "--output taken.run", cwd=home)
    made = json.loads((home / "taken.run.made.json").read_text())
    assert made["model"] == {"name": "two-stage", **params}
    assert made["analysis"]["stemmer"] == "none"
    values = [word for name, value in params.items() for word in ("--set", f"{name}={value!r}")]
    run_command("search one --stemmer none", *values, "--output said.run", cwd=home)
    assert (home / "taken.run").read_bytes() == (home / "said.run").read_bytes()
    [used] = [row["setting"] for row in table if row["recommended"] and row["measure"] == "AP"]
    features = ["rerank", "features", "one", "--run", "said.run", "--output"]
    for name, more in (
        ("taken.txt", ["--from", "kept/final"]),
        ("said.txt", [f"--{n}={v!r}" for n, v in used.items()]),
    ):
        stemmer = [] if name == "taken.txt" else ["--stemmer", "none"]
        run_command(*features, name, *more, *stemmer, cwd=home)
    assert (home / "taken.txt").read_bytes() == (home / "said.txt").read_bytes()
    run_command("index one --output stemmed", cwd=home)
    for wrong, said in (
        ("--index stemmed", "another analysis than the results"),
        ("--stemmer krovetz", "--stemmer differs from the analysis of the results"),
        ("--model dirichlet", "accepted: two-stage"),
        ("--set mu=3", "--set mu conflicts with --from"),
    ):
        assert said in refusal("search one --from kept/final", wrong, cwd=home)
    shown = run_command(*tune, "--no-final --output kept/none", cwd=home)
    assert "Final" not in shown.out
    assert "no setting of this measure and method: 'AP direct'" in refusal(
        "search one --from kept/none --method direct", cwd=home
    )


def test_tune_opens_with_the_answer_and_ends_with_its_command(home: Path) -> None:
    tune = ["tune", "one", "--model", "bm25", "--grid", "3x4", "--restarts", "0", "-m", "AP"]
    shown = run_command(*tune, "--baseline k1=1.2,b=0.75 --format json", cwd=home)
    rows = {row["method"]: row for row in json.loads(shown.out)}
    assert rows["Default"]["folds"][0]["params"] == {"k1": 1.2, "b": 0.75}
    assert rows["Default"]["evaluations"] == 0
    run_command("search one --model bm25 --set k1=1.2 --set b=0.75 --output usual.run", cwd=home)
    measured = run_command("evaluate one/qrels.txt usual.run -m AP", cwd=home)
    assert float(measured.out.split()[-1]) == pytest.approx(rows["Default"]["mean"], abs=5e-5)

    del rows["Optimal"]
    [best] = [row for row in rows.values() if row["recommended"]]
    assert best["method"] == ("Bagged" if rows["Bagged"]["better"] else "Default")
    for output, ways in (([], "--model"), (["--output", "kept/answer"], "--from")):
        shown = run_command(*tune, "--baseline k1=1.2,b=0.75", *output, cwd=home)
        title, answer = read_answer(shown.out)
        lines = shown.out.splitlines()
        assert title.startswith("one: bm25, ")
        assert p_value_text(rows["Bagged"]["p_value_default"]) in answer["Difference"]
        assert answer["MAP"].startswith(f"{best['mean']:.4f}; ")
        assert "k1 = 1.2, b = 0.75" in answer["MAP" if best["method"] != "Default" else "Recommended"]
        assert "Fold" not in shown.out and "documents," not in shown.out
        assert lines[-1].startswith("--verbose prints ")
        use = lines[lines.index("Search with this setting:") + 1].removeprefix("  lmtune ")
        assert ways in use
        run_command(use, "--output answer.run", cwd=home)
        searched_with = json.loads((home / "answer.run.made.json").read_text())["model"]
        wanted = best["final"] or best["folds"][0]
        assert searched_with["k1"] == pytest.approx(wanted["params"]["k1"], rel=5e-3)
    kept = (home / "kept/answer/table.txt").read_text()
    assert read_answer(kept) == (title, answer)
    for wrong, said in (
        ("k1", "accepted: NAME=VALUE"),
        ("mu=3", "bm25 has no such parameter"),
        ("k1=-1", "k1 is outside its domain"),
        ("k1=1,k1=2", "k1 is given twice"),
    ):
        assert said in refusal(*tune, "--baseline", wrong, cwd=home)


def test_a_split_and_every_format(home: Path) -> None:
    for style, beginning in [
        ("markdown", "| Measure | Method | one |"),
        ("latex", r"\begin{table}"),
        ("csv", "collection,measure,method"),
        ("json", "["),
    ]:
        shown = run_command(
            "tune one --train-topics 1-5 --test-topics 6-11 --grid 2x2 -m P_5 --format", style, cwd=home
        )
        assert shown.out.startswith(beginning)
        assert "trained on 5 topics, reported on 6" in shown.err


def test_validation_adds_a_row(home: Path) -> None:
    shown = run_command("tune one --grid 2x2 -m AP --ranknet-validation 0.3", cwd=home)
    assert "RankNet-val" in shown.out, shown.err


def test_gradient_free_searches_add_rows(home: Path) -> None:
    arguments = ["tune", "one", "--grid", "2x2", "-m", "AP", "--train-topics", "1-5"]
    shown = run_command(*arguments, "--also 'spsa, fdsa' --evaluations 20 --format csv", cwd=home)
    rows = [line.split(",") for line in shown.out.splitlines()]
    methods = "method Default Direct Bagged RankNet Approx SPSA FDSA Optimal"
    assert [row[2] for row in rows] == methods.split()
    assert [row[rows[0].index("evaluations")] for row in rows[6:8]] == ["20", "20"]
    assert refusal(*arguments, "--also newton", cwd=home).endswith("accepted: spsa, fdsa")


def test_index_then_search(home: Path) -> None:
    built = run_command("index one --output built --stemmer none", cwd=home)
    assert "80 documents" in built.err
    arguments = ["search", "--index", "built", "--topics", "one/topics.tsv", "--set", "lambda=0.3"]
    arguments += ["--set", "mu=50", "--hits", "7", "--run-tag", "mine"]
    shown = run_command(*arguments, cwd=home)
    lines = [line.split() for line in shown.out.splitlines()]
    assert {line[5] for line in lines} == {"mine"}
    assert [line[3] for line in lines if line[0] == "1"] == [str(i) for i in range(1, 8)]
    run_command(*arguments, "--output runs/r.gz", cwd=home)
    assert gzip.decompress((home / "runs/r.gz").read_bytes()).decode() == shown.out


@pytest.mark.slow
def test_a_redirected_run_is_appended_where_the_shell_says(home: Path) -> None:
    search = f"{shlex.join(LMTUNE)} search one --hits 2"
    for output in ("", "--output /dev/stdout"):
        target = home / "all.run"
        script = f"(echo header; {search} {output}; {search} --set mu=5 {output}; echo footer) >> all.run"
        target.write_text("kept\n")
        subprocess.run(["bash", "-c", script], cwd=home, check=True, capture_output=True)
        lines = target.read_text().splitlines()
        assert lines[:2] == ["kept", "header"]
        assert lines[-1] == "footer"
        assert {line.split()[5] for line in lines[2:-1]} == {"lmtune-lambda0-mu1000", "lmtune-lambda0-mu5"}


@pytest.mark.slow
def test_results_are_kept_where_the_screen_has_gone(home: Path) -> None:
    line = f"{shlex.join(LMTUNE)} tune one --grid 2x2 --output kept/quiet | true"
    shown = subprocess.run(["bash", "-c", line], cwd=home, check=False, capture_output=True, text=True)
    assert "Traceback" not in shown.stderr
    assert (home / "kept/quiet/table.txt").is_file()


@pytest.mark.slow
def test_a_plain_screen_gets_the_table(home: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    shown = subprocess.run(
        [*LMTUNE, "tune", "one"], cwd=home, check=True, capture_output=True, env=environment
    )
    assert b"MAP" in shown.stdout


def test_tune_on_a_named_index_and_named_files(home: Path) -> None:
    run_command("index two --output built2", cwd=home)
    for role, suffix in (("topics", "tsv"), ("qrels", "txt")):
        (home / role).mkdir(exist_ok=True)
        source = home / "two" / f"{role}.{suffix}"
        (home / role / f"{role}.second.{suffix}").write_bytes(source.read_bytes())
    shown = run_command(
        "tune --index built2 --topics second --qrels second --grid 2x2 -m AP --format csv", cwd=home
    )
    whole = run_command("tune two --grid 2x2 -m AP --format csv", cwd=home)
    assert [line.split(",")[1:] for line in shown.out.splitlines()] == [
        line.split(",")[1:] for line in whole.out.splitlines()
    ]


def test_help(home: Path) -> None:
    shown = run_command("--help", cwd=home).out
    assert all(command in shown for command in ("tune", "index", "search", "datasets"))


@pytest.mark.parametrize("stop", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupt_leaves_nothing_half_written(home: Path, stop: signal.Signals) -> None:
    tune = [*LMTUNE, *["tune", "one", "--grid", "300x300", "--restarts", "500", "--output", "kept/never"]]
    process = subprocess.Popen(tune, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "topics extracted" in line:
            break
    time.sleep(0.5)
    process.send_signal(stop)
    # The kernels may have to be compiled first, which does not listen.
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + stop
    assert "interrupted" in errors or stop == signal.SIGTERM
    assert "Traceback" not in errors
    assert not (home / "kept/never").exists()
    assert not list((home / "kept").glob(".*"))


def test_a_certificate_says_what_no_setting_exceeds(home: Path) -> None:
    shown = run_command(
        "tune one --train-topics 1-5 --grid 3x3 -m AP --certify 0.01 --output kept/certified", cwd=home
    )
    assert "MAP: no (lambda, mu) in the range gives more than 0." in shown.out
    assert (home / "kept/certified/traces/one/certificate-AP-fold1.csv").is_file()
    assert "tolerance" in refusal("tune one -m AP --certify -1", cwd=home)
