"""Tables of a comparison: means with significance marks, differences with tests, topics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.measures.measure import parse_measure
from lmtune.measures.residual_bounds import JUDGED, is_exact
from lmtune.measures.significance.comparison import (
    EQUIVALENT,
    HSD,
    NOT_WORSE,
    Comparison,
    ComparisonOptions,
    Contrast,
)
from lmtune.measures.significance.requirements import Check
from lmtune.measures.significance.tests import FEWEST, LEVEL, detectable_difference, paired_differences
from lmtune.progress import quantity
from lmtune.report.table import Answer, Cell, Table, listed, render, short

BETTER, WORSE = "†", "‡"
"""Marks of means that are significantly better and worse than the baseline's."""
DASH = "–"
"""What a table prints for an undefined number."""
_JUDGED = JUDGED.lower()

_TEST_NAMES = {
    "t": "paired t-test",
    "randomization": "paired randomization test",
    "wilcoxon": "Wilcoxon signed-rank test",
}
_HSD_NAMES = {"t": "Tukey's HSD", "randomization": "randomized Tukey's HSD"}
_CORRECTIONS = {
    "holm": "Holm's correction",
    "bonferroni": "Bonferroni's correction",
    "bh": "Benjamini-Hochberg correction",
}
_SIDES = {"two-sided": "two-sided", "greater": "one-sided (better)", "less": "one-sided (worse)"}


def comparison_table(
    comparison: Comparison,
    style: str = "table",
    *,
    per_topic: bool = False,
    answer: Callable[[Comparison], Answer] | None = None,
    slices: Mapping[str, Comparison] | None = None,
    checks: Sequence[Check] = (),
) -> str:
    """Render a comparison.

    Parameters
    ----------
    comparison : Comparison
        What `lmtune.compare` returns.
    style : {"table", "markdown", "latex", "csv", "json"}
        ``"table"`` is plain text. Text, Markdown and LaTeX have a table of means and a table of
        differences and tests; CSV and JSON have all numbers at full precision.
    per_topic : bool
        Whether to add the difference of each topic, the largest gain first; CSV then has only these.
    answer : callable, optional
        Returns the answer above plain text; default: `comparison_answer`.
    slices : mapping of str to Comparison, optional
        Comparisons of slices of the topics, for a further table, or further records of CSV.
    checks : sequence of Check
        Requirements, for the last table.

    Returns
    -------
    str
        Ends with a newline.

    Raises
    ------
    InputError
        For an unknown style.
    """
    slices = slices or {}

    def tables() -> list[Table]:
        more = [_slice_table(comparison, slices)] if slices else []
        more += [_requirement_table(comparison, checks)] if checks else []
        return [*comparison_tables(comparison, per_topic), *more]

    def records() -> list[dict[str, object]]:
        make = comparison_topics if per_topic else comparison_records
        if not slices:
            return make(comparison)
        places = {"": comparison} | dict(slices)
        return [{"slice": name} | record for name, own in places.items() for record in make(own)]

    def content() -> dict[str, object]:
        parts = {name: comparison_records(own) for name, own in slices.items()}
        more: dict[str, object] = {"slices": parts} if parts else {}
        more |= {"requirements": [check.record() for check in checks]} if checks else {}
        return _content(comparison, per_topic) | more

    def first() -> Answer:
        made, failed = (answer or comparison_answer)(comparison), sum(not check.is_met for check in checks)
        verdict = f"{failed} of {quantity(len(checks), 'requirement')} failed" if failed else "passed"
        return made._replace(lines=[*made.lines, ("Gate", verdict)]) if checks else made

    return render(style, tables, records, answer=first, content=content)


