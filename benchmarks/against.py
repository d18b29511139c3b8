"""Compare the speed of this checkout with another commit, in alternating pairs of runs, and print ratios.

    python benchmarks/against.py 034f4d2 --collection 50000x100 --pairs 5

The other commit is checked out in a temporary git worktree and runs in the same interpreter. One process per
commit loads the collection; the two do the same work alternately. A dash marks work that a commit does not
support. Milliseconds are processor time of all threads. `same` is "yes" if results are bit-identical.
"""

# The types of the two checkouts differ.
# mypy: disable-error-code="call-arg, arg-type, call-overload"

from __future__ import annotations

import argparse
import contextlib
import hashlib
import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

RANGES = {"lambda": (0.0, 0.95), "mu": (50.0, 10_000.0)}
_HERE = Path(__file__).resolve()
_COMMAND = "import sys; from lmtune.cli import main; sys.argv[0] = 'lmtune'; main()"
_FIRST = "compiled and done once"
# Commands that need no collection; each runs in a new process.
_PROCESSES = {
    "import and --help": ("--help",),
    "evaluate, a run of 10,000 lines": ("evaluate", "qrels", "run"),
}


class Engine:
    """The work of one checkout; `old` marks commits with other argument names."""

    def __init__(self, collection: str, scratch: Path, settings: int, tolerance: float) -> None:
        import lmtune
        from lmtune.measures.evaluate import measure_settings

        self.old = "lambdas" in inspect.signature(measure_settings).parameters
        self.data = lmtune.load(collection)
        self.index = lmtune.index_for(self.data.documents, home=scratch)
        self.tolerance = tolerance
        rng = np.random.default_rng(0)
        mus = np.exp(rng.uniform(*np.log(RANGES["mu"]), settings))
        self.settings = np.stack([rng.uniform(*RANGES["lambda"], settings), mus], axis=1)
        self.pruned = self.extract()

    def extract(self) -> Any:
        """Return the candidates, pruned during extraction."""
        from lmtune.candidates.extraction import extract_pruned

        return extract_pruned(self.index, self.data.topics, self.data.qrels)

    def whole(self) -> Any:
        """Return all candidates."""
        from lmtune.candidates.pool import CandidatePool

        return CandidatePool.build(self.index, self.data.topics, self.data.qrels)

    def space(self) -> Any:
        """Return the parameter space."""
        from lmtune.tuning.space import ParameterSpace

        return (
            ParameterSpace(0.0, 0.95, 50.0, 10_000.0) if self.old else ParameterSpace.of("two-stage", RANGES)
        )

    def regions(self) -> Any:
        """Return the candidates by regions of the parameter space."""
        from lmtune.candidates.regions import Regions

        if self.old:
            return Regions.build(self.pruned, lambda_high=0.95, mu_low=50.0, mu_high=10_000.0)
        return Regions.build(self.pruned, RANGES)

    def measure(self, pool: Any, part: int = 1, **options: Any) -> Any:
        """Measure each ``part``-th setting."""
        from lmtune.measures.evaluate import measure_settings
        from lmtune.measures.measure import parse_measures

        settings = self.settings[::part]
        arguments = settings.T if self.old else (settings,)
        return measure_settings(pool, *arguments, parse_measures(["AP", "P@10", "Bpref"]), **options)

    def certify(self) -> Any:
        """Return the certified bound and the number of boxes."""
        import lmtune

        found = lmtune.CertifiedOptimum("AP", tolerance=self.tolerance, space=self.space()).fit(self.pruned)
        return np.array([found.bound_, found.n_boxes_])


def _ranknet(engine: Engine) -> Callable[[], Any]:
    from lmtune.tuning.pairs import Pairs

    pairs = Pairs.build(engine.pruned)
    arguments = (0.6, 300.0) if engine.old else ({"lambda": 0.6, "mu": 300.0},)
    return lambda: [pairs.cost(*arguments) for _ in range(10)] and None


