"""NDCG on other devices, held against the CPU's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from made_lists import made_lists  # noqa: E402

from lmtune.measures.lists import Measurer  # noqa: E402
from lmtune.measures.measure import parse_list_measure  # noqa: E402
from lmtune.reranking.learners.feature_networks import ResidentNdcg, ScoreMeasurer  # noqa: E402

CUDA = ["cuda"] if torch.cuda.is_available() else []


def resident(measure: str, lists: Any, scores: Any, device: str = "cpu") -> float:
    parts = Measurer(measure, lists).ndcg_parts
    assert parts is not None
    return float(ResidentNdcg(parts, torch.device(device)).mean(torch.from_numpy(scores).to(device)))


@pytest.mark.parametrize("measure", ["ndcg@10", "ndcg@1", "ndcg", "ndcg(dcg='log2')@5"])
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    levels=st.integers(1, 6),
    seed=st.integers(0, 1000),
)
def test_it_is_the_cpus_with_ties_too(measure: str, lengths: list[int], levels: int, seed: int) -> None:
    rng, rows = np.random.default_rng(seed), sum(lengths)
    labels = rng.integers(0, 4, rows).astype(np.float32)
    lists = SimpleNamespace(labels=labels, starts=np.append(0, np.cumsum(lengths)), docnos=None)
    scores = (rng.integers(0, levels, rows) - 2).astype(np.float32)
    scores *= rng.choice([-1.0, 1.0], rows).astype(np.float32)  # minus zeros, too
    wanted = Measurer(measure, lists).mean(scores)
    assert resident(measure, lists, scores) == pytest.approx(wanted, rel=1e-13, nan_ok=True)


@pytest.mark.parametrize("device", ["cpu", *CUDA])
def test_any_measure_of_any_device(device: str) -> None:
    lists = made_lists(0, empty=0.2)
    scores = np.random.default_rng(0).normal(size=len(lists.labels)).astype(np.float32)
    for measure in ("ndcg@10", "mrr", "ap", "pairwise-error"):
        found = ScoreMeasurer(parse_list_measure(measure), lists).mean(torch.from_numpy(scores).to(device))
        assert found == pytest.approx(Measurer(measure, lists).mean(scores), rel=1e-13)
    assert resident("ndcg@10", lists, scores, device) == pytest.approx(
        Measurer("ndcg@10", lists).mean(scores), rel=1e-13
    )


def test_it_asks_nothing_of_the_device() -> None:
    lists = made_lists(0)
    parts = Measurer("ndcg@10", lists).ndcg_parts
    assert parts is not None
    scores = torch.empty(len(lists.labels), device="meta")
    assert ResidentNdcg(parts, scores.device).mean(scores).shape == ()