def comparison_answer(comparison: Comparison) -> Answer:
    """Return the best system by the first measure, compared with the baseline if there is one."""
    measure, (baseline, *others) = measure_label(comparison.measures[0]), comparison.systems
    means = {system: comparison.means(system)[0] for system in comparison.systems}
    options, topics = comparison.options, quantity(len(comparison.topics), "topic")
    if options.pairwise:
        best = max(comparison.systems, key=lambda system: means[system])
        lines = [("Best", f"{best}, {measure} {short(means[best])}")]
        return Answer(f"{quantity(len(comparison.systems), 'system')}, {topics}, all pairs compared", lines)
    best = max(others, key=lambda system: means[system])
    tested = comparison.measures[0], best
    contrast = next(one for one in comparison.contrasts if (one.measure, one.system) == tested)
    test, is_corrected = options.tests[0], len(others) > 1 and options.correction in _CORRECTIONS
    test_text = _test_name(test, options) + (f", {_CORRECTIONS[options.correction]}" if is_corrected else "")
    p = contrast.adjusted[test]
    rows = [comparison.values[comparison.systems.index(name), :, 0] for name in (best, baseline)]
    lines = [
        ("Baseline", f"{baseline}, {measure} {short(means[baseline])}"),
        ("Best" if len(others) > 1 else "Compared", f"{best}, {measure} {short(means[best])}"),
        (
            "Difference",
            difference_text(contrast.difference, contrast.interval, p, test_text, options.confidence),
        ),
        (
            "Verdict",
            verdict_text(rows[0] - rows[1], p, baseline, level=options.level, critical=_half_width(contrast)),
        ),
    ]
    return Answer(f"{quantity(len(others), 'run')} compared with {baseline}, {topics}", lines)


def difference_text(
    difference: float,
    interval: Sequence[float],
    p: float,
    test: str = "paired t-test",
    confidence: float = 0.95,
) -> str:
    """Format a mean difference with its confidence interval and p-value, each unless NaN."""
    text = signed(difference)
    if not math.isnan(interval[0]):
        text += f", {100 * confidence:g}% CI {interval_text(interval, signed)}"
    return text if math.isnan(p) else f"{text}, {p_value_text(p)} ({test})"


def verdict_text(
    differences: NDArray[np.float64],
    p: float,
    baseline: str,
    *,
    units: tuple[str, str] = ("topic", "topics"),
    level: float = LEVEL,
    critical: float = math.nan,
) -> str:
    """Return whether a difference is significant; if not, add the minimum detectable difference.

    Parameters
    ----------
    differences : numpy.ndarray of float64, shape (topics,)
        The differences from the baseline.
    p : float
        The p-value, corrected if several systems are compared; NaN without a test.
    baseline : str
        The baseline's name.
    units : (str, str)
        Singular and plural of what is counted.
    level : float
        The significance level.
    critical : float
        Half the width of the corrected confidence interval. The detectable difference then holds with the
        same correction; with NaN, it has none.
    """
    counted = quantity(differences.size, *units)
    if math.isnan(p):
        return f"no test: {counted}" if differences.size < FEWEST else "no test: all differences are equal"
    if p < level:
        return f"significantly {'better' if differences.mean() > 0.0 else 'worse'} than {baseline}"
    if differences.size < FEWEST:
        return f"not significant; {counted} only"
    from scipy.special import stdtr

    deviation, topics = float(differences.std(ddof=1)), differences.size
    if deviation and not math.isnan(critical):
        # The level of the uncorrected t-test whose interval has the corrected width.
        level = 2.0 * float(stdtr(topics - 1, -critical * math.sqrt(topics) / deviation))
    least = detectable_difference(deviation, topics, level=level)
    return f"not significant; {counted} detect differences of {short(least)} or more (80% power)"


def _half_width(contrast: Contrast) -> float:
    """Return half the width of the difference's confidence interval; NaN without one."""
    return (contrast.interval[1] - contrast.interval[0]) / 2.0


def letters(number: int) -> list[str]:
    """Name systems a, b, ... z, aa, ab ..."""
    names = []
    for rest in range(1, number + 1):
        name = ""
        while rest:
            rest, letter = divmod(rest - 1, 26)
            name = chr(ord("a") + letter) + name
        names.append(name)
    return names


