"""The p-values of differences in the JSON of commands, which must be one a difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Difference = tuple[object, ...]
"""What is compared, such as a measure, and then two settings or runs in alphabetical order."""

_FUSED = {"p_best_single": "", "p_rrf": "rrf", "p_equal": "equal"}


def p_values_by_difference(content: Any) -> dict[Difference, set[float]]:
    """Return all p-values of each difference, rounded to 12 digits; without those that are undefined.

    Parameters
    ----------
    content : dict or list
        The JSON of ``compare``, ``fuse``, ``tune`` or ``rerank compare``. Of several
        tests only the first counts, which determines significance.
    """
    found: dict[Difference, set[float]] = {}
    for where, one, other, p in _differences(content):
        if p is not None:
            key = (*where, *sorted((one, other)))
            found.setdefault(key, set()).add(float(f"{p:.12g}"))
    return found


def _differences(content: Any) -> Iterator[tuple[tuple[object, ...], str, str, float | None]]:
    if isinstance(content, dict) and "contrasts" in content:
        key = f"adjusted_p_{content['tests'][0]}"
        for one in content["contrasts"]:
            yield (one["measure"],), one["system"], one["against"], one[key]
    elif isinstance(content, dict):
        singles = [row for row in content["rows"] if row["method"] == "single"]
        for row in content["rows"]:
            of_measure = [single for single in singles if single["measure"] == row["measure"]]
            best = max(of_measure, key=lambda single: single["held_out"] or single["in_sample"])
            for key, baseline in _FUSED.items():
                yield (row["measure"],), row["method"], baseline or _run_of(best), row[key]
    else:
        for row in content:
            if "p_value_default" in row:
                where = row["collection"], row.get("model", ""), row["measure"]
                yield where, row["method"], "Default", row["p_value_default"]
            for over, p_values in row.get("adjusted_p", {}).items():
                for other, p in p_values.items():
                    yield (row["empty"], row["measure"], over), row["loss"], other, p


def _run_of(single: dict[str, Any]) -> str:
    [name] = [name for name, weight in single["weights"].items() if weight]
    return str(name)
