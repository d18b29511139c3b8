"""Exporting a reranker, and checking the files with the target's reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lmtune.progress import quantity
from lmtune.rerank.data import RankingData
from lmtune.rerank.exchange.engine_features import Source, bm25_parameters, identifier
from lmtune.rerank.exchange.readers import Scores
from lmtune.rerank.exchange.targets import Exported, Target
from lmtune.rerank.features import features_of
from lmtune.rerank.reranker import Reranker

README = "README.txt"
"""The file that says how to load the others, and what they lack."""

_TOLERANCE = 1e-5  # float32 has 24 bits, and sums of many trees or units lose some
_VALUES = """
Use the analysis of training (stemmer, stop words). Engines round document lengths and analyse text in
their own way, so features differ slightly from those of training: compare logged features with
`lmtune rerank features`, or log features, train on them, and export with --feature-names.
"""
_FIRST_STAGE = """
run_score is the score of the search that is reranked: search as the run of training did.
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
    return compare_scores(reranker.score(data), score(data.features), data)


def compare_scores(ours: Scores, theirs: Scores, data: RankingData) -> Check:
    """Compare two scores of each row."""
    both = [np.asarray(scores, np.float64) for scores in (ours, theirs)]
    orders = [
        [np.argsort(-scores[data.rows(q)], kind="stable") for q in range(len(data.queries))]
        for scores in both
    ]
    differing = sum((one != other).any() for one, other in zip(*orders, strict=True))
    largest = float(np.abs(both[0] - both[1]).max(initial=0.0))
    size = float(np.abs(both[0]).max(initial=0.0))
    return Check(both[0].size, largest, size, differing, len(data.queries))


def readme(target: Target, model: Exported, fields: tuple[str, ...]) -> str:
    """Return the text of `README`."""
    meaning = {feature.name: feature.description for feature in features_of(fields)}
    missing = [
        f"{identifier(name)}: {meaning.get(name, 'a feature of your own')}" for name in target.missing(model)
    ]
    lacks = (
        "\nThe files do not define these features, which the model needs. Define them before you load it:\n"
    )
    sources = [source for name in model.used if (source := model.sources.get(name)) is not None]
    fields_text = "".join(f"{line}\n" for line in sorted({_field(source) for source in sources} - {""}))
    return "".join(
        (
            target.notes.replace("NAME", model.name),
            f"\nFields of the index:\n{fields_text}" if fields_text else "",
            _FIRST_STAGE if any(source.kind == "run" for source in sources) else "",
            _VALUES,
            lacks + "\n".join(missing) + "\n" if missing else "",
        )
    )


def _field(source: Source) -> str:
    """Return what a field of the index has; "" for the run's score."""
    if source.kind == "number":
        tokens = source.field.removesuffix("_length")
        meaning = (
            "the number of its feature" if tokens == source.field else f"the number of tokens of {tokens}"
        )
        return f"  {source.field}: {meaning}"
    if source.kind == "run":
        return ""
    k1, b = bm25_parameters(source.field)
    return f"  {source.field}: text, or a copy of it, ranked by BM25 with k1 = {k1} and b = {b}"
