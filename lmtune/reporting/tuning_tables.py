"""A tuning experiment's tables: means as the SIGIR 2007 paper's Table 1 prints them, and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from lmtune.models.model import described
from lmtune.reporting.table import Cell, Column, Table, name_columns, render, short
from lmtune.tuning.experiment.result import DIRECT, RANKNET, SIGNIFICANCE, CollectionResult, Row

ABOVE_DIRECT, ABOVE_RANKNET = "†", "‡"
_DIGITS = {"lambda": ".4f", "mu": ".2f"}
_TEST = f"two-sided paired t-test, p < {SIGNIFICANCE:g}"
_LEGEND = (
    f"Optimal: the best setting known on the test topics. {ABOVE_DIRECT} (italics) significantly "
    f"better than {DIRECT}, {ABOVE_RANKNET} (bold) than {RANKNET}: {_TEST}"
)


def tuning_table(results: Sequence[CollectionResult], style: str = "table") -> str:
    """Render the means of results.

    Parameters
    ----------
    results : sequence of CollectionResult
        One a collection, all with the same measures and methods.
    style : {"table", "markdown", "latex", "csv", "json"}
        ``"table"`` is plain text; CSV and JSON have every figure at full precision.

    Returns
    -------
    str
        Ends with a line end.

    Raises
    ------
    InputError
        For an unknown style.
    """
    return render(style, lambda: [mean_table(results)], lambda: as_records(results))


def mean_table(results: Sequence[CollectionResult]) -> Table:
    """Make the table of means over test topics: a row a method, a column a collection."""
    groups = []
    rows = zip(*(result.rows for result in results), strict=True)
    for measure, group in groupby(rows, key=lambda row: row[0].measure):
        groups.append(
            [
                (
                    Cell(measure.title, repeated=place > 0),
                    Cell(own[0].method),
                    *(_mean(row, result) for row, result in zip(own, results, strict=True)),
                )
                for place, own in enumerate(group)
            ]
        )
    models = _models(results)
    sentences = f": than {RANKNET} ({_TEST})." + "".join(f" {m[0].upper()}{m[1:]}." for m in models)
    return Table(
        [*name_columns("Metric", "Estimate"), *(Column(result.name, marked=True) for result in results)],
        groups,
        caption="Means over test topics",
        legend=" ".join([_LEGEND, *(f"({model})" for model in models)]),
        typeset_legend=(
            Cell("Italics", style="italic"),
            Cell(f": significantly better than {DIRECT}; "),
            Cell("bold", style="bold"),
            Cell(sentences),
        ),
    )


def parameter_table(results: Sequence[CollectionResult]) -> Table:
    """Make the table of what each method chose on each fold."""
    return Table(
        [
            *name_columns("Collection", "Metric", "Estimate", "Fold"),
            *map(Column, (*parameters(results), "train", "test", "evaluations")),
        ],
        [
            [
                (
                    *(
                        Cell(text, repeated=number > 1)
                        for text in (result.name, row.measure.title, row.method)
                    ),
                    Cell(str(number)),
                    *(Cell(parameter_text(name, value)) for name, value in fit.params.items()),
                    Cell(f"{fit.train_value:.4f}"),
                    Cell(f"{fit.test_value:.4f}"),
                    Cell(str(fit.evaluations)),
                )
                for row in result.rows
                for number, fit in enumerate(row.fits, 1)
            ]
            for result in results
        ],
        caption="Parameters chosen in each fold",
    )


def parameters(results: Sequence[CollectionResult]) -> list[str]:
    """Return the names of the parameters that results have chosen."""
    return list(results[0].rows[0].fits[0].params)


def parameter_text(name: str, value: float, thousands: str = "") -> str:
    """Print a parameter's value."""
    return f"{value:{thousands}{_DIGITS.get(name, '.4g')}}"


def as_records(results: Sequence[CollectionResult]) -> list[dict[str, object]]:
    """Flatten results to one dictionary a row, with every figure at full precision."""
    all_two_stage = not _models(results)
    return [
        {
            "collection": result.name,
            **({} if all_two_stage else {"model": result.model}),
            "measure": str(row.measure),
            "method": row.method,
            "mean": row.mean,
            "topics": len(row.topics),
            **{f"p_value_{name.lower()}": row.p_values.get(name) for name in (DIRECT, RANKNET)},
            **{f"beats_{name.lower()}": row.beats(name, result.rows) for name in (DIRECT, RANKNET)},
            "evaluations": sum(fit.evaluations for fit in row.fits),
        }
        for result in results
        for row in result.rows
    ]


def _models(results: Sequence[CollectionResult]) -> list[str]:
    """Describe the models other than two-stage smoothing, each once."""
    names = dict.fromkeys(result.model for result in results)
    return [text for name in names for text in described(name)]


def _mean(row: Row, result: CollectionResult) -> Cell:
    marks = ((DIRECT, ABOVE_DIRECT, "italic"), (RANKNET, ABOVE_RANKNET, "bold"))
    beaten = [(mark, style) for method, mark, style in marks if row.beats(method, result.rows)]
    return Cell(short(row.mean), "".join(mark for mark, _ in beaten), " ".join(style for _, style in beaten))
