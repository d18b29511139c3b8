"""Judges against judgments, means corrected by people's, and what unjudged documents leave open."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lmtune.measures.judges.agreement import Judge, JudgesResult
from lmtune.measures.judges.prediction_powered import FEW_TOPICS, PoweredResult
from lmtune.measures.judges.selection import ToJudge
from lmtune.measures.residual_bounds import FIGURES, Residuals, residual_records
from lmtune.progress import quantity
from lmtune.report.comparison_tables import DASH, interval_text, signed
from lmtune.report.table import Answer, Table, render, short


def judge_table(found: JudgesResult, style: str, *, confusions: bool = False) -> str:
    """Render judges as `lmtune.report.table.render` does."""
    return render(
        style,
        lambda: judge_tables(found, confusions=confusions),
        lambda: judge_records(found),
        answer=lambda: judges_answer(found),
        content=lambda: [
            record | {"labels": found.labels} | _errors(judge) | _favours(found, judge)
            for record, judge in zip(judge_records(found), found.judges, strict=True)
        ],
    )


def selection_tables(found: ToJudge) -> list[Table]:
    """Make the table of pairs to judge next."""
    rows = [
        [pair.topic, pair.docno, f"{pair.weight:.4g}", *(f"{rank or DASH}" for rank in pair.ranks)]
        for pair in found.pairs
    ]
    legend = (
        f"They carry {found.share:.0%} of what {quantity(found.unjudged, 'unjudged pair')} leave open of "
        f"{found.measure}; as many by their best rank {found.pooled:.0%}. Below runs: ranks"
    )
    return [Table.of(["topic", "document"], ["weight", *found.runs], [rows], "To judge next", legend)]


def selection_records(found: ToJudge) -> Sequence[Mapping[str, object]]:
    """Return a record a pair."""
    return found.records


def judges_answer(found: JudgesResult) -> Answer:
    """Return which judge agrees best with the judgments."""
    best = found.judges[0]
    lines = [("Best judge", best.name)]
    if best.pairs:
        where = f"{quantity(best.pairs, 'pair')} of {quantity(best.topics, 'topic')}"
        lines.append(("Alpha", f"{_known(best.alpha)} {interval_text(best.alpha_interval)} on {where}"))
    if best.order:
        apart = "" if best.order.paired else f", by {best.order.judge_topics} other topics"
        runs = quantity(len(found.systems), "run")
        tau = f"{_known(best.order.tau)} {interval_text(best.order.tau_interval)}"
        lines.append(("Tau", f"{tau} of {runs} by {found.options.measure}{apart}"))
    return Answer(f"{quantity(len(found.judges), 'judge')} compared with the judgments", lines)


def judge_tables(found: JudgesResult, *, confusions: bool = False) -> list[Table]:
    """Make the table of judges, of families where there are any, and of each one's errors if asked for."""
    header = ["pairs", "alpha", "interval", "nominal", "kappa", "weighted", "by topic", "shift"]
    header += ["tau", "interval", "tau-AP", "interval", "favours most", "by"] if found.systems else []
    rows = [[judge.name, *_figures(found, judge)] for judge in found.judges]
    confidence = f"{100 * found.options.confidence:g}%"
    legend = (
        "alpha: Krippendorff's, ordinal and nominal; kappa: Cohen's, plain and quadratically weighted, the "
        "latter by topic too (quartiles); shift: mean label less the judgments'; intervals: "
        f"{confidence}, over topics"
    )
    tables = [Table.of(["Judge"], header, [rows], "Judges and their agreement", legend)]
    tables += [_family_table(found, confidence)] if found.options.families and found.systems else []
    return tables + [_error_table(found, judge, confidence) for judge in found.judges if confusions]


def _family_table(found: JudgesResult, confidence: str) -> Table:
    """Make the table of how judges treat families of runs."""
    rows = [
        [
            *(judge.name, family.name, str(family.runs), signed(family.favour)),
            interval_text(family.favour_interval, signed),
            f"{family.places:+.1f}",
            interval_text(family.places_interval, "{:+.1f}".format),
        ]
        for judge in found.judges
        for family in (judge.order.families if judge.order else ())
    ]
    legend = (
        f"favour: of {found.options.measure}, what the judge adds to these runs' means, less what it adds to "
        "the others'; places: what they gain in the order of all, ties sharing theirs; intervals: "
        f"{confidence}, over topics, each on its own"
    )
    figures = ["n", "favour", "interval", "places", "interval"]
    return Table.of(["Judge", "runs"], figures, [rows], "Families of runs", legend)


def _error_table(found: JudgesResult, judge: Judge, confidence: str) -> Table:
    """Make the table of the probability of a judge's labels given the judgments'."""
    judged = zip(found.labels, judge.confusion.sum(axis=1), judge.errors, judge.errors_interval, strict=True)
    rows = [
        [
            *(str(label), f"{pairs:,}"),
            *(f"{_known(value)} {interval_text(ends)}" for value, ends in zip(own, both, strict=True)),
        ]
        for label, pairs, own, both in judged
    ]
    legend = f"How likely each label is, by the judgments' label; intervals: {confidence}, over topics"
    figures = ["pairs", *(f"label {label}" for label in found.labels)]
    return Table.of([f"{judge.name}: judged"], figures, [rows], f"Labels of {judge.name}", legend)


