"""How every kind of result is shown where it is printed, in notebooks, as a frame and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from lmtune.candidates.pool import CandidatePool
from lmtune.datasets.dataset import Dataset
from lmtune.errors import InputError
from lmtune.fusion.fusing import FusionResult
from lmtune.judging.judges import JudgesResult
from lmtune.judging.prediction_powered import PoweredResult
from lmtune.judging.selection import ToJudge
from lmtune.measures.from_files import Evaluation
from lmtune.measures.measure import parse_measure
from lmtune.measures.residual_bounds import Residuals, residual_records
from lmtune.measures.significance.comparison import Comparison
from lmtune.reporting import (
    choice_tables,
    comparison_tables,
    fusion_tables,
    judge_tables,
    run_tables,
    tuning_tables,
)
from lmtune.reporting.table import Table, short
from lmtune.tuning.choices.experiment import ChoiceResult
from lmtune.tuning.experiment.result import CollectionResult, parameter_text
from lmtune.tuning.tuner import Tuner

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

_MOST_ROWS = 60  # of an HTML table; a frame has them all


@singledispatch
def tables(shown: Any) -> Sequence[Table]:
    """Make the tables that show a result."""
    raise InputError("nothing to show", value=type(shown).__name__, accepted="a result of lmtune")


Records = Callable[[Any], Iterable[Any]]
_RESULTS: dict[type, tuple[Callable[[Any], Sequence[Table]], Records, Records]] = {
    Comparison: (
        comparison_tables.comparison_tables,
        comparison_tables.as_records,
        comparison_tables.topic_records,
    ),
    ChoiceResult: (choice_tables.choice_tables, choice_tables.as_records, choice_tables.topic_records),
    Evaluation: (
        lambda one: [run_tables.measure_table([one], per_topic=False, summary=True)],
        run_tables.as_records,
        run_tables.topic_records,
    ),
    JudgesResult: (judge_tables.judge_tables, judge_tables.as_records, judge_tables.as_records),
    PoweredResult: (
        lambda result: [judge_tables.table_of(result)],
        judge_tables.powered_records,
        judge_tables.powered_records,
    ),
    ToJudge: (
        lambda pairs: [judge_tables.table_to_judge(pairs)],
        lambda pairs: pairs.records,
        lambda pairs: pairs.records,
    ),
    FusionResult: (fusion_tables.fusion_tables, fusion_tables.as_records, fusion_tables.topic_records),
    Residuals: (
        lambda one: judge_tables.residual_tables([one]),
        lambda one: residual_records([one]),
        lambda one: residual_records([one], per_topic=True),
    ),
    CollectionResult: (
        lambda result: [tuning_tables.mean_table([result]), tuning_tables.parameter_table([result])],
        lambda result: tuning_tables.as_records([result]),
        tuning_tables.topic_records,
    ),
}
"""Of a result: its tables, its records, and one a topic."""

for _kind, _makers in _RESULTS.items():
    tables.register(_kind, _makers[0])


@singledispatch
def to_frame(shown: Any, per_topic: bool = False) -> pd.DataFrame:
    """Make a tidy frame of a result; see `lmtune.showing.Shown`."""
    import pandas as pd

    if type(shown) not in _RESULTS:
        raise InputError("no frame of this", value=type(shown).__name__, accepted="a result of lmtune")
    return pd.DataFrame(_RESULTS[type(shown)][1 + per_topic](shown))


def plot(
    shown: Any,
    *,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
    cmap: str | Colormap | None = None,
    **options: Any,
) -> Figure:
    """Draw a result.

    Parameters
    ----------
    shown : Tuner, CollectionResult, ChoiceResult or Comparison
        A fitted tuner: over two parameters its grid's surface, else how the best value grew. An
        experiment's result: the parameters of every fold. Choices: how they act together. A
        comparison: mean differences with their intervals; of one contrast, the differences on each
        topic.
    ax : matplotlib.axes.Axes, optional
        Draw a picture of one panel here, in place of a new figure.
    figsize : (float, float), optional
        The width and height of a new figure, in inches.
    cmap : str or Colormap, optional
        Colours of a surface.
    **options
        ``title``; ``system``, ``against`` and ``measure`` of a contrast.

    Returns
    -------
    matplotlib.figure.Figure
        That of `ax`, or a new one; `lmtune.reporting.figures.save` writes it for a paper.

    Raises
    ------
    InputError
        For what has no picture, a tuner that is not fitted, an unknown system or measure, several panels
        for one `ax`.
    """
    from lmtune.reporting.figures.style import Canvas, drawn_on

    with drawn_on(Canvas(ax, figsize, cmap)):
        return _picture(shown, **options)


@singledispatch
def _picture(shown: Any, **options: Any) -> Figure:
    """Draw a result; see `plot`."""
    del options
    raise InputError(
        "no picture of this", value=type(shown).__name__, accepted="a tuner, result or comparison"
    )


def text(shown: Any) -> str:
    """Return the tables as plain text, without the last line end."""
    return "\n".join(table.text() for table in tables(shown)).rstrip("\n")


def latex(shown: Any) -> str:
    """Return the tables in LaTeX."""
    return "\n".join(table.latex() for table in tables(shown))


def html(shown: Any) -> str:
    """Return the tables for a notebook; of long ones the beginning."""
    return "".join(_beginning(table).html() for table in tables(shown))


def _beginning(table: Table) -> Table:
    rows = [row for group in table.groups for row in group]
    if len(rows) <= _MOST_ROWS:
        return table
    caption = f"{table.caption} (the first {_MOST_ROWS} of {len(rows):,} rows)"
    return Table(table.columns, [rows[:_MOST_ROWS]], caption, table.legend, table.typeset_legend)


def _facts(caption: str, facts: dict[str, object]) -> Table:
    """Make a table of one row."""
    cells = [f"{value:,}" if isinstance(value, int) else str(value) for value in facts.values()]
    first, *others = facts
    return Table.of([first], others, [[cells]], caption)


@tables.register(Dataset)
def _(shown: Dataset) -> Sequence[Table]:
    gains = [gain for judgements in shown.qrels.values() for gain in judgements.values()]
    facts: dict[str, object] = {"Collection": shown.name, "topics": len(shown.topics)}
    facts |= {"judged topics": len(shown.qrels), "judgements": len(gains)}
    return [_facts("Test collection", facts | {"relevant": sum(gain > 0 for gain in gains)})]


@to_frame.register(Dataset)
def _(shown: Dataset, per_topic: bool = False) -> pd.DataFrame:
    import pandas as pd

    del per_topic
    columns = {"qid": list(shown.topics), "query": list(shown.topics.values())}
    judged = [shown.qrels.get(topic, {}).values() for topic in shown.topics]
    counts = {"judged": map(len, judged), "relevant": (sum(gain > 0 for gain in gains) for gains in judged)}
    return pd.DataFrame(columns | {name: list(column) for name, column in counts.items()})


@tables.register(CandidatePool)
def _(shown: CandidatePool) -> Sequence[Table]:
    relevant, nonrelevant = shown.judged_counts()
    facts: dict[str, object] = {"Collection": shown.name, "model": shown.formula.name}
    facts |= {"topics": len(shown.topics), "documents": int(shown.index.num_docs)}
    facts |= {"candidates": int(shown.candidates.doc.size), "relevant": int(relevant.sum())}
    facts |= {"nonrelevant": int(nonrelevant.sum()), "exact to depth": "any"}
    if shown.pruning is not None:
        facts["exact to depth"] = shown.pruning.depth
    return [_facts("Candidates of each topic", facts)]


@to_frame.register(CandidatePool)
def _(shown: CandidatePool, per_topic: bool = False) -> pd.DataFrame:
    import pandas as pd

    del per_topic
    relevant, nonrelevant = shown.judged_counts()
    return pd.DataFrame(
        {
            "qid": shown.topics,
            "terms": [" ".join(terms) for terms in shown.terms],
            "candidates": np.diff(shown.candidates.start),
            "relevant": relevant,
            "nonrelevant": nonrelevant,
        }
    )


@_picture.register(Comparison)
def _(shown: Comparison, *, title: str = "", **contrast: str) -> Figure:
    from lmtune.reporting.figures.comparisons import contrast_differences, difference_intervals

    if not contrast:
        return difference_intervals(shown, title=title)
    return contrast_differences(shown, title=title, **contrast)


@_picture.register(ChoiceResult)
def _(shown: ChoiceResult, *, title: str = "") -> Figure:
    from lmtune.reporting.figures.comparisons import choice_interactions

    return choice_interactions(shown, title=title)


@_picture.register(CollectionResult)
def _(shown: CollectionResult, *, title: str = "") -> Figure:
    from lmtune.reporting.figures.drawing import chosen_parameters, parameter_axes
    from lmtune.reporting.figures.parameters import parameter_spread

    return parameter_spread(chosen_parameters(shown), parameter_axes(shown), title=title or shown.name)


@tables.register(Tuner)
def _(shown: Tuner) -> Sequence[Table]:
    if not hasattr(shown, "best_params_"):
        return [Table.of(["Tuner"], [], [[[f"{shown!r}, not fitted yet"]]])]
    names = [*shown.best_params_, _value_column(shown), "evaluations", "seconds", "on the edge"]
    texts = [parameter_text(name, value) for name, value in shown.best_params_.items()]
    spent = f"{max(shown.seconds_, default=0.0):.1f}"
    texts += [short(shown.best_value_), f"{shown.n_evaluations_:,}", spent, ", ".join(shown.at_edge_) or "no"]
    return [Table.of(["Tuner"], names, [[[repr(shown), *texts]]], "The best setting")]


@to_frame.register(Tuner)
def _(shown: Tuner, per_topic: bool = False) -> pd.DataFrame:
    del per_topic
    frame = _fitted(shown).results_
    return frame.assign(seconds=shown.seconds_) if len(shown.seconds_) == len(frame) else frame.copy()


@_picture.register(Tuner)
def _(shown: Tuner, *, title: str = "") -> Figure:
    from lmtune.reporting.figures.courses import Search, best_so_far, convergence
    from lmtune.reporting.figures.drawing import best_axes
    from lmtune.reporting.figures.style import canvas
    from lmtune.reporting.figures.surfaces import SurfacePanel, surface

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
