"""Tables of label sets, prediction-powered means, residual bounds and pairs to judge."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lmtune.measures.judges.agreement import Judge, JudgesResult
from lmtune.measures.judges.prediction_powered import FEW_TOPICS, PoweredResult
from lmtune.measures.judges.selection import ToJudge
from lmtune.measures.residual_bounds import FIGURES, Residuals, residual_records
from lmtune.progress import quantity
from lmtune.report.comparison_tables import DASH, interval_text, measure_label, signed
from lmtune.report.table import Answer, Table, render, short


def judge_table(result: JudgesResult, style: str, *, confusions: bool = False) -> str:
    """Render the agreement of judges in one of `lmtune.report.table.STYLES`."""
    return render(
        style,
        lambda: judge_tables(result, confusions=confusions),
        lambda: judge_records(result),
        answer=lambda: judges_answer(result),
        content=lambda: [
            record | {"labels": result.labels} | _errors(judge) | _favours(result, judge)
            for record, judge in zip(judge_records(result), result.judges, strict=True)
        ],
    )


def selection_tables(result: ToJudge) -> list[Table]:
    """Return the table of pairs to judge next."""
    rows = [
        [pair.topic, pair.docno, f"{pair.weight:.4g}", *(f"{rank or DASH}" for rank in pair.ranks)]
        for pair in result.pairs
    ]
    legend = (
        f"The pairs cause {result.share:.0%} of the uncertainty of {measure_label(str(result.measure))} due "
        f"to {quantity(result.unjudged, 'unjudged pair')} ({result.pooled:.0%} if chosen by best rank)\n"
        "Columns of runs: the document's rank"
    )
    return [Table.of(["topic", "document"], ["weight", *result.runs], [rows], "To judge next", legend)]


def selection_records(result: ToJudge) -> Sequence[Mapping[str, object]]:
    """Return one record a pair."""
    return result.records


def judges_answer(result: JudgesResult) -> Answer:
    """Return which judge agrees best with the judgments."""
    best = result.judges[0]
    lines = [("Best judge", best.name)]
    if best.pairs:
        where = f"{quantity(best.pairs, 'pair')} of {quantity(best.topics, 'topic')}"
        lines.append(("Alpha", f"{_known(best.alpha)} {interval_text(best.alpha_interval)} on {where}"))
    if best.order:
        topics = "" if best.order.paired else f", {best.order.judge_topics} other topics"
        runs = quantity(len(result.systems), "run")
        tau = f"{_known(best.order.tau)} {interval_text(best.order.tau_interval)}"
        lines.append(("Tau", f"{tau} of {runs} by {measure_label(str(result.options.measure))}{topics}"))
    return Answer(f"{quantity(len(result.judges), 'judge')} compared with the judgments", lines)


def judge_tables(result: JudgesResult, *, confusions: bool = False) -> list[Table]:
    """Return the table of agreement, those of families of runs, and if asked for of each judge's labels."""
    confidence = f"{100 * result.options.confidence:g}% CI"
    header = ["pairs", "alpha", confidence, "nominal", "kappa", "weighted", "by topic", "shift"]
    header += ["tau", confidence, "tau-AP", confidence, "favours most", "by"] if result.systems else []
    rows = [[judge.name, *_figures(result, judge)] for judge in result.judges]
    notes = [
        "alpha, nominal: Krippendorff's alpha for ordinal and nominal labels; kappa, weighted: Cohen's kappa "
        "without weights and with quadratic weights",
        "by topic: quartiles of the weighted kappa; shift: mean label minus that of the judgments; CIs over "
        "topics",
    ]
    if result.systems:
        notes.append(
            "tau, tau-AP: agreement on the order of the runs; favours most: the run that the judge raises "
            "most, compared with all runs"
        )
    tables = [Table.of(["Judge"], header, [rows], "Agreement with the judgments", "\n".join(notes))]
    tables += [_family_table(result, confidence)] if result.options.families and result.systems else []
    return tables + [_error_table(result, judge, confidence) for judge in result.judges if confusions]


def _family_table(result: JudgesResult, confidence: str) -> Table:
    """Return the table of how much judges raise families of runs."""
    rows = [
        [
            *(judge.name, family.name, str(family.runs), signed(family.favour)),
            interval_text(family.favour_interval, signed),
            f"{family.places:+z.1f}",
            interval_text(family.places_interval, "{:+z.1f}".format),
        ]
        for judge in result.judges
        for family in (judge.order.families if judge.order else ())
    ]
    legend = (
        f"favour: how much more the judge raises the mean {measure_label(str(result.options.measure))} of "
        "these runs than that of the others\n"
        "places: mean gain in the order of all runs; ties share their places\n"
        "CIs over topics, without correction for several families"
    )
    figures = ["n", "favour", confidence, "places", confidence]
    return Table.of(["Judge", "runs"], figures, [rows], "Families of runs", legend)


def _error_table(result: JudgesResult, judge: Judge, confidence: str) -> Table:
    """Return the table of the probabilities of a judge's labels, given the label of the judgments."""
    judged = zip(result.labels, judge.confusion.sum(axis=1), judge.errors, judge.errors_interval, strict=True)
    rows = [
        [
            *(str(label), f"{pairs:,}"),
            *(
                f"{_known(value)} {interval_text(ends)}"
                for value, ends in zip(errors, intervals, strict=True)
            ),
        ]
        for label, pairs, errors, intervals in judged
    ]
    legend = (
        f"Rows: label of the judgments. Cells: probability of the judge's label, {confidence} over topics"
    )
    figures = ["pairs", *(f"label {label}" for label in result.labels)]
    return Table.of([f"{judge.name}: judged"], figures, [rows], f"Labels of {judge.name}", legend)