def judge_records(found: JudgesResult) -> list[dict[str, object]]:
    """Return a record a judge, every figure at full precision; NaN where there is none."""
    records: list[dict[str, object]] = []
    for judge in found.judges:
        low, high = judge.alpha_interval
        record: dict[str, object] = {"judge": judge.name, **_taken(judge, "pairs topics alpha")}
        record |= {"alpha_low": low, "alpha_high": high}
        record |= _taken(judge, "nominal_alpha kappa weighted_kappa shift")
        if judge.order:
            for name in ("tau", "tau_ap"):
                low, high = getattr(judge.order, f"{name}_interval")
                record |= {name: getattr(judge.order, name), f"{name}_low": low, f"{name}_high": high}
            record |= {"order_topics": judge.order.judge_topics, "paired": judge.order.paired}
        records.append(record)
    return records


def _taken(judge: Judge, names: str) -> dict[str, object]:
    return {name: getattr(judge, name) for name in names.split()}


def _errors(judge: Judge) -> dict[str, object]:
    return {name: getattr(judge, name).tolist() for name in ("confusion", "errors", "errors_interval")}


def _favours(found: JudgesResult, judge: Judge) -> dict[str, object]:
    if judge.order is None:
        return {}
    rows = zip(found.systems, judge.order.favour.tolist(), judge.order.favour_interval.tolist(), strict=True)
    families = {family.name: family._asdict() for family in judge.order.families}
    return {
        "favours": {system: {"by": by, "interval": interval} for system, by, interval in rows},
        "families": families,
    }


def _figures(found: JudgesResult, judge: Judge) -> list[str]:
    known = judge.topic_kappas[~np.isnan(judge.topic_kappas)]
    quartiles = np.quantile(known, [0.25, 0.75]).tolist() if known.size else [math.nan] * 2
    texts = [f"{judge.pairs:,}", _known(judge.alpha), interval_text(judge.alpha_interval)]
    texts += map(_known, (judge.nominal_alpha, judge.kappa, judge.weighted_kappa))
    texts += [interval_text(quartiles), DASH if math.isnan(judge.shift) else signed(judge.shift)]
    if judge.order:
        most = int(judge.order.favour.argmax())
        texts += [_known(judge.order.tau), interval_text(judge.order.tau_interval)]
        texts += [_known(judge.order.tau_ap), interval_text(judge.order.tau_ap_interval), found.systems[most]]
        between = interval_text(judge.order.favour_interval[most], signed)
        texts.append(f"{signed(judge.order.favour[most])} {between}")
    return texts


def _known(value: float) -> str:
    return DASH if math.isnan(value) else short(value)


def powered_table(result: PoweredResult, style: str) -> str:
    """Render corrected means as `lmtune.report.table.render` does."""
    return render(style, lambda: powered_tables(result), lambda: list(powered_records(result)))


def powered_records(result: PoweredResult) -> Iterator[Mapping[str, object]]:
    """Yield a record of each run and measure."""
    for row in result.rows:
        low, high = row.corrected.interval(result.confidence)
        yield {
            "run": row.run,
            "measure": row.measure,
            "baseline": result.baseline or None,
            "corrected": row.corrected.mean,
            "low": low,
            "high": high,
            "weight": row.corrected.weight,
            "people": row.human,
            "people_error": row.human_error,
            "model": row.model,
        }


def powered_tables(result: PoweredResult) -> list[Table]:
    """Make the table of corrected means."""
    number = signed if result.baseline else short
    rows = []
    for row in result.rows:
        ends = row.corrected.interval(result.confidence)
        texts = [row.run, row.measure, number(row.corrected.mean), interval_text(ends, number)]
        half = row.human_interval(result)
        alone = DASH if math.isnan(half) else f"± {short(half)}"
        rows.append([*texts, number(row.human), alone, number(row.model)])
    what = f"difference from {result.baseline}" if result.baseline else "mean"
    percent = f"{result.confidence:.0%}"
    figures = [what, percent, "people alone", percent, "model alone"]
    legend = (
        f"Over {quantity(result.human + result.model, 'topic')}, as people would judge them: by the model's "
        f"judgments of all, corrected by people's of {result.human}; intervals by Student's t over topics"
    )
    if result.human < FEW_TOPICS:
        legend += f". With fewer than {FEW_TOPICS} of people's topics they hold less often than they say"
    if any(math.isnan(row.human_error) for row in result.rows):
        legend += f". {DASH}: people's values are all equal, which leaves no interval"
    return [Table.of(["run", "measure"], figures, [rows], "Means corrected by people's judgments", legend)]


_BOUNDS = (
    "Lowest and highest: over all ways to judge what the run ranks without a judgment, gains from 0 to the "
    "largest of the judgments"
)


def residual_table(found: Sequence[Residuals], style: str, *, per_topic: bool = False) -> str:
    """Render runs' bounds as `lmtune.report.table.render` does; with topics' own if asked for."""
    return render(
        style,
        lambda: _residual_tables(found, per_topic=per_topic),
        lambda: residual_records(found, per_topic=per_topic),
    )


def _residual_tables(found: Sequence[Residuals], *, per_topic: bool = False) -> list[Table]:
    """Make the table: a row for each run and measure, or topic."""
    names = ("run", "measure", *(["topic"] if per_topic else []))
    rows: dict[object, list[list[str]]] = {}
    for record in residual_records(found, per_topic=per_topic):
        figures = [short(float(str(record[name]))) for name in FIGURES]
        rows.setdefault(record["run"], []).append([*(str(record[name]) for name in names), *figures])
    return [Table.of(names, FIGURES, rows.values(), "Measures and their bounds", _BOUNDS)]


def bounds_tables(one: Residuals) -> list[Table]:
    """Make the table of one run."""
    return _residual_tables([one])


def bounds_records(one: Residuals) -> list[dict[str, object]]:
    """Return a record a measure."""
    return residual_records([one])


def bounds_topics(one: Residuals) -> list[dict[str, object]]:
    """Return a record a topic and measure."""
    return residual_records([one], per_topic=True)
