"""Helpers of the benchmarks: time and memory of work in this and other processes, and JSON output.

Losses are also timed by Pythons without lmtune, so this module imports lmtune only inside functions.
"""

from __future__ import annotations

import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LONG = 1.0
"""Seconds; longer work is not repeated."""
ANSERINI_HELP = "a Python with lmtune[lucene]; by default this one, if it has the extra"


def machine() -> dict[str, Any]:
    """Describe the machine and the Python version."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def write_figures(figures: dict[str, Any], output: Path | None, *, shown: bool = True) -> None:
    """Print figures as JSON, and write them to `output` if it is not None."""
    text = json.dumps(figures, indent=1)
    if shown:
        print(text)
    if output is not None:
        output.write_text(text + "\n", encoding="utf-8")


def least(work: Callable[[], Any], repeats: int = 5) -> tuple[Any, float]:
    """Return the result of some work and its minimum processor seconds; long work is not repeated."""
    spent = math.inf
    for _ in range(repeats):
        begin = time.process_time()
        found = work()
        spent = min(spent, time.process_time() - begin)
        if spent > LONG:
            break
    return found, spent


def cost(command: Sequence[str | Path], **options: Any) -> tuple[float, float]:
    """Run a process and discard its output; return its wall and processor seconds."""
    before, begin = cpu_of_children(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)
    return time.perf_counter() - begin, cpu_of_children() - before


def cpu_of_children() -> float:
    """Return the processor seconds of all finished child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def answer(*arguments: object, python: Path | str = sys.executable) -> Any:
    """Run a Python script and parse the last line of its output as JSON."""
    command = [str(python), *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def staged(work: Callable[[], dict[str, Any]], workers: int) -> dict[str, Any]:
    """Run the work of this process with workers; add seconds, and peak memory of process and workers."""
    from joblib.externals.loky import get_reusable_executor

    from lmtune.parallel import Workers

    begin = time.perf_counter()
    with Workers(workers).engaged():
        found = work()
    wall = time.perf_counter() - begin
    get_reusable_executor().shutdown(wait=True)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, of_workers = (use.ru_maxrss / 1024 for use in used)
    cpu = sum(use.ru_utime + use.ru_stime for use in used)
    return {"wall": wall, "cpu": cpu, "own_mb": own, "worker_mb": of_workers} | found


def build_plain(collection: str, folder: Path, shards: int) -> float:
    """Index a collection without stemming and stopwords; 0 shards build one index. Return its size in MiB."""
    from lmtune.collections.loading import load
    from lmtune.index.analysis import Analyzer
    from lmtune.index.builder import build_index
    from lmtune.index.sharding import build_sharded_index

    source = load(collection, need=["documents"]).documents
    assert source is not None
    analyzer = Analyzer(stemmer="none", stopwords="none")
    if shards:
        build_sharded_index(source, folder, analyzer, shards)
    else:
        build_index(source, folder, analyzer)
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def memory(name: str, file: str = "/proc/self/status") -> float:
    """Return a memory figure of a Linux /proc file, in bytes."""
    for line in Path(file).read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024.0
    raise RuntimeError(f"no {name} in {file}: this needs Linux")


def peak_memory(work: Callable[[], Any]) -> float:
    """Run some work; return the growth of the process's peak memory in bytes."""
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    work()
    return memory("VmHWM") - before
