"""Tables of a tuning experiment: means, laid out as Table 1 of Metzler (2007), and parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from lmtune.measures.measure import Measure
from lmtune.models.model import describe_model, known_model
from lmtune.report.comparison_tables import BETTER, DASH, WORSE
from lmtune.report.recommendation import default_remark, tuning_answer
from lmtune.report.table import Cell, Column, Table, listed, render, short
from lmtune.tuning.experiment.result import (
    DEFAULT,
    EDGE,
    OPTIMAL,
    RANKNET,
    SAMPLED_NEGATIVES,
    SIGNIFICANCE,
    CollectionResult,
    Fit,
    Row,
    at_most,
    parameter_text,
)

_MARKS = {SAMPLED_NEGATIVES: "§", EDGE: "¶"}
_ORACLE = f"{OPTIMAL}: tuned on the test topics (oracle), not tested"


def marks_legend(results: Sequence[CollectionResult]) -> str:
    """Return the note on marks; empty without defaults."""
    if not any(result.gains for result in results):
        return ""
    first = listed(list(dict.fromkeys(result.fixed_method for result in results)))
    return (
        f"{BETTER} significantly better than {DEFAULT}, {WORSE} significantly worse (two-sided paired t-test "
        f"for each measure, adjusted p < {SIGNIFICANCE:g}: {first} first, then the others with Holm's "
        "correction)"
    )


def tuning_table(results: Sequence[CollectionResult], style: str = "table") -> str:
    """Render the means of results, and the settings fitted on all topics.

    Parameters
    ----------
    results : sequence of CollectionResult
        One a collection, all with the same measures and methods.
    style : {"table", "markdown", "latex", "csv", "json"}
        ``"table"`` is plain text, which starts with the answer. CSV and JSON have numbers at full
        precision, and the parameters of each fold.

    Returns
    -------
    str
        Ends with a newline.

    Raises
    ------
    InputError
        For an unknown style.
    """
    rendered = render(
        style,
        lambda: [mean_table(results), *weight_tables(results), *final_tables(results)],
        lambda: _with_columns_of_parameters(results),
        content=lambda: _with_fits(results),
    )
    return f"{answers(results)}{rendered}" if style == "table" else rendered


def answers(results: Sequence[CollectionResult]) -> str:
    """Return the answers, one a collection."""
    return "".join(answer.text() for answer in map(tuning_answer, results) if answer)


def mean_table(results: Sequence[CollectionResult]) -> Table:
    """Return the table of means over test topics: a row a method, a column a collection."""
    rows_by_key = [{(row.measure, row.method): row for row in result.rows} for result in results]
    groups: dict[Measure, list[list[str | Cell]]] = {}
    longest_first = sorted(rows_by_key, key=len, reverse=True)
    for measure, method in dict.fromkeys(key for rows in longest_first for key in rows):
        group = groups.setdefault(measure, [])
        means = [
            _mean(rows.get((measure, method)), result)
            for rows, result in zip(rows_by_key, results, strict=True)
        ]
        group.append([Cell(measure.title, repeated=bool(group)), method, *means])
    models, remarks = _models(results), remarks_on(results)
    figures = [Column(result.name, marked=True) for result in results]
    oracle = [_ORACLE] if any(row.method == OPTIMAL for result in results for row in result.rows) else []
    notes = [*oracle, marks_legend(results), *(f"{text[0].upper()}{text[1:]}" for text in models), *remarks]
    legend = "\n".join(" ".join(text.splitlines()) for text in notes if text)
    return Table.of(["Measure", "Method"], figures, groups.values(), "Means over test topics", legend)


def weight_tables(results: Sequence[CollectionResult]) -> list[Table]:
    """Return the table of overfitting and of harmed topics, if there are models with term weights."""
    weighted = [result for result in results if _has_weights(result)]
    groups = [
        [
            [
                Cell(result.name, repeated=at > 0),
                *(row.measure.title, row.method, short(row.in_sample), short(row.mean)),
                *(DASH if plain is None else f"{share:.2f}" for share in row.changes(plain or row)),
                ", ".join(filter(None, (fit.step for fit in row.fits))),
            ]
            for at, (row, plain) in enumerate(_beside_default(result))
        ]
        for result in weighted
    ]
    legend = (
        "in sample: on training topics, mean over folds; held out: on test topics\n"
        f"harmed, helped: shares of the test topics below and above {DEFAULT}\n"
        "ridge: chosen in each fold on training topics: plain query, feedback alone, or a regularisation "
        "strength"
    )
    names = ["Collection", "Measure", "Method"]
    figures = ("in sample", "held out", "harmed", "helped", Column("ridge", "left"))
    return [Table.of(names, figures, groups, "Overfitting and robustness", legend)] if weighted else []


def _has_weights(result: CollectionResult) -> bool:
    known = known_model(result.model)
    return known is not None and bool(known.formula.simpler)


def _beside_default(result: CollectionResult) -> Iterator[tuple[Row, Row | None]]:
    """Yield each fitted row with the default's row of the same measure, if there is one."""
    for row in result.rows:
        same = (r for r in result.rows if r.measure == row.measure and r.method == DEFAULT)
        if row.method not in (DEFAULT, OPTIMAL):
            yield row, next(same, None)


