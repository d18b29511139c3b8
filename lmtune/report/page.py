"""The HTML report of a results folder: a single file without network access, reproducible byte for byte."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from lmtune.errors import visible
from lmtune.io.files import atomic_write
from lmtune.io.folders import check_file, recorded_files
from lmtune.io.result_folders import RECORD
from lmtune.progress import Progress, silent
from lmtune.report.comparison_tables import BETTER, WORSE
from lmtune.report.figures import Picture, choice_pictures, draw, render
from lmtune.report.figures.style import COLUMN, can_draw
from lmtune.report.recommendation import gain_cells, tuning_answer
from lmtune.report.table import Answer, Table, listed, short
from lmtune.report.tuning_tables import (
    final_tables,
    marks_legend,
    mean_table,
    parameters,
    remarks_on,
    weight_tables,
)
from lmtune.tuning.choices.stored import CHOICES_KIND, StoredChoices, is_choices, read_choices
from lmtune.tuning.experiment.result import DEFAULT, OPTIMAL, CollectionResult, Row, at_most, parameter_text
from lmtune.tuning.experiment.stored import KIND, StoredResults, read_results

MOST_ROWS = 2500
"""Rows of the topic table before the reader asks for all."""

_PLOT_WIDTH, _PLOT_MARGIN = 200, 6  # pixels
# Dark colours for matplotlib's black and white inside each SVG; report.css covers the rest of the page.
_DARK_STYLE = (
    "<style>@media (prefers-color-scheme: dark) {"
    "text, path:not([style*='fill:']), use:not([style*='fill:']) { fill: #e4e7eb }"
    "[style*='stroke: #000000'] { stroke: #e4e7eb !important }"
    "[style*='fill: #ffffff'] { fill: #1b1f25 !important }"
    "[style*='stroke: #ffffff'] { stroke: #1b1f25 !important }"
    "}</style>"
)
_TAG = re.compile(r"<svg [^>]*>")


def write_report(results: Path, target: Path, *, progress: Progress = silent) -> None:
    """Write the HTML report of a results folder; without matplotlib or pandas it has no pictures.

    Parameters
    ----------
    results : path
        A folder written by `lmtune.report.tuning_results.write_results` or
        `lmtune.report.choice_tables.write_choices_folder`.
    target : path
        The file to write.
    progress : Progress
        Called after each picture.

    Raises
    ------
    InputError
        If the folder is not a results folder, or one of its tables cannot be read.
    """
    kind = CHOICES_KIND if is_choices(results) else KIND
    check_file(target, reads=[results / name for name in (RECORD, *recorded_files(results, kind))])
    if kind is CHOICES_KIND:
        choices = read_choices(results)
        pictures = choice_pictures(choices) if can_draw() else ()
        text = _choice_page(choices, _with_progress(pictures, progress))
    else:
        stored = read_results(results)
        pictures = draw(results, stored.results) if can_draw() else ()
        text = page(stored, _with_progress(pictures, progress))
    with atomic_write(target) as file:
        file.write(text)


def _with_progress(pictures: Iterable[Picture], progress: Progress) -> Iterator[Picture]:
    for number, picture in enumerate(pictures):
        progress("drawing pictures", number, 0)
        yield picture


def page(stored: StoredResults, pictures: Iterable[Picture] = (), *, most_rows: int = MOST_ROWS) -> str:
    """Return the report of a results folder.

    Parameters
    ----------
    stored : StoredResults
        The result of `lmtune.tuning.experiment.stored.read_results`.
    pictures : iterable of Picture
        Shown in this order, by group; the pictures of a part are folded until the reader opens them.
        A picture of a page's width scrolls in a box on small screens.
    most_rows : int
        Rows of the topic table before the reader asks for all.

    Returns
    -------
    str
        HTML without references to other files or hosts, and without a date. Its content security policy
        allows only its own style and script, by their digests, and embedded pictures.
    """
    results = stored.results
    names = parameters(results)
    fits = [fit for result in results for row in result.rows for fit in row.fits]
    return _page(
        stored,
        {result.name: answer for result in results if (answer := tuning_answer(result))},
        pictures,
        plan=stored.record["plan"],
        most_rows=most_rows,
        listed_parameters=listed(names),
        choosers=listed([method for method in _methods(results) if method not in (OPTIMAL, DEFAULT)]),
        comparison=mean_table(results),
        remarks=remarks_on(results),
        more_tables=[
            *(("weights", "Weights of terms", table) for table in weight_tables(results)),
            *(("final", "Final settings", table) for table in final_tables(results)),
        ],
        marks={BETTER: "significantly better than Default", WORSE: "significantly worse than Default"},
        marks_legend=marks_legend(results),
        differences=[_differences(result) for result in results if result.gains],
        parameters=names,
        choices=[(result.name, _choices(result)) for result in results],
        edges=any(fit.at_edge for fit in fits),
        bounds=any(fit.bound is not None for fit in fits),
    )


def _choice_page(stored: StoredChoices, pictures: Iterable[Picture] = ()) -> str:
    """Return the report of categorical parameters; see `page`."""
    results, record = stored.results, stored.results.record
    how = {name: record[name] for name in ("inner_folds", "race")}
    sections = ("choice", "Comparison"), ("cases", "Combinations"), ("effects", "Effects")
    return _page(
        results,
        {result.name: Answer(**stored.answer) for result in results.results},
        pictures,
        plan=record["plan"] | record["choices"] | how,
        more_tables=[
            (*names, Table.from_record(table)) for names, table in zip(sections, stored.tables, strict=False)
        ],
    )


def _page(
    stored: StoredResults,
    answers: Mapping[str, Answer],
    pictures: Iterable[Picture],
    *,
    plan: Mapping[str, Any],
    comparison: Table | None = None,
    most_rows: int = MOST_ROWS,
    **sections: Any,
) -> str:
    """Return a page of the common sections and of further ones."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = files("lmtune.report") / "templates"
    style, script, template = (
        (folder / name).read_text(encoding="utf-8") for name in ("report.css", "report.js", "report.html.j2")
    )
    environment = Environment(
        autoescape=True,
        # HTML does not allow control characters.
        finalize=lambda value: visible(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    leads: dict[str, list[dict[str, Any]]] = {}
    others = []
    for picture in pictures:
        if picture.lead:
            leads.setdefault(picture.group, []).append(_drawn(picture))
        else:
            others.append(picture)
    return environment.from_string(template).render(
        style=Markup(style),
        script=Markup(script),
        style_digest=_digest(style),
        script_digest=_digest(script),
        data=Markup(_topic_data(stored)),
        results=stored.results,
        record=stored.record,
        title=listed([result.name for result in stored.results]),
        facts=_facts(stored),
        methods=_methods(stored.results),
        measures=list(dict.fromkeys(row.measure.title for row in stored.results[0].rows)),
        answers=[(answer, leads.get(name, [])) for name, answer in answers.items()],
        comparison=comparison,
        picture_groups=_grouped(others),
        inputs=[(str(one.get("name", "")), _counted(one)) for one in stored.record["collections"]],
        plan=_plain(plan),
        versions=_plain(stored.record["versions"]),
        most_rows=most_rows,
        **sections,
    )


def _methods(results: Sequence[CollectionResult]) -> list[str]:
    return list(dict.fromkeys(row.method for row in results[0].rows))


def _grouped(pictures: Iterable[Picture]) -> list[tuple[str, list[tuple[str, list[dict[str, Any]]]]]]:
    """Render pictures and group consecutive ones by group, then by part."""
    return [
        (
            group,
            [(part, [*map(_drawn, one)]) for part, one in groupby(some, key=lambda picture: picture.part)],
        )
        for group, some in groupby(pictures, key=lambda picture: picture.group)
    ]


def _drawn(picture: Picture) -> dict[str, Any]:
    # A picture in a data: URL cannot run scripts.
    svg = _TAG.sub(lambda tag: tag[0] + _DARK_STYLE, render(picture.figure, "svg").decode(), count=1)
    data = base64.b64encode(svg.encode()).decode()
    return {
        "title": picture.title,
        "alt": picture.alt,
        "url": f"data:image/svg+xml;base64,{data}",
        "wide": picture.figure.get_figwidth() > COLUMN,
    }


def _facts(stored: StoredResults) -> list[tuple[str, str]]:
    results = stored.results
    measures = dict.fromkeys(row.measure.title for row in results[0].rows)
    topics = sum(len(fold.test) for result in results for fold in result.folds)
    folds = sorted({len(result.folds) for result in results})
    return [
        ("collection" if len(results) == 1 else "collections", f"{len(results):,}"),
        ("test topics", f"{topics:,}"),
        ("fold" if folds == [1] else "folds", " or ".join(map(str, folds))),
        ("measures", ", ".join(measures)),
    ]


def _choices(result: CollectionResult) -> list[dict[str, Any]]:
    """Return the settings of each method and fold, by measure."""
    return [
        {
            "title": measure.title,
            "lines": [
                {
                    "method": row.method,
                    "fold": number,
                    "folds": len(row.fits),
                    "setting": [parameter_text(*item, thousands=",") for item in fit.params.items()],
                    "train": short(fit.train_value),
                    "test": short(fit.test_value),
                    "bound": "" if fit.bound is None else at_most(fit.bound),
                    "evaluations": f"{fit.evaluations:,}",
                    "edges": ", ".join(fit.at_edge),
                }
                for row in rows
                if row.method != DEFAULT
                for number, fit in enumerate(row.fits, 1)
            ],
        }
        for measure, rows in groupby(result.rows, key=lambda row: row.measure)
    ]


def _topic_data(stored: StoredResults) -> str:
    """Return the values of all topics as JSON, escaped for a script element."""
    content = [
        {
            "name": result.name,
            "topics": (topics := [topic for fold in result.folds for topic in fold.test]),
            "texts": [stored.texts.get(result.name, {}).get(topic, "") for topic in topics],
            "folds": [number for number, fold in enumerate(result.folds, 1) for _ in fold.test],
            "measures": [
                {"title": measure.title, "values": [row.values.tolist() for row in rows]}
                for measure, rows in groupby(result.rows, key=lambda row: row.measure)
            ],
        }
        for result in stored.results
    ]
    text = json.dumps(content, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _plain(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), _text(value)) for name, value in content.items()]


def _counted(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the facts of a test collection as texts; its integers are counts."""
    counts = {name: f"{value:,}" for name, value in content.items() if isinstance(value, int)}
    return _plain({**content, **counts})


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(part)}" for name, part in _plain(value))
    if isinstance(value, list | tuple):
        return ", ".join(_text(part) for part in value)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@dataclass(frozen=True)
class _PlotScale:
    """The scale of a row's plot: lowest and highest difference, and width in pixels."""

    low: float
    high: float
    width: int = _PLOT_WIDTH

    def x(self, value: float) -> str:
        """Return the x coordinate of a difference, in pixels."""
        whole = (self.high - self.low) or 1.0
        pixels = (value - self.low) / whole * (self.width - 2 * _PLOT_MARGIN) + _PLOT_MARGIN
        return f"{pixels:.1f}"


def _differences(result: CollectionResult) -> dict[str, Any]:
    """Return each method's difference from the default by measure, and the scale of the intervals."""
    measures: list[dict[str, Any]] = []
    for measure, group in groupby(result.rows, key=lambda row: row.measure):
        default = result.row(measure, DEFAULT)
        if default is not None:
            measures.append(
                {"title": measure.title, "lines": [_difference(row, default, result) for row in group]}
            )
    ends = [end for gain in result.gains.values() for end in (gain.low, gain.high) if end is not None]
    scale = _PlotScale(min([0.0, *ends]), max([0.0, *ends]))
    return {"name": result.name, "measures": measures, "scale": scale}


def _difference(row: Row, default: Row, result: CollectionResult) -> dict[str, Any]:
    line = {"method": row.method, "mean": short(row.mean), "cells": [""] * 3, "counts": [""] * 3}
    gain = result.gains.get((row.measure, row.method))
    if gain is None:
        return line
    signs = np.sign(row.values - default.values)
    counts = [f"{int(np.sum(signs == sign)):,}" for sign in (1, 0, -1)]
    return line | {"gain": gain, "cells": gain_cells(gain), "counts": counts}