def measure_label(name: str) -> str:
    """Return the readable label of a measure's code; other names as they are.

    Examples
    --------
    >>> measure_label("nDCG(dcg='exp-log2')@10"), measure_label("AP"), measure_label("my own")
    ('nDCG@10 (gains 2^g - 1)', 'AP', 'my own')
    """
    try:
        return parse_measure(name).label if "(" in name else name
    except InputError:
        return name


def _test_name(test: str, options: ComparisonOptions) -> str:
    """Return the readable name of a test, such as "paired t-test"."""
    return (_HSD_NAMES if options.correction == HSD else _TEST_NAMES)[test]


def comparison_legend(comparison: Comparison) -> str:
    """Return the notes on marks, tests and topics, one a line."""
    options, first = comparison.options, comparison.options.tests[0]
    if options.pairwise:
        marks = "Letters: the mean is significantly better than that of these systems"
    else:
        marks = f"{BETTER} significantly better than {comparison.systems[0]}, {WORSE} significantly worse"
    test = f"{_SIDES[options.alternative]} {_test_name(first, options)}{_computation_note(comparison, first)}"
    test += f" over {quantity(len(comparison.topics), 'topic')}"
    correction = ""
    if options.correction == HSD:
        correction = f", {quantity(comparison.family, 'pair')} for each measure"
    elif comparison.family > 1:
        name = _CORRECTIONS.get(options.correction, "no correction")
        correction = f", {name} over {comparison.family} comparisons for each measure"
    adjusted = "adjusted p" if correction and options.correction != "none" else "p"
    notes = [f"{marks} ({test}{correction}, {adjusted} < {options.level:g})"]
    if options.tests[1:]:
        further = [
            f"{_test_name(name, options)}{_computation_note(comparison, name)}" for name in options.tests[1:]
        ]
        notes.append(f"Also tested: {listed(further)}")
    return "\n".join(notes)


def comparison_tables(comparison: Comparison, per_topic: bool = False) -> list[Table]:
    """Make the tables of means, of differences, and if asked for of topics."""
    tables = [_mean_table(comparison), _contrast_table(comparison)]
    return [*tables, _topic_table(comparison)] if per_topic else tables


def _mean_table(comparison: Comparison) -> Table:
    """Make the table of means: a row a system, a column a measure."""
    pairwise = comparison.options.pairwise
    rows: list[list[str | Cell]] = [
        [
            *([letter] if pairwise else []),
            system,
            *(
                Cell(short(mean), _mark(comparison, measure, system))
                for measure, mean in zip(comparison.measures, comparison.means(system), strict=True)
            ),
            *map(short, comparison.judged[number : number + 1]),
        ]
        for number, (letter, system) in enumerate(
            zip(letters(len(comparison.systems)), comparison.systems, strict=True)
        )
    ]
    names = [*([""] if pairwise else []), "System"]
    figures = [*map(measure_label, comparison.measures), *([_JUDGED] if comparison.judged else [])]
    return Table.of(names, figures, [rows[:1], rows[1:]], "Means over topics", comparison_legend(comparison))


def _contrast_table(comparison: Comparison) -> Table:
    """Make the table of differences and tests: a row a contrast."""
    options = comparison.options
    tests = [*options.tests, *([NOT_WORSE, EQUIVALENT] if options.margin else [])]
    corrected = options.correction in _CORRECTIONS
    names = ["Measure", "System", "Against"][: 3 if options.pairwise else 2]
    header = ["Diff.", "Rel.", "W/T/L", "g_z" if options.hedges else "d_z"]
    header.append(f"{100 * options.confidence:g}% CI")
    bounded = any(contrast.possible for contrast in comparison.contrasts)
    header += ["unjudged"] if bounded else []
    for name in tests:
        header += [f"{'HSD p' if options.correction == HSD else 'p'} ({name})"]
        header += ["adjusted p"] if corrected else []
    groups: dict[str, list[list[str]]] = {measure: [] for measure in comparison.measures}
    for contrast in comparison.contrasts:
        rows = groups[contrast.measure]
        label = "" if rows else measure_label(contrast.measure)
        texts = [label, contrast.system, contrast.against][: len(names)]
        texts += _difference_cells(contrast)
        texts += [interval_text(contrast.possible, signed)] if contrast.possible else []
        for name in tests:
            texts.append(p_text(contrast.tested[name].p_value))
            texts += [p_text(contrast.adjusted[name])] if corrected else []
        rows.append(texts)
    notes = [*_contrast_notes(comparison), *(_bound_notes(comparison) if bounded else [])]
    return Table.of(names, header, groups.values(), "Differences and their tests", "\n".join(notes))


