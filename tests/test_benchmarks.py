"""Every benchmark, at its smallest size: whether it runs, not how fast."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from scripts import run_script

from experiments.synthetic import folder_of

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
HERE = str(BENCHMARKS.parent)
SYNTHETIC = "synthetic:1000x3"
SMALLEST = {
    "against": [HERE, "--quick", "--only", "extraction"],
    "engines": [SYNTHETIC.replace("x3", "x6"), "--grid", "3", "3", "--folds", "2", "--ask", "sqlite"],
    "evaluate": ["--repeats", "1", "--runs", "2"],
    "growth": ["--documents", "1000", "2000", "--topics", "3", "5"],
    "indexing": ["--documents", "200", "--types", "2000", "--repeats", "1", "--workers", "1"],
    "long_lists": ["--lengths", "30"],
    "losses": ["--sizes", "2x5", "--losses", "ranknet", "--repeats", "1"],
    "passages": ["--collection", "msmarco-1000x9", "--workers", "1", "--shards", "2"],
    "ranking_data": ["--rows", "500", "--collection", SYNTHETIC],
    "shards": ["--documents", "1000x3", "2000x3", "--shards", "2", "--workers", "1", "--home", "home"],
    "surrogates": ["--collection", SYNTHETIC, "--repeats", "1"],
    "tuning": ["--collection", SYNTHETIC, "--tolerance", ".1"],
}
ELSEWHERE = {
    "gpu": "tests/test_gpu_benchmark.py runs it",
    "analysis_parity": "needs Anserini's analyser and texts, and measures no speed",
    "explore": "needs Chromium",
    "lucene": "needs Java",
    "text_losses": "needs a network's weights",
    "text_memory": "needs a network's weights",
    "training_epoch": "has one size, of minutes",
}
# What makes files for tests, and the other halves of benchmarks.
PARTS = {
    "analysis_golden",
    "lengths_golden",
    "word_break_classes",
    "losses_step",
    "lucene_oracle",
    "lucene_scores",
    "made_corpus",
    "measuring",
    "pyserini_qld",
}
NEURAL = {"long_lists", "losses", "ranking_data"}
OTHERS = {"tuning": "ir_measures", "evaluate": "ir_measures"}


def test_every_benchmark_is_known() -> None:
    names = {path.stem for path in BENCHMARKS.glob("*.py")}
    assert names == {*SMALLEST, *ELSEWHERE, *PARTS}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_it_runs_to_its_end(name: str, tmp_path: Path) -> None:
    needed = "torch" if name in NEURAL else OTHERS.get(name)
    if needed and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    assert run_script(BENCHMARKS / f"{name}.py", [*map(folder_of, SMALLEST[name])], cwd=tmp_path)