def _approx(engine: Engine) -> Callable[[], Any]:
    from lmtune.tuning.pairs import Lists
    from lmtune.tuning.surrogate import SurrogateCost, parse_objective

    lists = Lists.build(engine.pruned, engine.space())
    cost = SurrogateCost(lists, parse_objective("approx-ap"), engine.pruned.positions())
    return lambda: [cost(np.array([0.5, 1000.0]), 4.0) for _ in range(10)] and None


def _measured(pool: str, part: int) -> Callable[[Engine], Callable[[], Any]]:
    def prepare(engine: Engine) -> Callable[[], Any]:
        own = engine.whole() if pool == "whole" else engine.pruned
        return lambda: engine.measure(own, part)

    return prepare


def _by_regions(engine: Engine) -> Callable[[], Any]:
    regions = engine.regions()
    return lambda: engine.measure(engine.pruned, regions=regions)


# By name: the number of units of work per call, and the function that prepares the call.
_FIGURES: dict[str, tuple[Callable[[Engine], int], Callable[[Engine], Callable[[], Any]]]] = {
    "a setting, all candidates": (lambda e: len(e.settings[::64]), _measured("whole", 64)),
    "a setting, skyband": (lambda e: len(e.settings[::8]), _measured("pruned", 8)),
    "a setting, regions": (lambda e: len(e.settings), _by_regions),
    "regions, 16 x 16": (lambda _: 1, lambda e: lambda: e.regions().position),
    "extraction": (lambda _: 1, lambda e: lambda: e.whole().candidates.doc),
    "extraction, pruned": (lambda _: 1, lambda e: lambda: e.extract().candidates.doc),
    "RankNet's cost": (lambda _: 10, _ranknet),
    "Approx's value and gradient": (lambda _: 10, _approx),
    "certificate of AP": (lambda _: 1, lambda e: e.certify),
}


def serve(options: argparse.Namespace) -> None:
    """Read names of figures from standard input; print milliseconds and a digest for each."""
    engine = Engine(options.collection, options.scratch, options.settings, options.tolerance)
    if options.serve == "first":
        engine.measure(engine.pruned, len(engine.settings))
        engine.certify()
        return
    ready: dict[str, Callable[[], Any]] = {}
    for name in map(str.strip, sys.stdin):
        size, prepare = _FIGURES[name]
        try:
            if name not in ready:
                ready = {name: prepare(engine)}
                ready[name]()  # compiles
            begin = time.process_time()
            result = ready[name]()
            answer: Any = 1e3 * (time.process_time() - begin) / size(engine), _digest(result)
        except (AttributeError, ImportError, TypeError) as error:
            print(f"{name}: {error!r}", file=sys.stderr)
            answer = None
        print(json.dumps(answer), flush=True)


def _digest(result: Any) -> str:
    return "" if result is None else hashlib.sha256(np.ascontiguousarray(result).tobytes()).hexdigest()


def _child(checkout: Path, *arguments: object, **environment: str) -> dict[str, Any]:
    """Return the arguments of `subprocess` to run Python in a checkout."""
    own = os.environ | {"PYTHONPATH": str(checkout)} | environment
    own.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise each process compiles every module again
    return {"args": [sys.executable, "-P", *map(str, arguments)], "env": own, "text": True}


def _pairs(names: list[str], works: list[Callable[[str], Any]], pairs: int) -> dict[str, list[list[Any]]]:
    """Let both checkouts do each work ``pairs`` times alternately; return milliseconds and digests."""
    figures: dict[str, list[list[Any]]] = {}
    for name in names:
        rows = figures[name] = [[], []]
        for _ in range(pairs):
            for row, work in zip(rows, works, strict=True):
                if None not in row:
                    row.append(work(name))
        print(_line(name, *rows), flush=True)
    return figures


def _line(name: str, new: list[Any], old: list[Any]) -> str:
    """Return a row of the table: each commit's minimum, their ratio, and the median ratio of pairs."""
    times = [[ms for ms, _ in row] if None not in row else [] for row in (new, old)]
    cells = ["-" if not row else f"{min(row):.3g}" for row in times]
    ratios = [min(times[0]) / min(times[1])] if all(times) else []
    ratios += [statistics.median(a / b for a, b in zip(*times, strict=True))] if ratios else []
    digests = {digest for row in (new, old) if None not in row for _, digest in row} - {""}
    same = "" if not (ratios and digests) else "yes" if len(digests) == 1 else "no"
    shown = [f"{ratio:.2f}" for ratio in ratios] or ["-", "-"]
    return f"| {' | '.join([name, *cells, *shown, same])} |"


