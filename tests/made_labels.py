"""Examples with several labels, made and read off plainly."""

from __future__ import annotations

from lmtune.formats.labelled import LabelledExamples

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
