"""Search engines: supported formulas, agreement with lmtune, and the value of tuning for each engine.

    python benchmarks/engines.py ../shared/data/cranfield ../shared/data/cacm ... --measure AP

Each row is a collection and an engine, or a group of engines with the same formula and defaults. Values are
from cross-validation; each fold's setting is the best of a grid on its training topics. Columns:

- ``bm25``: lmtune's bm25, tuned;
- ``lost``: the difference if the engine's own formula uses bm25's tuned values, or the values it fixes;
- ``usual``, ``tuned``, ``gain``: the engine's default k1 and b, values tuned for its formula, the difference;
- ``p lost``, ``p gain``: p-values of paired t-tests, with Holm's correction over all rows;
- ``alike``: the number of topics that the real engine, configured by ``lmtune deploy``, ranks like lmtune.
  Only engines of --ask are run.

Topics without a relevant document are left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import search
from lmtune.collections.collection import Collection
from lmtune.collections.folds import Fold, cross_validation
from lmtune.engines.catalogue import ENGINES
from lmtune.engines.checking import DEEPER, check_run
from lmtune.engines.deployment import deploy, nearest_model
from lmtune.engines.running import IN_PYTHON, run_engine
from lmtune.errors import InputError
from lmtune.index.cache import index_for
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure, parse_measure
from lmtune.models.bm25 import BM25_PREFIX
from lmtune.tuning.direct import Surface
from lmtune.tuning.space import ParameterSpace

MODEL = "bm25"
_USUAL = {"k1": 1.2, "b": 0.75}
USUAL = dict.fromkeys(ENGINES, _USUAL) | {
    "lucene": {"k1": 0.9, "b": 0.4},
    "bm25s": {"k1": 1.5, "b": 0.75},
    "xapian": {"k1": 1.0, "b": 0.5},
}
"""Each engine's default parameters; Lucene's are those of Anserini and pyserini."""
FETCHED = ("pyterrier",)


class Tuned(NamedTuple):
    """A model's grid on a collection, and the best grid point on each fold's training topics."""

    pool: CandidatePool
    surface: Surface
    places: list[int]

    @classmethod
    def of(cls, pool: CandidatePool, folds: Sequence[Fold], measure: Measure, shape: Sequence[int]) -> Tuned:
        """Evaluate the grid and select each fold's best point."""
        surface = Surface.compute(pool, [measure], space=ParameterSpace.of(pool.formula.name), shape=shape)
        return cls(pool, surface, [surface.best(measure, pool.positions(fold.train))[0] for fold in folds])

    def held_out(self, folds: Sequence[Fold], places: Sequence[int]) -> NDArray[np.float64]:
        """Return each topic's value at its fold's grid point."""
        values = np.full(len(self.pool.topics), np.nan)
        for fold, place in zip(folds, places, strict=True):
            topics = self.pool.positions(fold.test)
            values[topics] = self.surface.values[topics, place, 0]
        return values

    def at(self, setting: Mapping[str, float], measure: Measure) -> NDArray[np.float64]:
        """Return each topic's value at a setting."""
        return measure_settings(self.pool, dict(setting), [measure])[:, 0, 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--measure", type=parse_measure, default="AP")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--grid", type=int, nargs=2, default=[20, 26])
    parser.add_argument("--ask", nargs="*", default=[name for name in IN_PYTHON if name not in FETCHED])
    options = parser.parse_args()
    begin, rows = time.process_time(), []
    for name, engine in ENGINES.items():
        fixed = ", ".join(f"{key} = {value:g} fixed" for key, value in engine.fixed.items())
        print(f"{name}: {', '.join(engine.formulas)}{'; ' if fixed else ''}{fixed}")
    for name in options.collections:
        rows += rows_of(Collection(name), options)
    table = pd.DataFrame(rows)
    for column in ("p lost", "p gain"):
        tested = table[column].notna()
        if tested.any():
            table.loc[tested, column] = multipletests(table.loc[tested, column], method="holm")[1]
    print(table.to_string(index=False, float_format="{:.4f}".format))
    print(f"{time.process_time() - begin:.0f} CPU s")


def rows_of(collection: Collection, options: argparse.Namespace) -> list[dict[str, object]]:
    """Return a collection's rows, one per group of engines."""
    dataset, measure = collection.load(("documents", "topics", "qrels")), options.measure
    assert dataset.documents is not None
    index = index_for(dataset.documents, collection.analyzer())
    names = [MODEL, *dict.fromkeys(BM25_PREFIX + own.variant for own in ENGINES.values())]
    judged = {topic for topic, own in dataset.qrels.items() if max(own.values()) > 0}
    topics = {topic: text for topic, text in dataset.topics.items() if topic in judged}
    pools = {name: CandidatePool.build(index, topics, dataset.qrels, model=name) for name in names}
    folds = cross_validation(pools[MODEL].topics, options.folds)
    tuned = {name: Tuned.of(pool, folds, measure, options.grid) for name, pool in pools.items()}
    ours = tuned[MODEL].held_out(folds, tuned[MODEL].places)
    final = tuned[MODEL].surface.setting(tuned[MODEL].surface.best(measure, pools[MODEL].positions())[0])
    rows = []
    for alike in _alike():
        engine = ENGINES[alike[0]]
        own, usual = tuned[BM25_PREFIX + engine.variant], USUAL[alike[0]]
        default = own.at(usual, measure)
        best = default if engine.fixed else own.held_out(folds, own.places)
        lost = (default if engine.fixed else own.held_out(folds, tuned[MODEL].places)) - ours
        rows.append(
            {"collection": dataset.name, "engine": ", ".join(alike)}
            | {"alike": asked(alike, collection, final, options.ask)}
            | {MODEL: ours.mean(), "lost": lost.mean(), "p lost": p_value(lost)}
            | {"usual": default.mean(), "tuned": best.mean()}
            | {"gain": (best - default).mean(), "p gain": p_value(best - default)}
        )
    return rows


def p_value(differences: NDArray[np.float64]) -> float:
    """Return the p-value of a paired t-test; NaN if all differences are 0."""
    return float(stats.ttest_1samp(differences, 0.0).pvalue) if differences.any() else np.nan


def _alike() -> list[list[str]]:
    """Group the engines by formula, default parameters and fixed values."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, own in ENGINES.items():
        groups.setdefault((own.variant, *USUAL[name].values(), *own.fixed.values()), []).append(name)
    return [*groups.values()]


def asked(names: Sequence[str], collection: Collection, setting: Mapping[str, float], here: list[str]) -> str:
    """Run the real engines; return how many topics each ranks like lmtune, as text."""
    said = []
    for name in names:
        if name not in here:
            continue
        model, values = nearest_model(ENGINES[name], MODEL, setting)
        files = deploy(ENGINES[name], model, values, collection.analyzer())
        try:
            run = run_engine(ENGINES[name], files, collection.load(("documents", "topics")))
        except InputError as error:
            said.append(f"not here ({str(error)[:40]})")
            continue
        found = check_run(run, search(collection, model, values, hits=100 + DEEPER))
        parted = sum(own.reason not in ("tie", "float32") for own in found.differences)
        said.append(f"{found.topics - parted} of {found.topics}")
    return ", ".join(said) or "-"


if __name__ == "__main__":
    main()
