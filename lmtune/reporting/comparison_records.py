"""A comparison as flat records: a contrast each, or a topic of a contrast each."""

from __future__ import annotations

import math

import numpy as np

from lmtune.measures.significance.contrasts import Comparison
from lmtune.measures.significance.differences import paired_differences


def as_records(comparison: Comparison) -> list[dict[str, object]]:
    """Flatten a comparison to one dictionary a contrast, with every figure at full precision.

    What is infinite (the effect of a constant difference) or undefined is None; the comparison's
    notes say why.
    """
    records = []
    for contrast in comparison.contrasts:
        record: dict[str, object] = {
            "measure": contrast.measure,
            "system": contrast.system,
            "against": contrast.against,
            "topics": len(comparison.topics),
            "mean": contrast.mean,
            "against_mean": contrast.against_mean,
            "difference": contrast.difference,
            "relative_difference": contrast.relative,
            "wins": contrast.wins,
            "ties": contrast.ties,
            "losses": contrast.losses,
        }
        for name, found in contrast.tested.items():
            key = name.replace(" ", "_")
            record[f"p_{key}"] = found.p_value
            record[f"adjusted_p_{key}"] = contrast.adjusted[name]
            record[f"how_{key}"] = found.how
        size = contrast.effect_size
        record["effect_size"] = size if math.isfinite(size) else None
        record["interval_low"], record["interval_high"] = contrast.interval
        record["better"] = comparison.beats(contrast.measure, contrast.system, contrast.against)
        record["worse"] = comparison.beats(contrast.measure, contrast.against, contrast.system)
        records.append(record)
    return records


def topic_records(comparison: Comparison) -> list[dict[str, object]]:
    """Give each contrast's topics, the largest gain first; equal ones in the topics' order."""
    records: list[dict[str, object]] = []
    for contrast in comparison.contrasts:
        m = comparison.measures.index(contrast.measure)
        a, b = (
            comparison.values[comparison.systems.index(name), :, m]
            for name in (contrast.system, contrast.against)
        )
        difference = paired_differences(a, b).values
        records += [
            {
                "measure": contrast.measure,
                "system": contrast.system,
                "against": contrast.against,
                "topic": comparison.topics[place],
                "value": float(a[place]),
                "against_value": float(b[place]),
                "difference": float(difference[place]),
            }
            for place in np.argsort(-difference.round(12), kind="stable").tolist()
        ]
    return records