def parameter_table(results: Sequence[CollectionResult]) -> Table:
    """Return the table of the parameters that each method chose in each fold."""
    groups = [
        [
            [
                *(Cell(text, repeated=number > 1) for text in (result.name, row.measure.title, row.method)),
                str(number),
                *(parameter_text(name, value) for name, value in fit.params.items()),
                *(f"{fit.train_value:.4f}", f"{fit.test_value:.4f}", str(fit.evaluations)),
            ]
            for row in result.rows
            if row.method != DEFAULT
            for number, fit in enumerate(row.fits, 1)
        ]
        for result in results
    ]
    figures = [*parameters(results), "train", "test", "evaluations"]
    names = ["Collection", "Measure", "Method", "Fold"]
    return Table.of(names, figures, groups, "Parameters chosen in each fold")


def final_tables(results: Sequence[CollectionResult]) -> list[Table]:
    """Return the table of settings fitted on all topics, if any method was."""
    if not any(row.final for result in results for row in result.rows):
        return []
    fitted = [f"{len(result.topics):,} of {' '.join(result.name.splitlines())}" for result in results]
    folds = sorted({len(result.folds) for result in results})
    where = f"{' or '.join(map(str, folds))} folds" if folds != [1] else "the test topics"
    legend = (
        f"Final: fitted on all topics ({listed(fitted)}); all topics: its mean on them\n"
        f"held out ({where}): mean of settings chosen in the same way on training topics"
    )
    figures = [*parameters(results), "all topics", "held out"]
    groups = [list(_final_rows(result)) for result in results]
    names = ["Collection", "Measure", "Method"]
    return [Table.of(names, figures, groups, "Settings fitted on all topics", legend)]


def _final_rows(result: CollectionResult) -> Iterator[list[str | Cell]]:
    """Yield a row for each method and measure with a setting fitted on all topics."""
    known: set[object] = set()
    for row in result.rows:
        if (fit := row.final) is not None:
            names = (
                Cell(result.name, repeated=bool(known)),
                Cell(row.measure.title, repeated=row.measure in known),
            )
            known.add(row.measure)
            texts = [parameter_text(*item) for item in fit.params.items()]
            yield [*names, row.method, *texts, short(fit.train_value), short(fit.test_value)]


def remarks_on(results: Sequence[CollectionResult]) -> list[str]:
    """Return the notes below the table of means: default, dashes, marks, proven bounds."""
    rows = [(result, row) for result in results for row in result.rows]

    def named(caution: str) -> str:
        return listed(list(dict.fromkeys(result.name for result, row in rows if caution in row.cautions)))

    remarks = list(filter(None, dict.fromkeys(map(default_remark, results))))
    measured = {row.measure for _, row in rows}
    if lacking := [one.name for one in results if measured - {row.measure for row in one.rows}]:
        remarks.append(f"{DASH} {listed(lacking)} has no judged non-relevant documents")
    if names := named(SAMPLED_NEGATIVES):
        remarks.append(
            f"{_MARKS[SAMPLED_NEGATIVES]} {names}: unjudged documents sampled as negatives for topics "
            "without judged non-relevant documents"
        )
    ended = dict.fromkeys(
        f"fold {number} of {result.name} ({' and '.join(fit.at_edge)})"
        for result, row in rows
        if EDGE in row.cautions
        for number, fit in enumerate(row.fits, 1)
        if fit.at_edge
    )
    if ended:
        remarks.append(
            f"{_MARKS[EDGE]} {RANKNET} ended on the edge of the range in {listed(list(ended))}; "
            "--ranknet-validation 0.2 stops it early, by validation topics"
        )
    proven = [
        f"{at_most(bound)} {row.measure.title} on {result.name}"
        for result, row in rows
        if (bound := result.bound(row)) is not None
    ]
    return [*remarks, f"Proven: no parameters exceed {listed(proven)}"] if proven else remarks


