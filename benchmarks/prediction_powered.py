"""How often intervals of corrected means hold the mean that people would find.

    python benchmarks/prediction_powered.py ../shared/data/llmjudge
    python benchmarks/prediction_powered.py --topics 200 --samples 4000

With a folder of labels, the population are its topics: a topic's value is the mean label of its pairs, by
people and by each set of labels. Topics are drawn from it with replacement, so many with people's labels, the
rest with the model's alone. Without one, values are made: beta distributed, the model's with an error and a
shift. A line for each number of people's topics: how often 95% intervals hold the mean of the population, on
average, and from the lowest to the highest over sets of labels; their width over that of those topics alone.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lmtune.formats.qrels import read_qrels
from lmtune.judging import powered_mean

Doubles = NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--topics", type=int, default=100, help="drawn in all")
    parser.add_argument("--samples", type=int, default=2000)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    people, models = made(random) if options.folder is None else labelled(options.folder)
    print(f"{people.size} topics, {len(models)} sets of labels, {options.topics} topics drawn")
    print("people's  tuned: holds (from, to)  width   weight 1: holds (from, to)  width")
    for few in (5, 10, 20, 40):
        if few >= options.topics:
            break
        texts = [coverage(people, models, few, options, random, tuned) for tuned in (True, False)]
        print(f"{few:8d}  {texts[0]}  {texts[1]}")


def coverage(
    people: Doubles,
    models: list[Doubles],
    few: int,
    options: argparse.Namespace,
    random: np.random.Generator,
    tuned: bool,
) -> str:
    """Say how often intervals hold, and how wide they are."""
    holds, widths = [], []
    for model in models:
        drawn = random.integers(0, people.size, (options.samples, options.topics))
        human, same, rest = people[drawn[:, :few]], model[drawn[:, :few]], model[drawn[:, few:]]
        low, high = powered_mean(human, same, rest, tuned=tuned).interval()
        holds.append(float(((low <= people.mean()) & (people.mean() <= high)).mean()))
        alone = 2.0 * stdtrit(few - 1, 0.975) * human.std(axis=1, ddof=1) / few**0.5
        widths.append(float(np.mean(high - low) / np.mean(alone)))
    return f"{np.mean(holds):.3f} ({min(holds):.3f}, {max(holds):.3f})  {np.mean(widths):.2f}"


def labelled(folder: Path) -> tuple[Doubles, list[Doubles]]:
    """Return topics' mean labels, by people and by each set of labels."""
    trusted = topic_means(folder / "qrels.nist.txt")
    sets = [topic_means(path) for path in sorted((folder / "labels").iterdir())]
    names = sorted(trusted)
    return np.array([trusted[n] for n in names]), [np.array([own[n] for n in names]) for own in sets]


def topic_means(path: Path) -> dict[str, float]:
    means: dict[str, float] = defaultdict(float)
    for topic, gains in read_qrels(path).items():
        means[topic] = float(np.mean(list(gains.values())))
    return means


def made(random: np.random.Generator) -> tuple[Doubles, list[Doubles]]:
    """Return values of many topics as average precision has them, and of models that err."""
    people = random.beta(1.0, 2.0, 20_000)
    errors = (0.02, 0.1, 0.3)
    return people, [people * 0.8 + 0.1 + error * random.standard_normal(people.size) for error in errors]


if __name__ == "__main__":
    main()
