"""Scripts and documented commands, run once: examples, benchmarks, experiments, and the page of mistakes.

Commands and snippets of the other pages: `test_pages.py`; the course: `test_course.py`.
"""

from __future__ import annotations

import json
import random
import re
import runpy
import shlex
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from scripts import run_script

import lmtune
from experiments.synthetic import folder_of
from lmtune.cli.main import run as run_main
from lmtune.io.runs import read_run

ROOT = Path(__file__).resolve().parents[1]
RUN = 'if __name__ == "__main__":'

EXAMPLES: dict[str, Callable[..., bool]] = {
    "tune_and_compare": lambda default, grid, gradient: default < min(grid, gradient),
    "bm25_with_certificate": lambda climb, best, bound: climb <= best <= bound <= best + 0.0051,
    "fuse_runs": lambda *values: len(values) == 6 and min(values[3:]) > np.mean(values[:3]),
    "rerank_with_song": lambda ranknet, song, feature: feature + 0.2 < min(ranknet, song),
    "optuna_study": lambda train, test: 0.2 < train < 1.0 > test > 0.1,
    "own_model": lambda grid, gradient: grid > 0.2 < gradient,
    "own_measure": lambda default, grid: 0.1 < default < 1.0 > grid > 0.1,
    "own_loss": lambda kept, hinge, ranknet: ranknet < hinge > 0.7 < kept < 1.0,
    "own_learner": lambda kept, ridge, listnet: listnet + 0.01 < ridge == kept < 1.0,
}
"""By script, what holds for the figures that it prints."""

BENCHMARKS = {
    "against": f"{ROOT} --quick --only extraction",
    "engines": "synthetic:1000x6 --grid 3 3 --folds 2 --ask sqlite",
    "evaluate": "--repeats 1 --runs 2",
    "growth": "--documents 1000 2000 --topics 3 5",
    "indexing": "--documents 200 --types 2000 --repeats 1 --workers 1",
    "long_lists": "--lengths 30",
    "losses": "--sizes 2x5 --losses ranknet --repeats 1",
    "passages": "--collection msmarco-1000x9 --workers 1 --shards 2",
    "ranking_data": "--rows 500 --collection synthetic:1000x3",
    "selection": "pydocs:bm25:8 --draws 1",
    "shards": "--documents 1000x3 2000x3 --shards 2 --workers 1 --home home",
    "surrogates": "--collection synthetic:1000x3 --repeats 1",
    "tuning": "--collection synthetic:1000x3 --tolerance 0.1",
}
"""Whether they run, not how fast."""

NETS, DRAWN = "--epochs 2 --seed 1", "--datasets synthetic:1000x40 --topics 30"
SWEEP = "--data artificial:8x30 --trials 2 --epochs 3 --batch-size 4"
EXPERIMENTS = {
    "approxndcg": "--data artificial:30x20 --trials 2 --epochs 2 --network b:4",
    "approxndcg.alpha": f"{SWEEP} --network b:4 --alphas 1,10 --alike 10",
    "approxndcg.depth": f"{SWEEP} --networks b:4,b:8",
    "approxndcg.statements": "--data artificial:20x30 --network b:4",
    "bagging": "synthetic:1000x26",
    "choices.variants": "synthetic:1000x3 --grid 3 3 --tolerance 0.1",
    "estimation": f"{DRAWN} --sizes 5 --draws 2 --grid 3,4",
    "estimation.corrections": "synthetic:1000x8 --draws 2 --runs 4 --topics 5",
    "estimation.gates": "synthetic:1000x8 --draws 20 --topics 5",
    "estimation.near_optimal": "synthetic:1000x8 --grid 4 4 --samples 3 --topics 5",
    "estimation.power": f"{DRAWN} --sizes 10 --grid 3,4",
    "estimation.prior": "synthetic:1000x8 synthetic:1000x9 --grid 3 3",
    "judges.prediction_powered": "--draws 20",
    "lambdas": "--documents 2 --label-vectors 1 --points 3 --places 3 --deltas 1",
    "lambdas.trained": "--data artificial:20x10 --network mlp:4",
    "metzler": "--datasets synthetic:1000x40 --points 3,3",
    "optimality": f"{NETS} --data artificial:20x10 --networks linear --losses ranknet",
    "optimality.retrieval": "--dataset synthetic:1000x40 --topics 20 --directions 5 --steps 0.1",
    "parameters": "--datasets synthetic:1000x40 --models dirichlet --measure P@5",
    "rerank.gap": "",
    "rerank.table": "--trials 3",
    "smoothness": f"{NETS} --data artificial:20x10 --queries 10,20 --networks linear",
    "smoothness.retrieval": "--dataset synthetic:1000x40 --topics 5,20 --samples 2 --points 21",
    "song": "--data artificial:30x20 --trials 2 --epochs 2 --warm-up 1 --network b:4",
    "song.full_items": f"{SWEEP} --network mlp:4",
    "song.k_song": f"{SWEEP} --network mlp:4 --cutoffs 10 --warm-up 1",
    "song.sets": "--data artificial:20,artificial:10x30 --network b:4 --epochs 2",
    "song.statements": "--lists 5 --lengths 30 --draws 5 --epsilons 0.1,0.01",
    "song.stopped_term": f"{SWEEP} --network mlp:4 --cutoffs 10 --warm-up 1",
    "song.warm_up": f"{SWEEP} --network mlp:4 --warm-up 1 --cutoff 10",
    "spsa": "--data artificial:4x8 --runs 2 --evaluations 300 --features 3,10",
    "surrogates": "--datasets synthetic:1000x40 --topics 24 --parameters 2 --evaluations 20",
    "yue": "--data artificial:20x10 --evaluations 200 --epochs 2",
    "yue.smoothed": "--data artificial:20x10 --network mlp:4 --samples 100",
    "yue.steps": "--evaluations 60 --directions 5",
}
"""Options beside ``--quick``; pictures and tables go to a folder."""

