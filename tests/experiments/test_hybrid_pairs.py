"""Pairs of runs drawn by the protocol's rule, and the test of their differences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from experiments.fusion.engines import SINGLE
from experiments.fusion.pairs import COLUMNS, draw, summary
from lmtune.fusion.spaces import SPACES


def test_the_draw_depends_on_names_only() -> None:
    files = [Path(f"{name}.run.zst") for name in ("zBM25", "aBm25b", "bm25", "Dense", "old", *"cdefghijklmn")]
    first, seconds = draw(files, "old.run.zst")
    assert (first.name, len({*seconds})) == ("aBm25b.run.zst", 10)
    assert not {"old.run.zst", "bm25.run.zst", "zBM25.run.zst"} & {file.name for file in seconds}
    assert draw(files[::-1], "old.run.zst") == (first, seconds)
    assert draw(files[:5], "old.run.zst") == (first, [files[3]])


def made(by_topic: bool) -> pd.DataFrame:
    """Return values of ten pairs and ten topics whose differences vary by the topic only, or by the pair."""
    rng, rows = np.random.default_rng(0), []
    gain = rng.normal(0.1, 0.1, 10)
    for pair in range(10):
        for topic in range(10):
            rows += [("x", pair, SINGLE, name, topic, value) for name, value in (("a", 0.2), ("b", 0.1))]
            for engine in SPACES:
                tuned = 0.3 + gain[topic if by_topic else pair]
                rows += [
                    ("x", pair, engine, "default", topic, 0.3),
                    ("x", pair, engine, "tuned", topic, tuned),
                ]
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.mark.parametrize("by_topic", [True, False])
def test_differences_are_tested_over_topics_and_pairs(by_topic: bool) -> None:
    values = made(by_topic)
    table = summary(values)
    tuned = values[(values["system"] == "milvus") & (values["fusion"] == "tuned")]
    differences = tuned.groupby("topic" if by_topic else "run")["value"].mean() - 0.3
    expected = ttest_1samp(differences, 0.0)
    low, high = expected.confidence_interval(0.95)
    [row] = table[(table["engine"] == "milvus") & (table["baseline"] == "default")].to_dict("records")
    assert [row["difference"], row["low"], row["high"]] == pytest.approx(
        [differences.mean(), low, high], abs=1e-4
    )
    # Seven of the 42 tests have smaller p-values: those against the best single run.
    assert row["p"] == pytest.approx(35 * expected.pvalue, abs=1e-4)
    single = table[table["baseline"] == "best single run"]
    assert (single["of baseline"] == 0.2).all()
