"""Examples with several labels, made and read off plainly."""

from __future__ import annotations

import numpy as np

from lmtune.formats.labelled import LabelledExamples, Lists

Example = tuple[list[int], dict[int, float]]
"""Labels, and values by feature."""


def as_lists(found: LabelledExamples) -> list[Example]:
    """Return each example's labels and features, read off in the plainest way."""
    out = []
    for row in range(len(found)):
        bag = slice(found.bags.starts[row], found.bags.starts[row + 1])
        own = slice(found.relevant.starts[row], found.relevant.starts[row + 1])
        features = dict(zip(found.bags.ids[bag].tolist(), found.values[bag].tolist(), strict=True))
        out.append((found.relevant.ids[own].tolist(), features))
    return out


def topical(count: int, seed: int) -> LabelledExamples:
    """Make examples of ten topics, with words and labels of their own: 60 words, 40 labels.

    An example has two of its topic's four labels, and of words three of its five, and one of ten
    that mean nothing.
    """
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        topic = int(random.integers(10))
        words = [*(5 * topic + random.permutation(5)[:3]), 50 + random.integers(10)]
        rows.append((4 * topic + random.permutation(4)[:2], words))
    starts = np.arange(count + 1)
    bags = Lists(4 * starts, np.array([own for _, words in rows for own in words], np.int32))
    relevant = Lists(2 * starts, np.array([own for labels, _ in rows for own in labels], np.int32))
    return LabelledExamples(60, 40, bags, np.ones(4 * count, np.float32), relevant)


def text_of(examples: LabelledExamples) -> str:
    """Write examples in the extreme-classification repository's form."""
    lines = [f"{len(examples)} {examples.features} {examples.labels}"]
    for labels, bag in as_lists(examples):
        lines.append(
            " ".join([",".join(map(str, labels)), *(f"{own}:{value!r}" for own, value in bag.items())])
        )
    return "\n".join([*lines, ""])
