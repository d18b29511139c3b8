"""A comparison's tables: means with marks of significance, the tests' figures, topic by topic."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable

from lmtune.errors import InputError
from lmtune.measures.significance.contrasts import EQUIVALENT, NOT_WORSE, Comparison, Contrast
from lmtune.reporting.comparison_records import as_records, topic_records
from lmtune.reporting.grids import Cell, Grid, latex_grid, markdown_grid, plain_grid
from lmtune.reporting.tables import csv_text

BETTER, WORSE = "†", "‡"

_TEST_NAMES = {
    "t": "paired t-test",
    "randomization": "paired randomization test",
    "wilcoxon": "Wilcoxon signed-rank test",
}
_CORRECTIONS = {"holm": "Holm's correction", "bonferroni": "Bonferroni's correction"}
_SIDES = {"two-sided": "two-sided", "greater": "one-sided (better)", "less": "one-sided (worse)"}


def comparison_table(comparison: Comparison, style: str = "table", *, per_topic: bool = False) -> str:
    """Render a comparison.

    Parameters
    ----------
    comparison : Comparison
        What `lmtune.compare` returns.
    style : {"table", "markdown", "latex", "csv", "json"}
        ``"table"`` is plain text. Text, Markdown and LaTeX have a table of means, one of the
        tests' figures, and a line that says what was tested; CSV and JSON every figure at full
        precision.
    per_topic : bool
        Add every topic's difference, the largest gain first; CSV then has these alone.

    Returns
    -------
    str
        Ends with a line end.

    Raises
    ------
    InputError
        For an unknown style.
    """
    if style not in STYLES:
        raise InputError("unknown table format", value=style, accepted=", ".join(STYLES))
    return STYLES[style](comparison, per_topic)


def letters(number: int) -> list[str]:
    """Name systems a, b, ... z, aa, ab ..."""
    names = []
    for place in range(1, number + 1):
        name = ""
        while place:
            place, letter = divmod(place - 1, 26)
            name = chr(ord("a") + letter) + name
        names.append(name)
    return names


def legend(comparison: Comparison) -> str:
    """Say what the marks mean and how they were found, in one line."""
    first = comparison.options.tests[0]
    if comparison.options.pairwise:
        marks = "Raised letters: the systems that a mean is significantly better than"
    else:
        marks = f"{BETTER} significantly better than {comparison.systems[0]}, {WORSE} significantly worse"
    many = "contrast" if comparison.family == 1 else "contrasts"
    parts = [
        f"{marks}: {_SIDES[comparison.options.alternative]} {_TEST_NAMES[first]}{_how(comparison, first)}",
        f"{_CORRECTIONS.get(comparison.options.correction, 'no correction')} over {comparison.family} "
        f"{many} a measure",
        f"adjusted p < {_short(comparison.options.level)}",
        f"{len(comparison.topics)} topics",
    ]
    parts += [f"also {_TEST_NAMES[name]}{_how(comparison, name)}" for name in comparison.options.tests[1:]]
    if comparison.options.margin is not None:
        parts.append(f"not worse and equivalent by one-sided t-tests, margin {comparison.options.margin:g}")
    return "; ".join(parts)


def mean_grid(comparison: Comparison) -> Grid:
    """Make the table of means, systems by measures, as papers print it."""
    names = letters(len(comparison.systems))
    rows: list[tuple[Cell, ...]] = []
    for letter, system in zip(names, comparison.systems, strict=True):
        cells = [
            Cell(_number(mean), _mark(comparison, measure, system))
            for measure, mean in zip(comparison.measures, comparison.means(system), strict=True)
        ]
        rows.append((*([Cell(letter)] if comparison.options.pairwise else []), Cell(system), *cells))
    header = (*([""] if comparison.options.pairwise else []), "System", *comparison.measures)
    return Grid(header, [rows[:1], rows[1:]], names=2 if comparison.options.pairwise else 1)


def contrast_grid(comparison: Comparison) -> Grid:
    """Make the table of what was tested: a row a contrast."""
    tests = [*comparison.options.tests, *([NOT_WORSE, EQUIVALENT] if comparison.options.margin else [])]
    corrected = comparison.options.correction != "none"
    header = ["Measure", "System", *(["Against"] if comparison.options.pairwise else [])]
    header += ["Diff.", "Rel.", "W/T/L", "g_z" if comparison.options.hedges else "d_z"]
    header.append(f"{100 * comparison.options.confidence:g}% interval")
    for name in tests:
        header += [f"p ({name})", *(["adjusted"] if corrected else [])]
    groups: list[list[tuple[Cell, ...]]] = []
    for measure in comparison.measures:
        rows: list[tuple[Cell, ...]] = []
        for contrast in (c for c in comparison.contrasts if c.measure == measure):
            texts = [measure if not rows else "", contrast.system]
            texts += [contrast.against] if comparison.options.pairwise else []
            texts += _figures(contrast)
            for name in tests:
                texts.append(p_text(contrast.tested[name].p_value))
                texts += [p_text(contrast.adjusted[name])] if corrected else []
            rows.append(tuple(Cell(text) for text in texts))
        groups.append(rows)
    return Grid(tuple(header), groups, names=3 if comparison.options.pairwise else 2)


def topic_grid(comparison: Comparison) -> Grid:
    """Make the table of every topic's difference."""
    groups: dict[tuple[object, ...], list[tuple[Cell, ...]]] = {}
    for record in topic_records(comparison):
        key = record["measure"], record["system"], record["against"]
        names = [str(record[k]) for k in ("measure", "system", "against", "topic")]
        value, against, difference = (float(str(record[k])) for k in ("value", "against_value", "difference"))
        texts = [*names, _number(value), _number(against), _signed(difference)]
        groups.setdefault(key, []).append(tuple(Cell(text) for text in texts))
    header = ("Measure", "System", "Against", "Topic", "Value", "Against's", "Diff.")
    return Grid(header, list(groups.values()), names=4)


