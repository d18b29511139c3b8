"""Exporting a reranker, and checking the files with the target's reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lmtune.progress import quantity
from lmtune.rerank.data import RankingData
from lmtune.rerank.exchange.engine_features import identifier
from lmtune.rerank.exchange.targets import Exported, Target
from lmtune.rerank.features import features_of
from lmtune.rerank.reranker import Reranker

README = "README.txt"
"""The file that says how to load the others, and what they lack."""

_TOLERANCE = 1e-5  # float32 has 24 bits, and sums of many trees or units lose some
_VALUES = """
Field FIELD has the text. FIELD_classic is a copy with the engine's BM25, k1 = 1.2, b = 0.75; FIELD itself
has k1 = 0.9, b = 0.4. FIELD_length is its number of tokens. Engines round document lengths, and analyse
text in their own way, so features differ slightly from those of training: compare logged features with
`lmtune rerank features`, or log features in the engine, train on them, and export with --feature-names.
"""


class Check(NamedTuple):
    """Comparison of an exported model's scores with lmtune's.

    Attributes
    ----------
    rows : int
    largest : float
        The largest difference.
    size : float
        The largest absolute score.
    differing, queries : int
        Queries with another ranking, and all queries.
    """

    rows: int
    largest: float
    size: float
    differing: int
    queries: int

    @property
    def is_match(self) -> bool:
        """Whether the largest difference is at most 1e-5 of the largest score, or of 1."""
        return self.largest <= _TOLERANCE * max(1.0, self.size)

    def __str__(self) -> str:
        rankings = f"{self.differing} of {quantity(self.queries, 'ranking')} differ"
        return f"{quantity(self.rows, 'row')}, largest difference {self.largest:.2g}; {rankings}"


def check_export(
    target: Target, model: Exported, files: Mapping[str, bytes], reranker: Reranker, data: RankingData
) -> Check:
    """Compare the scores of exported files, by the target's reader, with a reranker's."""
    score = target.read(files, [identifier(name) for name in model.form.names])
    ours, theirs = (np.asarray(scores, np.float64) for scores in (reranker.score(data), score(data.features)))
    orders = [
        [np.argsort(-scores[data.rows(q)], kind="stable") for q in range(len(data.queries))]
        for scores in (ours, theirs)
    ]
    differing = sum((one != other).any() for one, other in zip(*orders, strict=True))
    largest = float(np.abs(ours - theirs).max(initial=0.0))
    size = float(np.abs(ours).max(initial=0.0))
    return Check(ours.size, largest, size, differing, len(data.queries))


def readme(target: Target, model: Exported, fields: tuple[str, ...]) -> str:
    """Return the text of `README`."""
    meaning = {feature.name: feature.description for feature in features_of(fields)}
    missing = [
        f"{identifier(name)}: {meaning.get(name, 'a feature of your own')}" for name in target.missing(model)
    ]
    lacks = (
        "\nThe files do not define these features, which the model needs. Define them before you load it:\n"
    )
    return target.notes + _VALUES + (lacks + "\n".join(missing) + "\n" if missing else "")
