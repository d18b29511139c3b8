"""One HTML page of a results folder: no network, no other file, the same bytes each time."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from typing import Any

from lmtune.errors import visible
from lmtune.reporting.comparison_tables import DASH
from lmtune.reporting.differences import differences
from lmtune.reporting.figures.style import COLUMN, ParameterAxis, Picture, render
from lmtune.reporting.results_reader import StoredResults
from lmtune.reporting.table import listed
from lmtune.reporting.tuning_tables import (
    ABOVE_DIRECT,
    ABOVE_RANKNET,
    BELOW_DIRECT,
    final_tables,
    mean_table,
    parameter_text,
    parameters,
    remarks_on,
)
from lmtune.tuning.experiment.result import OPTIMAL, SIGNIFICANCE, UNDEFINED, CollectionResult

MOST_ROWS = 2500
"""Rows of the topic table that a page shows before it is asked for all."""


def page(stored: StoredResults, pictures: Iterable[Picture] = (), *, most_rows: int = MOST_ROWS) -> str:
    """Make the page.

    Parameters
    ----------
    stored : StoredResults
        What `lmtune.reporting.results_reader.read_results` read.
    pictures : iterable of Picture
        Shown in this order, those of a group under its name, and those of a part folded away
        until the reader opens it. One that needs a page's width scrolls in a box on a phone.
    most_rows : int
        Rows of the topic table that are shown before the reader asks for all of them.

    Returns
    -------
    str
        HTML that names no other file or host and holds no time. Its content security policy
        allows its own style and script, by their digests, and pictures inside the page.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = files("lmtune.reporting") / "templates"
    style, script, template = (
        (folder / name).read_text(encoding="utf-8") for name in ("report.css", "report.js", "report.html.j2")
    )
    environment = Environment(
        autoescape=True,
        # Control characters are none of HTML's.
        finalize=lambda value: visible(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    results = stored.results
    methods = list(dict.fromkeys(row.method for row in results[0].rows))
    symbols = [ParameterAxis(name).symbol for name in parameters(results)]
    fits = [fit for result in results for row in result.rows for fit in row.fits]
    return environment.from_string(template).render(
        style=Markup(style),
        script=Markup(script),
        style_digest=_digest(style),
        script_digest=_digest(script),
        data=Markup(_topic_data(results)),
        results=results,
        record=stored.record,
        title=listed([result.name for result in results]),
        facts=_facts(stored),
        methods=methods,
        listed_symbols=listed(symbols),
        choosers=listed([method for method in methods if method != OPTIMAL]),
        comparison=mean_table(results),
        remarks=remarks_on(results),
        finals=final_tables(results),
        marks={"direct": ABOVE_DIRECT, "ranknet": ABOVE_RANKNET, "worse": BELOW_DIRECT},
        significance=f"{SIGNIFICANCE:g}",
        differences=[differences(result) for result in results],
        symbols=symbols,
        choices=[(result.name, _choices(result)) for result in results],
        edges=any(fit.at_edge for fit in fits),
        bounds=any(fit.bound is not None for fit in fits),
        picture_groups=_grouped(pictures),
        inputs=[(str(one.get("name", "")), _counted(one)) for one in stored.record["collections"]],
        plan=_plain(stored.record["plan"]),
        versions=_plain(stored.record["versions"]),
        most_rows=most_rows,
    )


def _grouped(pictures: Iterable[Picture]) -> list[tuple[str, list[tuple[str, list[dict[str, Any]]]]]]:
    """Draw pictures and gather them by group, then by part, where they follow one another."""
    return [
        (group, [(part, [*map(_drawn, one)]) for part, one in groupby(own, key=lambda picture: picture.part)])
        for group, own in groupby(pictures, key=lambda picture: picture.group)
    ]


def _drawn(picture: Picture) -> dict[str, Any]:
    # In a data: URL a picture can run no script.
    data = base64.b64encode(render(picture.figure, "svg")).decode()
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
    """Return what each method chose on each fold, by measure."""
    return [
        {
            "title": measure.title,
            "lines": [
                {
                    "method": row.method,
                    "fold": number,
                    "folds": len(row.fits),
                    "setting": [parameter_text(*item, thousands=",") for item in fit.params.items()],
                    "train": DASH if UNDEFINED in row.cautions else f"{fit.train_value:.4f}",
                    "test": DASH if UNDEFINED in row.cautions else f"{fit.test_value:.4f}",
                    "bound": "" if fit.bound is None else f"{fit.bound:.4f}",
                    "evaluations": f"{fit.evaluations:,}",
                    "edges": ", ".join(fit.at_edge),
                }
                for row in rows
                for number, fit in enumerate(row.fits, 1)
            ],
        }
        for measure, rows in groupby(result.rows, key=lambda row: row.measure)
    ]


def _topic_data(results: Sequence[CollectionResult]) -> str:
    """Return every topic's values as JSON that cannot end the script element it stands in."""
    content = [
        {
            "name": result.name,
            "topics": [topic for fold in result.folds for topic in fold.test],
            "folds": [number for number, fold in enumerate(result.folds, 1) for _ in fold.test],
            "measures": [
                {"title": measure.title, "values": [row.values.tolist() for row in rows]}
                for measure, rows in groupby(result.rows, key=lambda row: row.measure)
            ],
        }
        for result in results
    ]
    text = json.dumps(content, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _plain(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), _text(value)) for name, value in content.items()]


def _counted(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Do as `_plain` for a test collection, whose whole numbers are counts."""
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