def parameters(results: Sequence[CollectionResult]) -> list[str]:
    """Return the names of the tuned parameters."""
    return list(results[0].rows[0].fits[0].params)


def tuning_records(results: Sequence[CollectionResult]) -> list[dict[str, object]]:
    """Return one dictionary a row, with numbers at full precision."""
    all_two_stage = not _models(results)
    return [
        {
            "collection": result.name,
            **({} if all_two_stage else {"model": result.model}),
            "measure": str(row.measure),
            "method": row.method,
            "mean": row.mean,
            "topics": len(row.topics),
            "recommended": row is result.recommended_for(row.measure),
            **_gain_over_default(row, result),
            "better": result.significance(row) > 0,
            "worse": result.significance(row) < 0,
            "evaluations": row.evaluations,
            "bound": result.bound(row),
            "cautions": " ".join(row.cautions),
        }
        for result in results
        for row in result.rows
    ]


def _gain_over_default(row: Row, result: CollectionResult) -> dict[str, float | None]:
    """Return the difference from the default, its 95% interval and adjusted p-value; None if undefined."""
    names = "difference_default", "low_default", "high_default", "p_value_default"
    gain = result.gains.get((row.measure, row.method), (None,) * len(names))
    return dict(zip(names, gain, strict=True))


def result_topics(result: CollectionResult) -> Iterator[dict[str, object]]:
    """Yield the value of each method on each test topic."""
    fold_of = {topic: number for number, fold in enumerate(result.folds, 1) for topic in fold.test}
    for row in result.rows:
        names = {"collection": result.name, "measure": str(row.measure), "method": row.method}
        for topic, value in zip(row.topics, row.values.tolist(), strict=True):
            yield names | {"fold": fold_of[topic], "topic": topic, "value": value}


def _with_columns_of_parameters(results: Sequence[CollectionResult]) -> list[dict[str, object]]:
    """Add a column for each parameter and fold, and for the fit on all topics, to the records."""
    most, names = max(len(result.folds) for result in results), parameters(results)
    records = tuning_records(results)
    for record, row in zip(records, (row for result in results for row in result.rows), strict=True):
        fits: dict[str, Fit | None] = dict.fromkeys(f"fold{number}" for number in range(1, most + 1))
        fits |= {f"fold{number}": fit for number, fit in enumerate(row.fits, 1)} | {"final": row.final}
        record |= {f"{n}_{fold}": fit and fit.params[n] for fold, fit in fits.items() for n in names}
    return records


def _with_fits(results: Sequence[CollectionResult]) -> list[dict[str, object]]:
    """Add the settings of each fold, and those fitted on all topics, to the records."""
    records = tuning_records(results)
    for record, row in zip(records, (row for result in results for row in result.rows), strict=True):
        record |= {"cautions": list(row.cautions), "folds": [asdict(fit) for fit in row.fits]}
        record["final"] = row.final and asdict(row.final)
        record["setting"] = row.setting and row.setting.params
    return records


def _models(results: Sequence[CollectionResult]) -> list[str]:
    """Return the descriptions of the models other than two-stage smoothing."""
    names = dict.fromkeys(result.model for result in results)
    return [text for name in names for text in describe_model(name)]


def _mean(row: Row | None, result: CollectionResult) -> Cell:
    if row is None:
        return Cell(DASH)
    mark = {1: BETTER, 0: "", -1: WORSE}[result.significance(row)]
    return Cell(short(row.mean), mark, caution="".join(map(_MARKS.__getitem__, row.cautions)))


def result_tables(result: CollectionResult) -> list[Table]:
    """Return the tables of means and of the parameters of each fold."""
    return [mean_table([result]), parameter_table([result])]


def result_records(result: CollectionResult) -> list[dict[str, object]]:
    """Return one record a row; see `tuning_records`."""
    return tuning_records([result])