def p_text(p: float) -> str:
    """Print a p-value as papers do: four digits, small ones as a bound.

    Examples
    --------
    >>> p_text(0.05), p_text(1.0), p_text(3e-7)
    ('.0500', '1.0000', '<.0001')
    """
    return "<.0001" if p < 0.0001 else _number(p)


def _plain(comparison: Comparison, per_topic: bool) -> str:
    parts = [f"{plain_grid(mean_grid(comparison))}{legend(comparison)}\n"]
    parts.append(plain_grid(contrast_grid(comparison)))
    parts += [plain_grid(topic_grid(comparison))] if per_topic else []
    return "\n".join(parts)


def _markdown(comparison: Comparison, per_topic: bool) -> str:
    parts = [markdown_grid(mean_grid(comparison)), f"{legend(comparison)}.\n"]
    parts.append(markdown_grid(contrast_grid(comparison)))
    parts += [markdown_grid(topic_grid(comparison))] if per_topic else []
    return "\n".join(parts)


def _latex(comparison: Comparison, per_topic: bool) -> str:
    parts = [f"{latex_grid(mean_grid(comparison))}% {legend(comparison)}.\n"]
    parts.append(latex_grid(contrast_grid(comparison)))
    parts += [latex_grid(topic_grid(comparison))] if per_topic else []
    return "\n".join(parts)


def _csv(comparison: Comparison, per_topic: bool) -> str:
    records = topic_records(comparison) if per_topic else as_records(comparison)
    return csv_text(records)


def _json(comparison: Comparison, per_topic: bool) -> str:
    content: dict[str, object] = {
        "systems": comparison.systems,
        "measures": comparison.measures,
        "topics": comparison.topics,
        "tests": comparison.options.tests,
        "alternative": comparison.options.alternative,
        "correction": comparison.options.correction,
        "confidence": comparison.options.confidence,
        "margin": comparison.options.margin,
        "permutations": comparison.options.permutations,
        "seed": comparison.options.seed,
        "means": {
            system: dict(zip(comparison.measures, comparison.means(system), strict=True))
            for system in comparison.systems
        },
        "contrasts": as_records(comparison),
        "notes": comparison.notes,
    }
    if per_topic:
        content["differences"] = topic_records(comparison)
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


STYLES: dict[str, Callable[[Comparison, bool], str]] = {
    "table": _plain,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "json": _json,
}


def _mark(comparison: Comparison, measure: str, system: str) -> str:
    names = dict(zip(comparison.systems, letters(len(comparison.systems)), strict=True))
    if comparison.options.pairwise:
        beaten = [letter for other, letter in names.items() if comparison.beats(measure, system, other)]
        return ("," if len(names) > 26 else "").join(beaten)
    baseline = comparison.systems[0]
    if comparison.beats(measure, system, baseline):
        return BETTER
    worse = system != baseline and comparison.beats(measure, baseline, system)
    return WORSE if worse else ""


def _figures(contrast: Contrast) -> list[str]:
    relative = "–" if contrast.relative is None else f"{100 * contrast.relative:+.1f}%"
    size = contrast.effect_size
    low, high = contrast.interval
    return [
        _signed(contrast.difference),
        relative,
        f"{contrast.wins}/{contrast.ties}/{contrast.losses}",
        f"{size:+.2f}" if math.isfinite(size) else "+∞" if size > 0 else "-∞",
        f"[{_signed(low)}, {_signed(high)}]",
    ]


def _how(comparison: Comparison, name: str) -> str:
    if name == "t":
        return ""
    every = (contrast.tested[name].how for contrast in comparison.contrasts)
    ways = _distinct("exact" if how.startswith("exact") else how for how in every)
    seed = f", seed {comparison.options.seed}" if any("random" in way for way in ways) else ""
    return f" ({' or '.join(ways)}{seed})"


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _number(value: float) -> str:
    return f"{value:.4f}".replace("-0.", "-.", 1) if value < 0 else f"{value:.4f}".removeprefix("0")


def _signed(value: float) -> str:
    sign = "-" if value < 0 else "+"
    return f"{sign}{_number(abs(value))}"


def _short(value: float) -> str:
    return f"{value:g}".removeprefix("0")