def judge_records(result: JudgesResult) -> list[dict[str, object]]:
    """Return one record a judge, with numbers at full precision; NaN if undefined."""
    records: list[dict[str, object]] = []
    for judge in result.judges:
        low, high = judge.alpha_interval
        record: dict[str, object] = {"judge": judge.name, **_attributes(judge, "pairs topics alpha")}
        record |= {"alpha_low": low, "alpha_high": high}
        record |= _attributes(judge, "nominal_alpha kappa weighted_kappa shift")
        if judge.order:
            for name in ("tau", "tau_ap"):
                low, high = getattr(judge.order, f"{name}_interval")
                record |= {name: getattr(judge.order, name), f"{name}_low": low, f"{name}_high": high}
            record |= {"order_topics": judge.order.judge_topics, "paired": judge.order.paired}
        records.append(record)
    return records


def _attributes(judge: Judge, names: str) -> dict[str, object]:
    return {name: getattr(judge, name) for name in names.split()}


def _errors(judge: Judge) -> dict[str, object]:
    return {name: getattr(judge, name).tolist() for name in ("confusion", "errors", "errors_interval")}


def _favours(result: JudgesResult, judge: Judge) -> dict[str, object]:
    if judge.order is None:
        return {}
    rows = zip(result.systems, judge.order.favour.tolist(), judge.order.favour_interval.tolist(), strict=True)
    families = {family.name: family._asdict() for family in judge.order.families}
    return {
        "favours": {system: {"by": by, "interval": interval} for system, by, interval in rows},
        "families": families,
    }


def _figures(result: JudgesResult, judge: Judge) -> list[str]:
    known = judge.topic_kappas[~np.isnan(judge.topic_kappas)]
    quartiles = np.quantile(known, [0.25, 0.75]).tolist() if known.size else [math.nan] * 2
    texts = [f"{judge.pairs:,}", _known(judge.alpha), interval_text(judge.alpha_interval)]
    texts += map(_known, (judge.nominal_alpha, judge.kappa, judge.weighted_kappa))
    texts += [interval_text(quartiles), DASH if math.isnan(judge.shift) else signed(judge.shift)]
    if judge.order:
        most = int(judge.order.favour.argmax())
        texts += [_known(judge.order.tau), interval_text(judge.order.tau_interval)]
        texts += [
            _known(judge.order.tau_ap),
            interval_text(judge.order.tau_ap_interval),
            result.systems[most],
        ]
        between = interval_text(judge.order.favour_interval[most], signed)
        texts.append(f"{signed(judge.order.favour[most])} {between}")
    return texts


def _known(value: float) -> str:
    return DASH if math.isnan(value) else short(value)


def powered_table(result: PoweredResult, style: str) -> str:
    """Render corrected means in one of `lmtune.report.table.STYLES`."""
    return render(style, lambda: powered_tables(result), lambda: list(powered_records(result)))


def powered_records(result: PoweredResult) -> Iterator[Mapping[str, object]]:
    """Yield one record for each run and measure."""
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
    """Return the table of corrected means."""
    number = signed if result.baseline else short
    rows = []
    for row in result.rows:
        ends = row.corrected.interval(result.confidence)
        texts = [row.run, measure_label(row.measure), number(row.corrected.mean), interval_text(ends, number)]
        half = row.human_interval(result)
        human = row.human - half, row.human + half
        rows.append([*texts, number(row.human), interval_text(human, number), number(row.model)])
    what = f"difference from {result.baseline}" if result.baseline else "mean"
    confidence = f"{result.confidence:.0%} CI"
    figures = [what, confidence, "human only", confidence, "model only"]
    notes = [
        f"Estimates for {quantity(result.human + result.model, 'topic')}: the model's judgments of all "
        f"topics, corrected by human judgments of {result.human}; CIs by Student's t over topics"
    ]
    if result.human < FEW_TOPICS:
        notes.append(f"CIs are too narrow with human judgments of fewer than {FEW_TOPICS} topics")
    if any(math.isnan(row.human_error) for row in result.rows):
        notes.append(f"{DASH}: no interval, because all human values are equal")
    caption = "Means corrected by human judgments"
    return [Table.of(["run", "measure"], figures, [rows], caption, "\n".join(notes))]


_BOUNDS = (
    "lowest, highest: over all judgments of the run's unjudged documents, with gains from 0 to the highest "
    "gain in the judgments"
)


def residual_table(result: Sequence[Residuals], style: str, *, per_topic: bool = False) -> str:
    """Render residual bounds in one of `lmtune.report.table.STYLES`, if asked for by topic."""
    return render(
        style,
        lambda: _residual_tables(result, per_topic=per_topic),
        lambda: residual_records(result, per_topic=per_topic),
    )


def _residual_tables(result: Sequence[Residuals], *, per_topic: bool = False) -> list[Table]:
    names = ("run", "measure", *(["topic"] if per_topic else []))
    rows: dict[object, list[list[str]]] = {}
    for record in residual_records(result, per_topic=per_topic):
        texts = [
            measure_label(str(record[name])) if name == "measure" else str(record[name]) for name in names
        ]
        figures = [short(float(str(record[name]))) for name in FIGURES]
        rows.setdefault(record["run"], []).append([*texts, *figures])
    return [Table.of(names, FIGURES, rows.values(), "Measures and their bounds", _BOUNDS)]


def bounds_tables(one: Residuals) -> list[Table]:
    """Return the table of one run."""
    return _residual_tables([one])


def bounds_records(one: Residuals) -> list[dict[str, object]]:
    """Return one record a measure."""
    return residual_records([one])


def bounds_topics(one: Residuals) -> list[dict[str, object]]:
    """Return one record for each topic and measure."""
    return residual_records([one], per_topic=True)
