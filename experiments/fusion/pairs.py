"""Engines' tuned variants for pairs of runs that are drawn by a rule: docs/protocols/hybrid-engines.md.

    python -m experiments.fusion.pairs DATA > values.csv
    python -m experiments.fusion.pairs --summarise values.csv

The first command prints a row for each archive, second run, system and topic; ``--archives`` limits it.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from experiments.fusion.engines import PAIRS, SINGLE
from lmtune.fusion.fusing import BEST_SINGLE, fuse_runs
from lmtune.fusion.methods import ENGINE_DEFAULT, TUNED, FusionOptions
from lmtune.fusion.spaces import SPACES
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run
from lmtune.measures.significance.comparison import run_labels
from lmtune.measures.significance.tests import adjusted

ARCHIVES = ("trec_dl21_runs", "robust04_runs", "trec_covid_round1", "trec_dl19", "touche2020")
SEED, DRAWN, FAMILY = 59, 10, 42
COLUMNS = ("archive", "run", "system", "fusion", "topic", "value")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the archives; with --summarise: a table of values")
    parser.add_argument("--archives", nargs="+", default=ARCHIVES, choices=ARCHIVES)
    parser.add_argument("--summarise", action="store_true", help="print means, differences and tests")
    options = parser.parse_args()
    if options.summarise:
        print(summary(pd.read_csv(options.data)).to_csv(sep="|", index=False), end="")
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for archive in options.archives:
        for row in values_of(options.data / archive, PAIRS[archive][0], PAIRS[archive][2]):
            writer.writerow(row)
            sys.stdout.flush()


def draw(files: list[Path], measured: str) -> tuple[Path, list[Path]]:
    """Return the first run of all pairs, and the second runs, without one that was measured before."""
    by_name = dict(sorted(zip(run_labels(files), files, strict=True)))
    first = next(file for name, file in by_name.items() if "bm25" in name.lower())
    others = [file for name, file in by_name.items() if "bm25" not in name.lower() and file.name != measured]
    drawn = np.random.default_rng(SEED).choice(len(others), min(DRAWN, len(others)), replace=False)
    return first, [others[n] for n in drawn.tolist()]


def values_of(folder: Path, judgments: str, measured: str) -> Iterator[tuple[object, ...]]:
    """Fuse an archive's pairs in every engine's space, and yield rows of `COLUMNS`."""
    qrels = read_qrels(folder / judgments)
    first, seconds = draw([*(folder / "runs").iterdir()], measured)
    lexical = read_run(first)
    for second in seconds:
        [label] = run_labels([second])
        runs = {"lexical": lexical, label: read_run(second)}
        for engine in SPACES:
            result = fuse_runs(runs, qrels, FusionOptions(engine=engine, measure=("nDCG@10",)))
            for row in result.rows:
                system, fusion = (SINGLE, row.name) if row.is_single else (engine, row.name)
                if not row.is_single or engine == next(iter(SPACES)):
                    for topic, value in zip(result.topics, row.values.tolist(), strict=True):
                        yield folder.name, label, system, fusion, topic, value


def summary(values: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each archive, engine and baseline: means, the difference, its interval and p."""
    rows: list[dict[str, Any]] = []
    index = ["run", "topic"]
    for archive, own in values.groupby("archive", sort=False):
        single = own[own["system"] == SINGLE].pivot(index=index, columns="fusion", values="value")
        best = single.groupby("run").mean().idxmax(axis=1)
        picked: Any = pd.concat([single.loc[[run]][name] for run, name in best.items()])
        for engine in SPACES:
            part = own[own["system"] == engine].pivot(index=index, columns="fusion", values="value")
            for name, baseline in ((ENGINE_DEFAULT, part[ENGINE_DEFAULT]), (BEST_SINGLE, picked)):
                table = (part[TUNED] - baseline).unstack("run")
                topics, pairs = table.shape
                error = (table.mean(axis=1).var() / topics + table.mean().var() / pairs) ** 0.5
                mean, degrees = float(table.to_numpy().mean()), pairs - 1
                half = student.ppf(0.975, degrees) * error
                rows.append(
                    {
                        "archive": archive,
                        "engine": engine,
                        "baseline": name,
                        "pairs": pairs,
                        "tuned": part[TUNED].mean(),
                        "of baseline": baseline.mean(),
                        "difference": mean,
                        "low": mean - half,
                        "high": mean + half,
                        "pairs above": int((table.mean() > 0).sum()),
                        "p": 2.0 * student.sf(abs(mean) / error, degrees),
                    }
                )
    table = pd.DataFrame(rows)
    tested = table["pairs"] == DRAWN
    p_values = table.loc[tested, "p"].tolist()
    missing = [1.0] * (FAMILY - len(p_values))  # the archives that are not in the table
    table.loc[tested, "p"] = adjusted([*p_values, *missing])[: len(p_values)]
    table.loc[~tested, ["low", "high", "p"]] = np.nan
    return table.round(4)


if __name__ == "__main__":
    main()