def interval_kind(comparison: Comparison) -> str:
    """Return which error of several intervals is controlled, and how."""
    return {
        HSD: "simultaneous, Tukey's HSD",
        "bh": "false coverage rate of the significant differences, Benjamini-Yekutieli",
        "none": "each by itself, no correction",
    }.get(comparison.options.correction, "simultaneous, Bonferroni")


def _contrast_notes(comparison: Comparison) -> list[str]:
    """Return the note on simultaneous intervals and tests of equivalence, if there are any."""
    options, parts = comparison.options, []
    if comparison.family > 1:
        parts.append(f"{100 * options.confidence:g}% CIs: {interval_kind(comparison)}")
    if options.margin is not None:
        parts.append(f"{NOT_WORSE}, {EQUIVALENT}: one-sided t-tests, margin {options.margin:g}")
    return ["; ".join(parts)] if parts else []


def _bound_notes(comparison: Comparison) -> list[str]:
    """Return the notes on the differences after judging the unjudged documents."""
    inexact = [m for m in comparison.measures if not is_exact(parse_measure(m), difference=True)]
    remark = f"; may be wider than necessary for {listed([*map(measure_label, inexact)])}" if inexact else ""
    verbs = {
        "could change": _contrast_names(comparison, could_turn=True),
        "cannot change": _contrast_names(comparison, could_turn=False),
    }
    parts = [f"{verb} the sign for {names}" for verb, names in verbs.items() if names]
    return [
        f"unjudged: bounds of the difference over all judgments of the unjudged documents{remark}",
        f"Judging them {'; it '.join(parts)}",
    ]


def _contrast_names(comparison: Comparison, *, could_turn: bool) -> str:
    """List the contrasts, by measure, of which judgments could or cannot change the sign."""
    names = []
    for measure in comparison.measures:
        some = [
            one for one in comparison.contrasts if one.measure == measure and one.could_turn == could_turn
        ]
        pairs = [one.system + (f" - {one.against}" if comparison.options.pairwise else "") for one in some]
        names += [f"{measure_label(measure)} of {listed(pairs)}"] if pairs else []
    return ", ".join(names)


def _slice_table(comparison: Comparison, slices: Mapping[str, Comparison]) -> Table:
    """Make the table of differences by slice of topics: a row a slice and contrast."""
    names = ["Slice", "Measure", "System", "Against"][: 4 if comparison.options.pairwise else 3]
    groups = []
    for name, own in slices.items():
        rows: list[list[str]] = []
        for contrast in own.contrasts:
            texts = ["" if rows else name, measure_label(contrast.measure), contrast.system, contrast.against]
            means = map(short, (contrast.against_mean, contrast.mean))
            rows.append([*texts[: len(names)], str(len(own.topics)), *means, *_difference_cells(contrast)])
        groups.append(rows)
    confidence = f"{100 * comparison.options.confidence:g}% CI"
    size = "g_z" if comparison.options.hedges else "d_z"
    figures = ["Topics", "Against's", "Mean", "Diff.", "Rel.", "W/T/L", size, confidence]
    legend = f"{confidence}s: {interval_kind(comparison)}, over {quantity(len(slices), 'slice')}"
    return Table.of(names, figures, groups, "Differences by slice of topics", legend)


