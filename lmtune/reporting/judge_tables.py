"""Judges held against judgements: a table with a row a judge, the best first."""

from __future__ import annotations

import math

import numpy as np

from lmtune.judging.judges import Judge, JudgesResult
from lmtune.judging.selection import ToJudge
from lmtune.progress import quantity
from lmtune.reporting.comparison_tables import DASH, interval_text, signed
from lmtune.reporting.table import Cell, Column, Table, name_columns, render, short


def judge_table(found: JudgesResult, style: str, *, confusions: bool = False) -> str:
    """Render judges as `lmtune.reporting.table.render` does."""
    return render(
        style,
        lambda: judge_tables(found, confusions=confusions),
        lambda: as_records(found),
        answer=lambda: answer(found),
        content=lambda: [
            record | {"labels": found.labels} | _errors(judge) | _favours(found, judge)
            for record, judge in zip(as_records(found), found.judges, strict=True)
        ],
    )


def table_to_judge(found: ToJudge) -> Table:
    """Make the table of pairs to judge next."""
    rows = [
        [
            Cell(pair.topic),
            Cell(pair.docno),
            Cell(f"{pair.weight:.4g}"),
            *(Cell(f"{rank or DASH}") for rank in pair.ranks),
        ]
        for pair in found.pairs
    ]
    columns = [*name_columns("topic", "document"), *map(Column, ("weight", *found.runs))]
    legend = (
        f"They carry {found.share:.0%} of what {quantity(found.unjudged, 'unjudged pair')} leave open of "
        f"{found.measure}; as many by their best rank {found.pooled:.0%}. Below runs: ranks"
    )
    return Table(columns, [rows], "To judge next", legend)


def answer(found: JudgesResult) -> str:
    """Say which judge is the best, and how good."""
    best, parts = found.judges[0], []
    if best.pairs:
        where = f"{quantity(best.pairs, 'pair')} of {quantity(best.topics, 'topic')}"
        parts.append(f"alpha {_known(best.alpha)} {interval_text(best.alpha_interval)} on {where}")
    if best.order:
        apart = "" if best.order.paired else f", by {best.order.judge_topics} other topics"
        parts.append(
            f"tau {_known(best.order.tau)} {interval_text(best.order.tau_interval)} of "
            f"{quantity(len(found.systems), 'run')} by {found.options.measure}{apart}"
        )
    return f"{best.name} agrees best with the judgements: {'; '.join(parts)}."


def judge_tables(found: JudgesResult, *, confusions: bool = False) -> list[Table]:
    """Make the table of judges, of families where there are any, and of each one's errors if asked for."""
    header = ["pairs", "alpha", "interval", "nominal", "kappa", "weighted", "by topic", "shift"]
    header += ["tau", "interval", "tau-AP", "interval", "favours most", "by"] if found.systems else []
    rows = [tuple(map(Cell, (judge.name, *_figures(found, judge)))) for judge in found.judges]
    confidence = f"{100 * found.options.confidence:g}%"
    legend = (
        "alpha: Krippendorff's, ordinal and nominal; kappa: Cohen's, plain and quadratically weighted, the "
        "latter by topic too (quartiles); shift: mean label less the judgements'; intervals: "
        f"{confidence}, over topics"
    )
    columns = [*name_columns("Judge"), *map(Column, header)]
    tables = [Table(columns, [rows], "Judges and their agreement", legend)]
    tables += [_family_table(found, confidence)] if found.options.families and found.systems else []
    return tables + [_error_table(found, judge, confidence) for judge in found.judges if confusions]


def _family_table(found: JudgesResult, confidence: str) -> Table:
    """Make the table of how judges treat families of runs."""
    rows = [
        tuple(
            map(
                Cell,
                (
                    judge.name,
                    family.name,
                    str(family.runs),
                    signed(family.favour),
                    interval_text(family.favour_interval, signed),
                    f"{family.places:+.1f}",
                    interval_text(family.places_interval, "{:+.1f}".format),
                ),
            )
        )
        for judge in found.judges
        for family in (judge.order.families if judge.order else ())
    ]
    legend = (
        f"favour: of {found.options.measure}, what the judge adds to these runs' means, less what it adds to "
        "the others'; places: what they gain in the order of all, ties sharing theirs; intervals: "
        f"{confidence}, over topics, each on its own"
    )
    columns = [
        *name_columns("Judge", "runs"),
        *map(Column, ("n", "favour", "interval", "places", "interval")),
    ]
    return Table(columns, [rows], "Families of runs", legend)


def _error_table(found: JudgesResult, judge: Judge, confidence: str) -> Table:
    """Make the table of the probability of a judge's labels given the judgements'."""
    rows = [
        [
            Cell(str(label)),
            Cell(f"{pairs:,}"),
            *(
                Cell(f"{_known(value)} {interval_text((low, high))}")
                for value, (low, high) in zip(own.tolist(), ends.tolist(), strict=True)
            ),
        ]
        for label, pairs, own, ends in zip(
            found.labels,
            judge.confusion.sum(axis=1).tolist(),
            judge.errors,
            judge.errors_interval,
            strict=True,
        )
    ]
    legend = f"How likely each label is, by the judgements' label; intervals: {confidence}, over topics"
    columns = [
        *name_columns(f"{judge.name}: judged"),
        *map(Column, ("pairs", *(f"label {label}" for label in found.labels))),
    ]
    return Table(columns, [rows], f"Labels of {judge.name}", legend)


def as_records(found: JudgesResult) -> list[dict[str, object]]:
    """Return a record a judge, every figure at full precision; NaN where there is none."""
    records: list[dict[str, object]] = []
    for judge in found.judges:
        record: dict[str, object] = {name: getattr(judge, name) for name in ("pairs", "topics", "alpha")}
        record |= {"alpha_low": judge.alpha_interval[0], "alpha_high": judge.alpha_interval[1]}
        record |= {
            name: getattr(judge, name) for name in ("nominal_alpha", "kappa", "weighted_kappa", "shift")
        }
        if judge.order:
            for name in ("tau", "tau_ap"):
                low, high = getattr(judge.order, f"{name}_interval")
                record |= {name: getattr(judge.order, name), f"{name}_low": low, f"{name}_high": high}
            record |= {"order_topics": judge.order.judge_topics, "paired": judge.order.paired}
        records.append({"judge": judge.name} | record)
    return records


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
    texts = [
        f"{judge.pairs:,}",
        _known(judge.alpha),
        interval_text(judge.alpha_interval),
        *map(_known, (judge.nominal_alpha, judge.kappa, judge.weighted_kappa)),
        interval_text((quartiles[0], quartiles[1])),
        DASH if math.isnan(judge.shift) else signed(judge.shift),
    ]
    if judge.order:
        most = int(judge.order.favour.argmax())
        texts += [_known(judge.order.tau), interval_text(judge.order.tau_interval)]
        texts += [_known(judge.order.tau_ap), interval_text(judge.order.tau_ap_interval), found.systems[most]]
        low, high = judge.order.favour_interval[most].tolist()
        texts.append(f"{signed(judge.order.favour[most])} {interval_text((low, high), signed)}")
    return texts


def _known(value: float) -> str:
    return DASH if math.isnan(value) else short(value)
