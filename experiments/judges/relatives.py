"""Whether judges favour rankings by their own group's other sets of labels, beside NIST's judgements.

    python -m experiments.judges.relatives ../shared/data/llmjudge [--measure nDCG@10]

Each set of labels ranks the pairs that it labelled; each judges the rankings by all others. A family is the
rest of its group (the name before the first hyphen).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lmtune.io.qrels import read_qrels
from lmtune.measures.judges.agreement import JudgeOptions, compare_judges


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--measure", default="nDCG@10")
    options = parser.parse_args()
    nist = read_qrels(options.folder / "qrels.nist.txt")
    labels = {path.stem: read_qrels(path) for path in sorted((options.folder / "labels").glob("*.txt"))}
    runs = {
        name: {topic: {docno: float(gain) for docno, gain in own.items()} for topic, own in one.items()}
        for name, one in labels.items()
    }
    print("| judge | relatives | favour | 95 % | places | 95 % |\n| --- |" + " ---: |" * 5)
    for name, own in labels.items():
        family = f"{name.partition('-')[0]}-*"
        others = {other: run for other, run in runs.items() if other != name}
        if not any(other.startswith(family[:-1]) for other in others):
            continue
        settings = JudgeOptions(measure=options.measure, families=(family,))
        [judge] = compare_judges(nist, {name: own}, others, settings).judges
        assert judge.order is not None
        [found] = judge.order.families
        print(
            f"| {name} | {found.runs} | {found.favour:+.3f} | "
            f"{found.favour_interval[0]:+.3f} to {found.favour_interval[1]:+.3f} | {found.places:+.1f} | "
            f"{found.places_interval[0]:+.1f} to {found.places_interval[1]:+.1f} |"
        )


if __name__ == "__main__":
    main()