def _requirement_table(comparison: Comparison, checks: Sequence[Check]) -> Table:
    """Make the table of requirements: a row a requirement, slice and run."""
    rows = [
        [
            *(str(check.requirement), check.system, str(check.topics), signed(check.difference)),
            DASH if check.bound is None else signed(check.bound),
            DASH if check.power is None else f"{check.power:.2f}",
            "passed" if check.is_met else "failed",
        ]
        for check in checks
    ]
    options, bounds = comparison.options, sum(check.bound is not None for check in checks)
    name = _CORRECTIONS.get(options.correction, "no correction")
    legend = f"lower bound: one-sided {100 * options.confidence:g}% confidence, paired t-test"
    legend += f", {name} over {bounds} bounds" if bounds > 1 else ""
    legend += "\npower: the probability that a run equal to the baseline passes"
    figures = ["Topics", "Diff.", "lower bound", "power", "Result"]
    caption = f"Requirements on the difference from {comparison.systems[0]}"
    return Table.of(["Requirement", "System"], figures, [rows], caption, legend if bounds else "")


def _topic_table(comparison: Comparison) -> Table:
    """Make the table of differences by topic."""
    names = ("measure", "system", "against", "topic")
    rows = []
    for record in comparison_topics(comparison):
        value, other, difference = (
            float(str(record[name])) for name in ("value", "against_value", "difference")
        )
        texts = [measure_label(str(record["measure"])), *(str(record[name]) for name in names[1:])]
        rows.append([*texts, short(value), short(other), signed(difference)])
    groups = [list(group) for _, group in groupby(rows, key=lambda row: row[:3])]
    caption = "Differences by topic, the largest gain first"
    return Table.of([name.title() for name in names], ("Value", "Against's", "Diff."), groups, caption)


def p_text(p: float) -> str:
    """Format a p-value for a table: four decimals, a bound below 0.0001, a dash without a test.

    Examples
    --------
    >>> p_text(0.05), p_text(1.0), p_text(3e-7), p_text(math.nan)
    ('0.0500', '1.0000', '<0.0001', '–')
    """
    if math.isnan(p):
        return DASH
    return "<0.0001" if p < 0.0001 else short(p)


def p_value_text(p: float) -> str:
    """Format a p-value for a sentence.

    Examples
    --------
    >>> p_value_text(0.5412), p_value_text(0.0274), p_value_text(0.0049), p_value_text(1e-9)
    ('p = 0.54', 'p = 0.027', 'p = 0.005', 'p < 0.001')
    """
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.2f}" if p >= 0.1 else f"p = {p:.3f}"


def _content(comparison: Comparison, per_topic: bool) -> dict[str, object]:
    """Return the whole comparison as JSON values, at full precision."""
    names = ("tests", "alternative", "correction", "confidence", "margin", "permutations", "seed")
    content: dict[str, object] = {
        **{name: getattr(comparison, name) for name in ("systems", "measures", "topics")},
        **{name: getattr(comparison.options, name) for name in names},
        "comparisons": comparison.family,
        "intervals": interval_kind(comparison),
        "means": {
            system: dict(zip(comparison.measures, comparison.means(system), strict=True))
            for system in comparison.systems
        },
        _JUDGED: dict(zip(comparison.systems, comparison.judged, strict=False)),
        "contrasts": comparison_records(comparison),
        "notes": comparison.notes,
    }
    return content | {"differences": comparison_topics(comparison)} if per_topic else content


def _mark(comparison: Comparison, measure: str, system: str) -> str:
    """Return a mean's superscript: the letters of the systems that it beats, or the baseline's dagger."""
    names = dict(zip(comparison.systems, letters(len(comparison.systems)), strict=True))
    if comparison.options.pairwise:
        beaten = [letter for other, letter in names.items() if comparison.beats(measure, system, other)]
        return ("," if len(names) > 26 else "").join(beaten)
    baseline = comparison.systems[0]
    if comparison.beats(measure, system, baseline):
        return BETTER
    worse = system != baseline and comparison.beats(measure, baseline, system)
    return WORSE if worse else ""