def processes(checkouts: list[Path], options: argparse.Namespace) -> None:
    """Measure whole processes: commands, and the first use with an empty kernel cache."""
    from measuring import cost  # imported here for the same reason as `synthetic` in main

    (options.scratch / "qrels").write_text("".join(f"{t} 0 d{i} 1\n" for t in range(10) for i in range(50)))
    lines = (f"{t} Q0 d{i} 0 {-i} made\n" for t in range(10) for i in range(1000))
    (options.scratch / "run").write_text("".join(lines))

    def runner(number: int) -> Callable[[str], Any]:
        def work(name: str) -> Any:
            with tempfile.TemporaryDirectory(dir=options.scratch) as cache:
                first = (_HERE, "--serve", "first", *_arguments(options, options.scratch / str(number)))
                if name == _FIRST:
                    child = _child(checkouts[number], *first, NUMBA_CACHE_DIR=cache)
                else:
                    child = _child(checkouts[number], "-c", _COMMAND, *_PROCESSES[name])
                _, spent = cost(child.pop("args"), cwd=options.scratch, **child)
            return 1e3 * spent, ""

        return work

    works = [runner(0), runner(1)]
    _pairs(list(_PROCESSES), works, options.pairs)
    if not options.quick:
        _pairs([_FIRST], works, min(options.pairs, 2))


def _arguments(options: argparse.Namespace, scratch: Path) -> list[object]:
    scratch.mkdir(exist_ok=True)
    own = ["--collection", options.collection, "--settings", options.settings]
    return [*own, "--tolerance", options.tolerance, "--scratch", scratch]


@contextlib.contextmanager
def _worktree(revision: str, folder: Path) -> Iterator[Path]:
    if Path(revision).is_dir():
        yield Path(revision).resolve()
        return
    git = ["git", "-C", str(_HERE.parent), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), revision], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "revision", nargs="?", default="HEAD", help="a git revision, or the folder of a checkout"
    )
    parser.add_argument("--collection", default="50000x100", help="a synthetic collection")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument(
        "--settings", type=int, default=1024, help="number of random settings of lambda and mu"
    )
    parser.add_argument("--tolerance", type=float, default=1e-3, help="tolerance of the certificate")
    parser.add_argument("--only", default="", help="measure only figures with this text in their names")
    parser.add_argument("--quick", action="store_true", help="smallest size, without the compilation figure")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.collection, options.pairs, options.settings, options.tolerance = ("1000x3", 1, 64, 0.1)
    if options.serve:
        serve(options)
        return
    from synthetic import collection  # not in child processes: their lmtune may be too old for it

    options.collection = collection(options.collection)
    with tempfile.TemporaryDirectory() as scratch, _worktree(options.revision, Path(scratch, "old")) as old:
        options.scratch = Path(scratch)
        checkouts = [_HERE.parent.parent, old]
        print(
            f"| CPU ms | here | {options.revision} | ratio of least | median ratio | same |",
            "|---|---|---|---|---|---|",
            sep="\n",
        )
        with contextlib.ExitStack() as stack:
            served = []
            for place, checkout in enumerate(checkouts):
                own = _child(
                    checkout, _HERE, "--serve", "all", *_arguments(options, Path(scratch, str(place)))
                )
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
                served.append(stack.enter_context(subprocess.Popen(**own, **pipes)))

            def ask(child: Any) -> Callable[[str], Any]:
                def work(name: str) -> Any:
                    print(name, file=child.stdin, flush=True)
                    return json.loads(child.stdout.readline())

                return work

            _pairs([name for name in _FIGURES if options.only in name], list(map(ask, served)), options.pairs)
        if not options.only:
            processes(checkouts, options)


if __name__ == "__main__":
    main()
