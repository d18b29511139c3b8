"""A folder in which every command has something to do, and what it is asked to do there."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from made_folder import write_folder
from made_lists import made_lists

from lmtune.io.letor import write_letor

_WORDS = [f"word{number}" for number in range(12)]
_FAST = "--net mlp:4 --epochs 2 --batch-size 8 --threads 1"


class Order(NamedTuple):
    """A command line, what it writes, and what of others it removes with the folder it replaces."""

    name: str
    line: str
    writes: tuple[str, ...]
    drops: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        return self.line.split()

    @property
    def is_here(self) -> bool:
        """Whether what it needs is installed."""
        needs = "pyserini" if "lucene" in self.line else "torch" if "rerank" in self.line else "numpy"
        return find_spec(needs) is not None


ORDERS = (
    Order("index", "index c --output idx --workers 1", ("idx",)),
    Order("index-shards", "index c --shards 2 --workers 1 --output big", ("big",)),
    Order("index-lucene", "index c --engine lucene --workers 1 --output luc", ("luc",)),
    Order("search", "search c --output run.txt", ("run.txt", "run.txt.made.json", "indexes")),
    Order(
        "fuse",
        "fuse c/qrels.txt run.txt other.run --method linear,rrf --plot weights --output fused.txt",
        ("fused.txt", "weights"),
    ),
    Order(
        "tune",
        "tune c --train-topics 1-4 --grid 3x3 -m AP --no-approx --output res",
        ("res",),
        drops=("res/report.html", "res/pictures"),
    ),
    Order("report", "report res", ("res/report.html",)),
    Order("plot", "plot res --format png", ("res/pictures",)),
    Order(
        "rerank-train",
        f"rerank train c --run run.txt --train-topics 1-6 --loss ranknet {_FAST} --output model",
        ("model",),
    ),
    Order(
        "rerank-apply",
        "rerank apply model c --run run.txt --output better.txt",
        ("better.txt", "better.txt.made.json"),
    ),
    Order(
        "rerank-features",
        "rerank features c --run run.txt --output features.txt",
        ("features.txt", "features.txt.made.json"),
    ),
    Order(
        "rerank-compare", f"rerank compare l --losses ranknet --trials 1 {_FAST} --output losses", ("losses",)
    ),
)
"""In an order in which each has what it reads."""

MODULES = (
    *(f"lmtune.cli.{name}" for name in ("fuse", "search", "tune")),
    *("lmtune.fusion.fusing", "lmtune.index.builder", "lmtune.report.figures.drawing"),
    *("matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "scipy.optimize"),
    "drawn_once",
)
"""What most commands import."""

NEURAL = (
    *(f"lmtune.cli.rerank.{name}" for name in ("apply", "compare", "train")),
    *("lmtune.rerank.applying", "lmtune.rerank.letor_folder", "lmtune.report.loss_tables"),
)


def modules() -> Iterable[str]:
    """Return what the commands import, of what is installed."""
    return (*MODULES, *NEURAL) if find_spec("torch") else MODULES


def make_world(home: Path) -> None:
    """Write a collection ``c``, a run ``other.run`` and a folder of LETOR files ``l``."""
    rng = np.random.default_rng(0)
    documents = {f"d{number}": " ".join(rng.choice(_WORDS, 5 + number)) for number in range(60)}
    topics = {topic: " ".join(rng.choice(_WORDS, 2)) for topic in range(1, 9)}
    gains = ((topic, f"d{d}", int(d < 20)) for topic in topics for d in range(0, 60, 2))
    write_folder(home / "c", documents, topics, gains)
    other = (f"{t} Q0 d{d} 0 {score} other\n" for t in topics for d, score in enumerate(rng.random(60)))
    (home / "other.run").write_text("".join(other))
    (home / "l").mkdir()
    for seed, name in enumerate(["train", "vali", "test"]):
        write_letor(home / "l" / f"{name}.txt", made_lists(seed, queries=8))
