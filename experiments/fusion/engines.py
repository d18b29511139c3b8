"""What tuning in an engine's own terms gains: held-out nDCG@10 of two runs, on five archives.

    python -m experiments.fusion.engines DATA > engines.csv
    python -m experiments.fusion.engines DATA --sets robust04_runs --runs indri-bm25.run.zst indri-fdm.run.zst
    python -m experiments.fusion.engines --summarise engines.csv

`PAIRS` has the files that are read from the folder DATA. A row has the held-out mean of one system, its
difference from the better single run of the archive with a simultaneous 95% interval, and the p-value with
Holm's correction over the fused rows of the archive.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from lmtune.fusion.fusing import FusedRow, fuse_runs
from lmtune.fusion.methods import ENGINE_DEFAULT, TUNED, FusionOptions
from lmtune.fusion.spaces import SPACES
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run
from lmtune.measures.significance.comparison import gains_over, run_labels

PAIRS = {
    "trec_dl19": ("qrels.txt", "bm25.run", "tas-b.run"),
    "trec_dl21_runs": ("qrels.nist.txt.zst", "p_bm25.run.zst", "TUW_TAS-B_768.run.zst"),
    "robust04_runs": ("qrels.txt.zst", "indri-bm25.run.zst", "SABIR04BA.run.zst"),
    "trec_covid_round1": ("qrels.txt.zst", "RUIR-bm25-at-exp.run.zst", "RUIR-doc2vec.run.zst"),
    "touche2020": ("qrels.txt", "bm25.run.zst", "retromae.run.zst"),
}
"""By archive: the judgments, and in the folder ``runs`` the lexical and the dense run."""

SINGLE, OWN = "single run", "lmtune"
"""Values of the column ``system`` beside engines."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the archives; with --summarise: a table")
    parser.add_argument("--sets", nargs="+", default=[*PAIRS], choices=PAIRS)
    parser.add_argument("--runs", nargs=2, help="two other runs of the archives")
    parser.add_argument("--summarise", action="store_true", help="print a table of engines by archives")
    options = parser.parse_args()
    if options.summarise:
        print(summary(pd.read_csv(options.data)).to_csv(sep="|"), end="")
        return
    writer = None
    for name in options.sets:
        judgments, *pair = PAIRS[name]
        for row in rows_of(options.data / name, judgments, *(options.runs or pair)):
            if writer is None:
                writer = csv.DictWriter(sys.stdout, row, lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)
            sys.stdout.flush()


def rows_of(folder: Path, judgments: str, *names: str) -> Iterator[dict[str, str]]:
    """Fuse two runs in every engine's space and in lmtune's, and yield a row for each result."""
    files = [folder / "runs" / name for name in names]
    runs = dict(zip(run_labels(files), map(read_run, files), strict=True))
    qrels = read_qrels(folder / judgments)
    found: dict[tuple[str, str], tuple[FusedRow, float]] = {}
    for engine in ("", *SPACES):
        chosen = {"engine": engine} if engine else {"method": ("shrunk",)}
        begin = time.process_time()
        result = fuse_runs(runs, qrels, FusionOptions(measure=("nDCG@10",), **chosen))
        seconds = time.process_time() - begin
        for row in result.rows:
            if row.is_single:
                found[SINGLE, row.name] = row, 0.0
            elif engine or row.name == "shrunk":
                fusion = ENGINE_DEFAULT if row.name == ENGINE_DEFAULT else TUNED
                found[engine or OWN, fusion] = row, seconds
    singles = [row for (system, _), (row, _) in found.items() if system == SINGLE]
    best = max(singles, key=lambda row: row.mean)
    fused = {"/".join(key): row.values for key, (row, _) in found.items() if key[0] != SINGLE}
    gains = gains_over(best.values, fused, first="")
    for (system, fusion), (row, seconds) in found.items():
        gain = gains.get(f"{system}/{fusion}")
        tested = () if gain is None else (gain.difference, gain.low, gain.high, gain.p_value)
        columns = ("difference", "low", "high", "p")
        weights = ", ".join(f"{run} {weight:.4g}" for run, weight in row.chosen.weights.items())
        yield {
            "archive": folder.name,
            "topics": str(row.values.size),
            "system": system,
            "fusion": fusion,
            "nDCG@10": f"{row.mean:.4f}",
            **dict.fromkeys(columns, ""),
            **{key: f"{x:.4f}" for key, x in zip(columns, tested, strict=False) if x is not None},
            "in sample": f"{row.in_sample:.4f}",
            "at most": "" if row.bound is None else f"{row.bound:.4f}",
            "variant": "" if system == SINGLE else ", ".join([*row.chosen.details, weights]),
            "CPU s": f"{seconds:.1f}",
        }


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a table of systems by archives: means, marked if significantly above or below the best run."""
    signs = rows["difference"].gt(0).map({True: "†", False: "‡"})
    means = rows["nDCG@10"].map("{:.4f}".format)
    rows = rows.assign(cell=means + signs.where(rows["p"] < 0.05, ""))
    best = rows[rows["system"] == SINGLE].groupby("archive")["cell"].max()
    fused = rows[rows["system"] != SINGLE]
    table = fused.pivot(index=["system", "fusion"], columns="archive", values="cell")
    order = pd.MultiIndex.from_frame(fused[["system", "fusion"]].drop_duplicates())
    top = pd.DataFrame([best], index=pd.MultiIndex.from_tuples([(SINGLE, "best")], names=order.names))
    return pd.concat([top, table.loc[order]])[[*dict.fromkeys(rows["archive"])]]


if __name__ == "__main__":
    main()