PRINTING = {
    "choices": "synthetic:1000x8 --seeds 1 --gp 3 --tolerance 0.1",
    "estimation.models": "synthetic:1000x26 --model bm25+rm3 --topics 6 --draws 1 --settings 5 9",
    "term_weights": "synthetic:1000x12 --parts +rm3 --folds 2",
}
"""Experiments that print a table as it grows, with all of their options."""

FOLDER_OF_RUNS, WEIGHTS = "needs a folder of runs", "needs a network's weights"
NOT_RUN = {
    "examples/train_with_lambdarank": "a test of its own runs it",
    "benchmarks/analysis_parity": "needs Anserini's analyser and texts, and measures no speed",
    "benchmarks/explore": "needs Chromium",
    "benchmarks/gpu": "tests/test_gpu_benchmark.py runs it",
    "benchmarks/lucene": "needs Java",
    "benchmarks/text_losses": WEIGHTS,
    "benchmarks/text_memory": WEIGHTS,
    "benchmarks/training_epoch": "has one size, of minutes",
    "experiments/choices/stemmers": "needs Java and wordfreq",
    "experiments/estimation/mixed_models": "needs what `python -m experiments.estimation` wrote",
    "experiments/fusion/__main__": FOLDER_OF_RUNS,
    "experiments/fusion/engines": FOLDER_OF_RUNS,
    "experiments/fusion/estimation": FOLDER_OF_RUNS,
    "experiments/fusion/topics": FOLDER_OF_RUNS,
    "experiments/fusion/pairs": FOLDER_OF_RUNS,
    "experiments/judges/relatives": "needs LLMJudge's labels",
    "experiments/judges/thinning": FOLDER_OF_RUNS,
    "experiments/judges/which_pairs": FOLDER_OF_RUNS,
    "experiments/long_lists/__main__": "tests/experiments/test_long_lists.py runs it",
    "experiments/rerank/defaults": "trains for hours",
    **dict.fromkeys(
        (f"benchmarks/{name}" for name in ("analysis_golden", "lengths_golden", "word_break_classes")),
        "makes files for tests and the tokenizer",
    ),
    **dict.fromkeys(
        (f"benchmarks/{name}" for name in ("losses_step", "lucene_scores", "pyserini_qld")),
        "another benchmark or test runs it",
    ),
}
NEEDED = {
    "choices": "optuna",
    "evaluate": "ir_measures",
    "long_lists": "torch",
    "losses": "torch",
    "ranking_data": "torch",
    "tuning": "ir_measures",
}
FIRST_TIER = "spsa"
PAGE = ROOT / "docs" / "mistakes.md"
ALL = re.findall(r"^    \$ lmtune (.*)\n    (.*)$", PAGE.read_text(encoding="utf-8"), re.M)
WORDS = ["bird", "flu", "vaccine", "whale", "panda", "sea", "paris", "bear", "ship", "wing", "flow", "heat"]


def experiment(name: str) -> Path:
    path = (ROOT / "experiments").joinpath(*name.split("."))
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


SCRIPTS = {
    **{name: ROOT / "benchmarks" / f"{name}.py" for name in BENCHMARKS},
    **{name: experiment(name) for name in PRINTING},
}


def words(command: str) -> list[str]:
    """Return a command's words, where collections that are made are their folders."""
    return [folder_of(word) for word in shlex.split(command)]


