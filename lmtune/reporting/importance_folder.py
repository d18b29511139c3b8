"""Features' importance: the table, and the folder that keeps it with its picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmtune.measures.significance.contrasts import Comparison
from lmtune.reporting.comparison_tables import interval_text, p_text
from lmtune.reporting.table import FILES, Cell, Column, Table, name_columns, render, short
from lmtune.storage.folders import FolderKind, atomic_directory

RECORD = "made.json"
_PICTURES = ("importance.svg", "importance.png")
KIND = FolderKind(RECORD, (*FILES, *_PICTURES, RECORD))
"""The folder."""

_MOST_DRAWN = 40


def importance_table(found: Comparison, gains: Mapping[str, float], style: str = "table") -> str:
    """Render what `lmtune.reranking.importance.permutation_importance` found.

    Parameters
    ----------
    found : Comparison
        A system a feature.
    gains : mapping of str to float
        LightGBM's gain of each feature; empty for networks.
    style : {"table", "markdown", "latex", "csv", "json"}
        ``"table"`` is plain text.
    """
    rows = as_records(found, gains)
    return render(style, lambda: [_table(found, rows)], lambda: rows)


def as_records(found: Comparison, gains: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return one record a feature, the most important one first."""
    total = sum(gains.values())
    return [
        {
            "feature": own.system,
            "measure": own.measure,
            "loss": -own.difference,
            "low": -own.interval[1],
            "high": -own.interval[0],
            "adjusted_p": own.adjusted["t"],
            **({"gain": gains[own.system] / total if total else 0.0} if gains else {}),
        }
        for own in sorted(found.contrasts, key=lambda one: one.difference)
    ]


def _table(found: Comparison, rows: list[dict[str, Any]]) -> Table:
    cells = [
        (
            Cell(own["feature"]),
            Cell(short(own["loss"]), "†" if own["loss"] > 0 and own["adjusted_p"] < 0.05 else ""),
            Cell(interval_text((own["low"], own["high"]))),
            Cell(p_text(own["adjusted_p"])),
            *([Cell(f"{own['gain']:.1%}")] if "gain" in own else []),
        )
        for own in rows
    ]
    [measure] = found.measures
    headers = [f"{measure} lost", "95% interval", "adjusted p", *(["gain"] if "gain" in rows[0] else [])]
    gain = "; gain: LightGBM's, the share of all splits' gain in training" if "gain" in rows[0] else ""
    return Table(
        [*name_columns("Feature"), *map(Column, headers)],
        [cells],
        caption="What the measure loses where a feature's values are shuffled",
        legend=f"{measure} of {len(found.topics)} queries is {short(found.means(found.systems[0])[0])}; lost "
        "where a feature's values are shuffled among a query's documents (one that they share: among "
        "queries). † significant: two-sided paired t-test over queries, Holm's correction over "
        f"{len(rows)} features; the intervals hold together (Bonferroni){gain}",
    )


def write_importance(
    path: Path, found: Comparison, gains: Mapping[str, float], record: Mapping[str, Any]
) -> None:
    """Write the folder, whole or not at all; the picture has the most important features."""
    from lmtune.reporting.figures import difference_intervals, save

    ordered = tuple(sorted(found.contrasts, key=lambda own: own.difference))[:_MOST_DRAWN]
    with atomic_directory(path, KIND) as target:
        figure = difference_intervals(
            replace(found, contrasts=ordered), title="one feature's values shuffled"
        )
        for name in _PICTURES:
            save(figure, target / name)
        for name, style in FILES.items():
            text = importance_table(found, gains, style)
            (target / name).write_text(text, encoding="utf-8", newline="\n")
        text = json.dumps(dict(record), indent=2)
        (target / RECORD).write_text(f"{text}\n", encoding="utf-8", newline="\n")