def _difference_cells(contrast: Contrast) -> list[str]:
    """Return a row's difference, relative difference, W/T/L, effect size and interval."""
    relative = DASH if contrast.relative is None else f"{100 * contrast.relative:+z.1f}%"
    size = contrast.effect_size
    return [
        signed(contrast.difference),
        relative,
        f"{contrast.wins}/{contrast.ties}/{contrast.losses}",
        DASH if math.isnan(size) else f"{size:+z.2f}",
        interval_text(contrast.interval, signed),
    ]


def interval_text(ends: Sequence[float], number: Callable[[float], str] = short) -> str:
    """Format an interval; a dash for NaN."""
    return DASH if math.isnan(ends[0]) else f"[{number(ends[0])}, {number(ends[1])}]"


def _computation_note(comparison: Comparison, name: str) -> str:
    """Return how a test's p-values were computed, such as " (exact)"; "" for the t-test."""
    if name == "t":
        return ""
    every = (contrast.tested[name].how for contrast in comparison.contrasts)
    ways = dict.fromkeys("exact" if how.startswith("exact") else how for how in every)
    seed = f", seed {comparison.options.seed}" if any("random" in way for way in ways) else ""
    return f" ({' or '.join(ways)}{seed})"


def signed(value: float) -> str:
    """Format a difference with its sign and four decimals.

    Examples
    --------
    >>> signed(0.25), signed(-0.25), signed(-0.00001)
    ('+0.2500', '-0.2500', '+0.0000')
    """
    return f"{value:+z.4f}"


def comparison_records(comparison: Comparison) -> list[dict[str, object]]:
    """Return one dictionary a contrast, with numbers at full precision.

    Undefined values, such as the test of a constant difference, are NaN; the comparison's notes explain them.
    """
    records = []
    for contrast in comparison.contrasts:
        record: dict[str, object] = _contrast_key(contrast) | {"topics": len(comparison.topics)}
        record |= {name: getattr(contrast, name) for name in ("mean", "against_mean", "difference")}
        record["relative_difference"] = contrast.relative
        record |= {name: getattr(contrast, name) for name in ("wins", "ties", "losses")}
        for name, test in contrast.tested.items():
            key = name.replace(" ", "_")
            record |= {f"p_{key}": test.p_value, f"adjusted_p_{key}": contrast.adjusted[name]}
            record[f"how_{key}"] = test.how
        record["effect_size"] = contrast.effect_size
        record["interval_low"], record["interval_high"] = contrast.interval
        record["interval_confidence"] = contrast.interval_confidence
        if contrast.possible is not None:
            record["lowest_difference"], record["highest_difference"] = contrast.possible
            record["could_turn"] = contrast.could_turn
        record["better"] = comparison.beats(contrast.measure, contrast.system, contrast.against)
        record["worse"] = comparison.beats(contrast.measure, contrast.against, contrast.system)
        records.append(record)
    return records


def _contrast_key(contrast: Contrast) -> dict[str, object]:
    """Return the measure and the two systems, which identify a contrast."""
    return {name: getattr(contrast, name) for name in ("measure", "system", "against")}


def comparison_topics(comparison: Comparison) -> list[dict[str, object]]:
    """Return a record for each contrast and topic: the largest gain first, ties in topic order."""
    records: list[dict[str, object]] = []
    for contrast in comparison.contrasts:
        values = comparison.values[:, :, comparison.measures.index(contrast.measure)]
        a, b = (values[comparison.systems.index(name)] for name in (contrast.system, contrast.against))
        difference = paired_differences(a, b).values
        for topic in np.argsort(-difference.round(12), kind="stable").tolist():
            figures = {"value": float(a[topic]), "against_value": float(b[topic])}
            figures["difference"] = float(difference[topic])
            records.append(_contrast_key(contrast) | {"topic": comparison.topics[topic]} | figures)
    return records
