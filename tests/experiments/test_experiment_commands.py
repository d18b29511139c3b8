"""Every experiment, at its smallest size: whether its command runs and writes its tables and pictures."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from scripts import run_script

import experiments
from experiments.synthetic import folder_of

FOLDER = Path(experiments.__file__).parent
NETS = ["--epochs", "2", "--seed", "1"]
SWEEP = ["--data", "artificial:8x30", "--trials", "2", "--epochs", "3", "--batch-size", "4"]
SYNTHETIC = "synthetic:1000x40"
SMALLEST = {
    "approxndcg": ["--data", "artificial:30x20", "--trials", "2", "--epochs", "2", "--network", "b:4"],
    "approxndcg.alpha": [*SWEEP, "--network", "b:4", "--alphas", "1,10", "--alike", "10"],
    "approxndcg.depth": [*SWEEP, "--networks", "b:4,b:8"],
    "estimation": [
        "--datasets",
        SYNTHETIC,
        "--topics",
        "30",
        "--sizes",
        "5",
        "--draws",
        "2",
        "--grid",
        "3,4",
    ],
    "choices.variants": [folder_of("synthetic:1000x3"), "--grid", "3", "3", "--tolerance", ".1"],
    "estimation.near_optimal": ["synthetic:1000x8", "--grid", "4", "4", "--samples", "3", "--topics", "5"],
    "estimation.power": ["--datasets", SYNTHETIC, "--topics", "30", "--sizes", "10", "--grid", "3,4"],
    "estimation.prior": ["synthetic:1000x8", "synthetic:1000x9", "--grid", "3", "3"],
    "judges.prediction_powered": ["--draws", "20"],
    "lambdas": [
        "--documents",
        "2",
        "--label-vectors",
        "1",
        "--points",
        "3",
        "--places",
        "3",
        "--deltas",
        "1",
    ],
    "metzler": ["--datasets", SYNTHETIC, "--points", "3,3"],
    "optimality": [*NETS, "--data", "artificial:20x10", "--networks", "linear", "--losses", "ranknet"],
    "optimality.retrieval": ["--dataset", SYNTHETIC, "--topics", "20", "--directions", "5", "--steps", "0.1"],
    "parameters": ["--datasets", SYNTHETIC, "--models", "dirichlet", "--measure", "P@5"],
    "smoothness": [*NETS, "--data", "artificial:20x10", "--queries", "10,20", "--networks", "linear"],
    "smoothness.retrieval": ["--dataset", SYNTHETIC, "--topics", "5,20", "--samples", "2", "--points", "21"],
    "song": [
        "--data",
        "artificial:30x20",
        "--trials",
        "2",
        "--epochs",
        "2",
        "--warm-up",
        "1",
        "--network",
        "b:4",
    ],
    "song.full_items": [*SWEEP, "--network", "mlp:4"],
    "song.gamma": [*SWEEP, "--network", "mlp:4"],
    "song.k_song": [*SWEEP, "--network", "mlp:4", "--cutoffs", "10", "--warm-up", "1"],
    "song.sets": ["--data", "artificial:20,artificial:10x30", "--network", "b:4", "--epochs", "2"],
    "song.warm_up": [*SWEEP, "--network", "mlp:4", "--warm-up", "1", "--cutoff", "10"],
    "spsa": ["--data", "artificial:4x8", "--runs", "2", "--evaluations", "300", "--features", "3,10"],
    "surrogates": ["--datasets", SYNTHETIC, "--topics", "24", "--parameters", "2", "--evaluations", "20"],
    "yue": ["--data", "artificial:20x10", "--evaluations", "200", "--epochs", "2"],
}
"""Options beside ``--quick``; pictures and tables go to a folder."""

SCRIPTS = {
    "choices": [SYNTHETIC.replace("x40", "x8"), "--seeds", "1", "--gp", "3", "--tolerance", ".1"],
    "estimation.models": [
        *[SYNTHETIC.replace("x40", "x26"), "--model", "bm25+rm3", "--topics", "6"],
        *["--draws", "1", "--settings", "5", "9"],
    ],
    "term_weights": [SYNTHETIC.replace("x40", "x12"), "--parts", "+rm3", "--folds", "2"],
}
"""Scripts that print a table, with all of their options."""

ELSEWHERE = {
    "choices.stemmers": "needs Java and wordfreq",
    "estimation.mixed_models": "needs what `python -m experiments.estimation` wrote",
    "fusion": "needs a folder of runs",
    "fusion.estimation": "needs a folder of runs",
    "fusion.topics": "needs a folder of runs",
    "judges.relatives": "needs LLMJudge's labels",
    "judges.thinning": "needs a folder of runs",
    "judges.which_pairs": "needs a folder of runs",
    "long_lists": "tests/experiments/test_long_lists.py runs it",
}
FIRST_TIER = "spsa"
RUN = 'if __name__ == "__main__":'
pytest.importorskip("torch", reason="the extra 'neural' is not installed")


def script(name: str) -> Path:
    path = FOLDER.joinpath(*name.split("."))
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def test_every_experiment_is_known() -> None:
    found = {path for path in FOLDER.rglob("*.py") if RUN in path.read_text(encoding="utf-8")}
    assert found == {script(name) for name in (*SMALLEST, *SCRIPTS, *ELSEWHERE)}
    for name in {name.partition(".")[0] for name in (*SMALLEST, *SCRIPTS, *ELSEWHERE)}:
        assert (FOLDER / name / "README.md").is_file(), name


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != FIRST_TIER)) for name in SMALLEST]
)
def test_a_command_writes_tables_and_pictures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    module = import_module(f"experiments.{name}" + ".__main__" * (script(name).name == "__main__.py"))
    monkeypatch.setattr("sys.argv", [name, "--quick", "--output", "out", *SMALLEST[name]])
    experiments_main = import_module("experiments.common").main
    experiments_main(module.__spec__)
    assert capsys.readouterr().out
    assert list((tmp_path / "out").glob("*.csv"))
    assert (tmp_path / "out" / "made.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_to_its_end(name: str, tmp_path: Path) -> None:
    if name == "choices" and find_spec("optuna") is None:
        pytest.skip("optuna is not installed")
    assert run_script(script(name), [*map(folder_of, SCRIPTS[name])], cwd=tmp_path)
