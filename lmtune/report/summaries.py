"""Tables, frames and pictures of collections, candidate pools, tuners and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lmtune.arrays import Columns
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.dataset import Dataset
from lmtune.errors import InputError
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.comparison import Comparison
from lmtune.report.comparison_tables import measure_label
from lmtune.report.table import Table, short
from lmtune.tuning.choices.experiment import ChoiceResult
from lmtune.tuning.experiment.result import CollectionResult, parameter_text
from lmtune.tuning.tuner import Tuner

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _facts(caption: str, facts: dict[str, object]) -> Table:
    """Return a table with one row of facts."""
    cells = [f"{value:,}" if isinstance(value, int) else str(value) for value in facts.values()]
    first, *others = facts
    return Table.of([first], others, [[cells]], caption)


def dataset_tables(dataset: Dataset) -> Sequence[Table]:
    """Return the table of a collection's counts."""
    gains = [gain for judgments in dataset.qrels.values() for gain in judgments.values()]
    facts: dict[str, object] = {"Collection": dataset.name, "topics": len(dataset.topics)}
    facts |= {"judged topics": len(dataset.qrels), "judgments": len(gains)}
    return [_facts("Test collection", facts | {"relevant": sum(gain > 0 for gain in gains)})]


def dataset_records(dataset: Dataset) -> dict[str, Any]:
    """Return the columns of a frame: a row a topic."""
    columns = {"qid": list(dataset.topics), "query": list(dataset.topics.values())}
    judged = [dataset.qrels.get(topic, {}).values() for topic in dataset.topics]
    counts = {"judged": map(len, judged), "relevant": (sum(gain > 0 for gain in gains) for gains in judged)}
    return columns | {name: list(column) for name, column in counts.items()}


def pool_tables(pool: CandidatePool) -> Sequence[Table]:
    """Return the table of a pool's counts."""
    relevant, nonrelevant = pool.judged_counts()
    facts: dict[str, object] = {"Collection": pool.name, "model": pool.formula.name}
    facts |= {"topics": len(pool.topics), "documents": int(pool.index.num_docs)}
    facts |= {"candidates": int(pool.candidates.doc.size), "relevant": int(relevant.sum())}
    facts |= {"judged non-relevant": int(nonrelevant.sum()), "exact to depth": "any"}
    if pool.pruning is not None:
        facts["exact to depth"] = pool.pruning.depth
    return [_facts("Candidates of each topic", facts)]


def pool_records(pool: CandidatePool) -> dict[str, Any]:
    """Return the columns of a frame: a row a topic."""
    relevant, nonrelevant = pool.judged_counts()
    return {
        "qid": pool.topics,
        "terms": [" ".join(terms) for terms in pool.terms],
        "candidates": np.diff(pool.candidates.start),
        "relevant": relevant,
        "nonrelevant": nonrelevant,
    }


def tuner_tables(tuner: Tuner) -> Sequence[Table]:
    """Return the table of a tuner's best setting."""
    if not hasattr(tuner, "best_params_"):
        return [Table.of(["Tuner"], [], [[[f"{tuner!r}, not fitted yet"]]])]
    value = measure_label(_value_column(tuner))
    names = [*tuner.best_params_, value, "evaluations", "seconds", "on the edge"]
    texts = [parameter_text(name, value) for name, value in tuner.best_params_.items()]
    seconds = f"{max(tuner.seconds_, default=0.0):.1f}"
    edges = ", ".join(tuner.at_edge_) or "no"
    texts += [short(tuner.best_value_), f"{tuner.n_evaluations_:,}", seconds, edges]
    return [Table.of(["Tuner"], names, [[[repr(tuner), *texts]]], "Best setting")]


def tuner_records(tuner: Tuner) -> Columns:
    """Return the evaluated settings of a tuner."""
    columns, seconds = _fitted(tuner).columns_, np.array(tuner.seconds_)
    return columns | ({"seconds": seconds} if len(seconds) == len(columns["start"]) else {})


def tuner_picture(tuner: Tuner, *, title: str = "") -> Figure:
    """Draw the surface of a grid, or the best value over evaluations."""
    from lmtune.report.figures.courses import Search, best_so_far, convergence
    from lmtune.report.figures.drawing import best_axes
    from lmtune.report.figures.parameters import SurfacePanel, surface
    from lmtune.report.figures.style import canvas

    results, column = _fitted(tuner).results_, _value_column(tuner)
    value = results[column].to_numpy(np.float64)
    measure = "cost" if column == "cost" else parse_measure(column).title
    free = [name for name in tuner.best_params_ if results[name].nunique() > 1]
    is_grid = len(free) == 2 and len(results) == results[free[0]].nunique() * results[free[1]].nunique()
    name = type(tuner).__name__
    if is_grid and column != "cost":
        x, y = (results[name].to_numpy(np.float64) for name in free)
        best = tuner.best_params_[free[0]], tuner.best_params_[free[1]]
        panel = SurfacePanel(name, x, y, value, points={"best": best})
        return surface([panel], best_axes(results[free]), measure=measure, title=title)
    best_yet = -best_so_far(-value) if column == "cost" else best_so_far(value)
    is_timed = len(tuner.seconds_) == len(results) and canvas().ax is None  # the user's axes have one panel
    seconds = tuner.seconds_ if is_timed else None
    search = Search(name, np.arange(1, value.size + 1), best_yet, seconds=seconds)
    return convergence([search], measure=measure, title=title)


def _fitted(tuner: Tuner) -> Tuner:
    if not hasattr(tuner, "columns_"):
        raise InputError("the tuner is not fitted yet", value=repr(tuner), accepted="tuner.fit(pool) first")
    return tuner


def _value_column(tuner: Tuner) -> str:
    """Return the column of the value that the tuner optimised."""
    others = {"start", "step", *tuner.best_params_}
    return next(str(name) for name in tuner.columns_ if name not in others)


def comparison_picture(comparison: Comparison, *, title: str = "", **contrast: str) -> Figure:
    """Draw the intervals of all contrasts, or the topic differences of one."""
    from lmtune.report.figures.comparisons import contrast_differences, difference_intervals

    if not contrast:
        return difference_intervals(comparison, title=title)
    return contrast_differences(comparison, title=title, **contrast)


def choice_picture(result: ChoiceResult, *, title: str = "") -> Figure:
    """Draw the interactions of categorical parameters."""
    from lmtune.report.figures.comparisons import choice_interactions

    return choice_interactions(result, title=title)


def result_picture(result: CollectionResult, *, title: str = "") -> Figure:
    """Draw the parameters of every fold."""
    from lmtune.report.figures.drawing import chosen_parameters, parameter_axes
    from lmtune.report.figures.parameters import parameter_spread

    return parameter_spread(chosen_parameters(result), parameter_axes(result), title=title or result.name)
