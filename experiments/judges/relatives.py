"""Compare how judges and NIST rate rankings by other label sets of the judge's group.

    python -m experiments.judges.relatives ../shared/data/llmjudge [--measure nDCG@10]

Each label set ranks the pairs that it labelled, and judges the rankings by all other sets. A family is the
other sets of its group (the name before the first hyphen).
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.common import Results, main
from experiments.judges.reading import read_labels
from lmtune.measures.judges.agreement import JudgeOptions, compare_judges

QUICK = {"measure": "P@10"}


def experiment(*, folder: str, measure: str = "nDCG@10") -> Results:
    """Compare each judge's order of runs with NIST's, by families of runs.

    Parameters
    ----------
    folder : str
        a folder with qrels.nist.txt and labels
    measure : str
        the measure
    """
    (nist, labels, runs), rows = read_labels(Path(folder)), []
    for name, own in labels.items():
        family = f"{name.partition('-')[0]}-*"
        others = {other: run for other, run in runs.items() if other != name}
        if not any(other.startswith(family[:-1]) for other in others):
            continue
        settings = JudgeOptions(measure=measure, families=(family,))
        [judge] = compare_judges(nist, {name: own}, others, settings).judges
        assert judge.order is not None
        [found] = judge.order.families
        row = {"judge": name, "relatives": found.runs}
        for what in ("favour", "places"):
            low, high = getattr(found, f"{what}_interval")
            row |= {what: getattr(found, what), f"{what}_low": low, f"{what}_high": high}
        rows.append(row)
    return {"relatives": pd.DataFrame(rows)}


if __name__ == "__main__":
    main(__spec__)