def test_every_script_is_known() -> None:
    folders = {folder: ROOT / folder for folder in ("examples", "benchmarks", "experiments")}
    texts = {path: path.read_text(encoding="utf-8") for own in folders.values() for path in own.rglob("*.py")}
    found = {path for path, text in texts.items() if RUN in text or path.parent == folders["examples"]}
    known = {*SCRIPTS.values(), *map(experiment, EXPERIMENTS), *(ROOT / f"{name}.py" for name in NOT_RUN)}
    assert found == known | {ROOT / "examples" / f"{name}.py" for name in EXAMPLES}
    for path in (path for path in found if path.parent.parent == folders["experiments"]):
        assert (path.parent / "README.md").is_file(), path


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != FIRST_TIER)) for name in EXPERIMENTS]
)
def test_an_experiment_writes_tables_and_pictures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="the extra 'neural' is not installed")
    arguments = words(EXPERIMENTS[name])
    monkeypatch.chdir(tmp_path)
    module = import_module(f"experiments.{name}" + ".__main__" * (experiment(name).name == "__main__.py"))
    monkeypatch.setattr("sys.argv", [name, "--quick", "--output", "out", *arguments])
    import_module("experiments.common").main(module.__spec__)
    assert capsys.readouterr().out
    assert list((tmp_path / "out").glob("*.csv"))
    assert (tmp_path / "out" / "made.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_to_its_end(name: str, tmp_path: Path) -> None:
    if name in NEEDED and find_spec(NEEDED[name]) is None:
        pytest.skip(f"{NEEDED[name]} is not installed")
    assert run_script(SCRIPTS[name], words({**BENCHMARKS, **PRINTING}[name]), cwd=tmp_path)


@pytest.mark.usefixtures("one_thread")
def test_a_network_learns_by_lambdarank(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "train_with_lambdarank.py"))
    shown = [float(value) for value in re.findall(r"nDCG@10 (.*)", capsys.readouterr().out)]
    assert len(shown) == 20
    assert shown[0] < 0.8 < 0.93 < shown[-1]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder for all examples: they share an index."""
    return tmp_path_factory.mktemp("examples")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_it_shows(work: Path, name: str) -> None:
    script = ROOT / "examples" / f"{name}.py"
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 60
    shown = run_script(script, cwd=work)
    before = "AP|than|nDCG@10|alone:|mean|default|grid|gradient|single|linear|rrf|combmnz"
    assert EXAMPLES[name](*map(float, re.findall(rf"(?:{before}) +(0?\.\d{{4}})\b", shown)))
    if name == "fuse_runs":
        assert len(read_run(work / "fused.txt")) == 150


@pytest.mark.slow
def test_a_measure_of_ones_own_is_its_formula(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    known = runpy.run_path(str(ROOT / "examples" / "own_measure.py"))
    pool, setting = known["pool"], known["default"]
    found = lmtune.measure(pool, setting, measures=known["RBP"])["RBP"]
    for ranking in lmtune.rank(pool, setting):
        judged = known["data"].qrels.get(ranking.topic, {})
        gains = [judged.get(docno, 0) > 0 for docno in ranking.docnos]
        expected = 0.2 * sum(0.8**place for place, gain in enumerate(gains) if gain)
        assert found[ranking.topic] == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_the_notebook_runs_and_shows_tables_and_pictures(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
    client = pytest.importorskip("nbclient", reason="nbclient is not installed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    client.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(work)}}
    ).execute()
    shown: list[str] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            shown += output.get("data", {}).keys()
            assert output.get("output_type") != "error"
            assert "Warning" not in output.get("text", "")
    assert shown.count("image/png") == 3
    assert shown.count("text/html") >= 7


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small collection, two runs of it, files with a mistake each, and an empty folder."""
    pytest.importorskip("torch", reason="the extra 'neural' is not installed")
    pytest.importorskip("transformers", reason="the extra 'text' is not installed")
    folder, rng = tmp_path_factory.mktemp("mistakes"), random.Random(1)
    mine = folder / "my-collection"
    for made in (mine, folder / "results"):
        made.mkdir()
    texts = [" ".join(rng.choices(WORDS, k=12)) for _ in range(60)]
    documents = [json.dumps({"id": f"d{n}", "contents": text}) for n, text in enumerate(texts)]
    (mine / "docs.jsonl").write_text("\n".join(documents) + "\n")
    topics = [f"{n + 1}\t{WORDS[n]} {WORDS[n + 3]}\n" for n in range(8)]
    (mine / "topics.tsv").write_text("".join(topics))
    judged = [f"{n + 1} 0 d{(7 * n + 3 * k) % 60} {k % 2}\n" for n in range(8) for k in range(20)]
    for own in (mine, folder):
        (own / "qrels.txt").write_text("".join(judged))
    (folder / "broken-qrels.txt").write_text("1 0 d1 1\n1 0 d1\n")
    (folder / "broken.run").write_text("1 Q0 d1 1 x tag\n")
    (folder / "empty.run").write_text("")
    (folder / "twice.run").write_text("1 Q0 d1 1 2.0 t\n1 Q0 d1 2 1.0 t\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for model, run in (("bm25", "bm25.run"), ("two-stage", "ql.run")):
            assert run_main(["search", "my-collection", "--model", model, "--output", run]) == 0
    return folder


def test_there_are_forty_mistakes() -> None:
    assert len(ALL) >= 40


@pytest.mark.parametrize(("command", "said"), ALL, ids=[command for command, _ in ALL])
def test_a_mistake_is_answered_as_the_page_says(
    command: str, said: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    if "cuda" in command and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    monkeypatch.chdir(home)
    before = sorted(home.iterdir())
    capsys.readouterr()
    assert run_main(shlex.split(command)) == 2
    assert capsys.readouterr().err.splitlines()[-1:] == [said]
    assert sorted(home.iterdir()) == before
