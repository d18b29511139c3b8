"""Collections, pools and tuners as tables and frames; the picture of each result that has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.dataset import Dataset
from lmtune.errors import InputError
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.comparison import Comparison
from lmtune.report.table import Table, short
from lmtune.tuning.choices.experiment import ChoiceResult
from lmtune.tuning.experiment.result import CollectionResult, parameter_text
from lmtune.tuning.tuner import Tuner

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def _facts(caption: str, facts: dict[str, object]) -> Table:
    """Make a table of one row."""
    cells = [f"{value:,}" if isinstance(value, int) else str(value) for value in facts.values()]
    first, *others = facts
    return Table.of([first], others, [[cells]], caption)


def dataset_tables(shown: Dataset) -> Sequence[Table]:
    """Make the table of a collection's counts."""
    gains = [gain for judgments in shown.qrels.values() for gain in judgments.values()]
    facts: dict[str, object] = {"Collection": shown.name, "topics": len(shown.topics)}
    facts |= {"judged topics": len(shown.qrels), "judgments": len(gains)}
    return [_facts("Test collection", facts | {"relevant": sum(gain > 0 for gain in gains)})]


def dataset_records(shown: Dataset) -> dict[str, Any]:
    """Return the columns of a frame: a row a topic."""
    columns = {"qid": list(shown.topics), "query": list(shown.topics.values())}
    judged = [shown.qrels.get(topic, {}).values() for topic in shown.topics]
    counts = {"judged": map(len, judged), "relevant": (sum(gain > 0 for gain in gains) for gains in judged)}
    return columns | {name: list(column) for name, column in counts.items()}


def pool_tables(shown: CandidatePool) -> Sequence[Table]:
    """Make the table of a pool's counts."""
    relevant, nonrelevant = shown.judged_counts()
    facts: dict[str, object] = {"Collection": shown.name, "model": shown.formula.name}
    facts |= {"topics": len(shown.topics), "documents": int(shown.index.num_docs)}
    facts |= {"candidates": int(shown.candidates.doc.size), "relevant": int(relevant.sum())}
    facts |= {"nonrelevant": int(nonrelevant.sum()), "exact to depth": "any"}
    if shown.pruning is not None:
        facts["exact to depth"] = shown.pruning.depth
    return [_facts("Candidates of each topic", facts)]


def pool_records(shown: CandidatePool) -> dict[str, Any]:
    """Return the columns of a frame: a row a topic."""
    relevant, nonrelevant = shown.judged_counts()
    return {
        "qid": shown.topics,
        "terms": [" ".join(terms) for terms in shown.terms],
        "candidates": np.diff(shown.candidates.start),
        "relevant": relevant,
        "nonrelevant": nonrelevant,
    }


def tuner_tables(shown: Tuner) -> Sequence[Table]:
    """Make the table of a tuner's best setting."""
    if not hasattr(shown, "best_params_"):
        return [Table.of(["Tuner"], [], [[[f"{shown!r}, not fitted yet"]]])]
    names = [*shown.best_params_, _value_column(shown), "evaluations", "seconds", "on the edge"]
    texts = [parameter_text(name, value) for name, value in shown.best_params_.items()]
    spent = f"{max(shown.seconds_, default=0.0):.1f}"
    texts += [short(shown.best_value_), f"{shown.n_evaluations_:,}", spent, ", ".join(shown.at_edge_) or "no"]
    return [Table.of(["Tuner"], names, [[[repr(shown), *texts]]], "The best setting")]


def tuner_records(shown: Tuner) -> pd.DataFrame:
    """Return what a tuner measured."""
    frame = _fitted(shown).results_
    return frame.assign(seconds=shown.seconds_) if len(shown.seconds_) == len(frame) else frame.copy()


def tuner_picture(shown: Tuner, *, title: str = "") -> Figure:
    """Draw a grid's surface, or how the best value grew."""
    from lmtune.report.figures.courses import Search, best_so_far, convergence
    from lmtune.report.figures.drawing import best_axes
    from lmtune.report.figures.parameters import SurfacePanel, surface
    from lmtune.report.figures.style import canvas

    results, column = _fitted(shown).results_, _value_column(shown)
    value = results[column].to_numpy(np.float64)
    measure = "cost" if column == "cost" else parse_measure(column).title
    free = [name for name in shown.best_params_ if results[name].nunique() > 1]
    full = len(free) == 2 and len(results) == results[free[0]].nunique() * results[free[1]].nunique()
    name = type(shown).__name__
    if full and column != "cost":
        x, y = (results[name].to_numpy(np.float64) for name in free)
        best = shown.best_params_[free[0]], shown.best_params_[free[1]]
        panel = SurfacePanel(name, x, y, value, points={"best": best})
        return surface([panel], best_axes(results[free]), measure=measure, title=title)
    best_yet = -best_so_far(-value) if column == "cost" else best_so_far(value)
    timed = len(shown.seconds_) == len(results) and canvas().ax is None  # axes hold one panel
    seconds = shown.seconds_ if timed else None
    search = Search(name, np.arange(1, value.size + 1), best_yet, seconds=seconds)
    return convergence([search], measure=measure, title=title)


def _fitted(tuner: Tuner) -> Tuner:
    if not hasattr(tuner, "results_"):
        raise InputError("the tuner is not fitted yet", value=repr(tuner), accepted="tuner.fit(pool) first")
    return tuner


def _value_column(tuner: Tuner) -> str:
    """Return the column of what a tuner searched by."""
    others = {"start", "step", *tuner.best_params_}
    return next(str(name) for name in tuner.results_ if name not in others)


def comparison_picture(comparison: Comparison, *, title: str = "", **contrast: str) -> Figure:
    """Draw all intervals, or the differences of a contrast on each topic."""
    from lmtune.report.figures.comparisons import contrast_differences, difference_intervals

    if not contrast:
        return difference_intervals(comparison, title=title)
    return contrast_differences(comparison, title=title, **contrast)


def choice_picture(result: ChoiceResult, *, title: str = "") -> Figure:
    """Draw how choices act together."""
    from lmtune.report.figures.comparisons import choice_interactions

    return choice_interactions(result, title=title)


def result_picture(result: CollectionResult, *, title: str = "") -> Figure:
    """Draw the parameters of every fold."""
    from lmtune.report.figures.drawing import chosen_parameters, parameter_axes
    from lmtune.report.figures.parameters import parameter_spread

    return parameter_spread(chosen_parameters(result), parameter_axes(result), title=title or result.name)
