"""Compare the time of evaluating runs with lmtune, trec_eval, ir_measures and pytrec_eval.

    python benchmarks/evaluate.py --trec-eval PATH --qrels QRELS --run RUN

Without files, it generates 100 topics with 1,000 ranked documents and 1,288 judgments each, like the
TREC 2003 Robust track. Whole processes are timed, alternately. Figures are the minimum over the repeats,
because other load on the machine can only add time.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measuring import cost, machine, write_figures

_LMTUNE = "import sys; from lmtune.cli import main; sys.argv[0] = 'lmtune'; main()"
_IR_MEASURES = "from ir_measures.__main__ import main_cli; main_cli()"
_PYTREC_EVAL = """
import sys, pytrec_eval
with open(sys.argv[1]) as qrels, open(sys.argv[2]) as run:
    judged, ranked = pytrec_eval.parse_qrel(qrels), pytrec_eval.parse_run(run)
evaluator = pytrec_eval.RelevanceEvaluator(judged, {"official"})
for measure, value in sorted(next(iter(evaluator.evaluate(ranked).values())).items()):
    print(measure, value)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trec-eval", default=shutil.which("trec_eval"))
    parser.add_argument("--qrels", type=Path)
    parser.add_argument("--run", type=Path, help="plain text, because trec_eval cannot read .gz")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--runs", type=int, default=50, help="number of runs of the memory measurement")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        result = measure(options, Path(scratch))
    write_figures(result, options.output)


def measure(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    qrels, run = options.qrels, options.run
    if qrels is None or run is None:
        qrels, run = make_files(scratch)
    files = [str(qrels), str(run)]
    python = sys.executable
    commands = {
        "lmtune": [python, "-c", _LMTUNE, "evaluate", *files],
        "ir_measures, AP alone": [python, "-c", _IR_MEASURES, *files, "AP"],
        "pytrec_eval": [python, "-c", _PYTREC_EVAL, *files],
        "python, nothing else": [python, "-c", "pass"],
    }
    if options.trec_eval:
        commands["trec_eval"] = [options.trec_eval, *files]
    seconds = {name: [float("inf")] * 2 for name in commands}
    for _ in range(options.repeats):
        for name, command in commands.items():
            timed = cost(command)
            seconds[name] = [min(old, new) for old, new in zip(seconds[name], timed, strict=True)]
    result: dict[str, Any] = {
        "machine": machine(),
        "lines": sum(1 for _ in run.open("rb")),
        "judgments": sum(1 for _ in qrels.open("rb")),
        "wall and processor seconds": {
            name: [round(second, 4) for second in pair] for name, pair in seconds.items()
        },
        "lmtune's processor seconds by theirs": {
            name: round(seconds["lmtune"][1] / pair[1], 2) for name, pair in seconds.items()
        },
    }
    if options.trec_eval:
        texts = [output(commands[name]) for name in ("lmtune", "trec_eval")]
        result["the same text"] = texts[0] == texts[1]
    result["streamed"] = streamed(str(qrels), str(run), options.runs)
    return result


def streamed(qrels: str, run: str, runs: int) -> dict[str, Any]:
    """Evaluate one run, and many runs; return wall time and peak memory of both."""
    peaks = {}
    for count in (1, runs):
        command = [sys.executable, "-c", _LMTUNE, "evaluate", qrels, *[run] * count]
        begin = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        peaks[f"{count} runs"] = {
            "peak MB": round(usage.ru_maxrss / 1024, 1),
            "wall seconds": round(time.perf_counter() - begin, 2),
        }
    return peaks


def output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def make_files(folder: Path, *, topics: int = 100, judged: int = 1288) -> tuple[Path, Path]:
    rng = random.Random(0)
    docnos = [f"FT{rng.randrange(900, 950)}-{number:05d}" for number in range(20_000)]
    with (folder / "qrels").open("w") as qrels, (folder / "run").open("w") as run:
        for topic in range(301, 301 + topics):
            pool = rng.sample(docnos, 2000)
            for docno in pool[:judged]:
                qrels.write(f"{topic} 0 {docno} {rng.choices((0, 1, 2), (95, 4, 1))[0]}\n")
            score = 20.0
            for rank, docno in enumerate(rng.sample(pool, 1000), 1):
                score -= rng.random() / 100
                run.write(f"{topic} Q0 {docno} {rank} {score:.6f} made\n")
    return folder / "qrels", folder / "run"


if __name__ == "__main__":
    main()
