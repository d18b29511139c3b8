"""Trainings as units, and SONG's objective over whole lists against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
pytest.importorskip("lightgbm", reason="the extra 'neural' is not installed")

from made_lists import made_lists  # noqa: E402
from scipy.optimize import minimize_scalar  # noqa: E402
from scipy.special import log_softmax  # noqa: E402

from experiments.data import load_split  # noqa: E402
from experiments.trainings import train, whole_objective, with_least_grade  # noqa: E402
from lmtune.measures.lists import mean_over_lists, ndcg  # noqa: E402
from lmtune.reranking.learners.feature_networks import fit  # noqa: E402
from lmtune.reranking.losses.names import Loss, make_loss  # noqa: E402
from lmtune.reranking.settings import Settings  # noqa: E402
from lmtune.reranking.song import RelevantPairs  # noqa: E402

torch.set_num_threads(1)

DATA = "artificial:8x20"
SMALL: dict[str, Any] = {"loss": "listnet", "network": "mlp:8", "epochs": 3, "batch_size": 4, "seed": 3}


def song_loss(margin: float, cutoff: int | None = None) -> Loss:
    options = {"margin": margin, "gamma": 0.3, "estimator": "msvr"}
    return make_loss("song", options) if cutoff is None else make_loss("k-song", options | {"cutoff": cutoff})


def slow_objective(
    scores: NDArray[np.float64], labels: NDArray[np.floating], margin: float, cutoff: int | None = None
) -> float:
    """Compute one list's term as the paper defines it."""
    gains = np.exp2(labels) - 1.0
    best = np.sort(gains)[::-1][:cutoff]
    ideal = (best / np.log2(np.arange(len(best)) + 2.0)).sum()
    total = 0.0
    weight = np.ones(len(scores))
    if cutoff is not None and len(scores) > cutoff:
        tau = 0.1 * max(margin, 1.0)

        def lower(threshold: float) -> float:
            soft = tau * np.log1p(np.exp((scores - threshold) / tau)).mean()
            share = (cutoff + 0.5) / len(scores)
            return float(share * threshold + 0.5e-4 * threshold**2 + soft)

        bounds = (scores.min() - 20.0, scores.max() + 20.0)
        threshold = minimize_scalar(lower, bounds=bounds, options={"xatol": 1e-9}).x
        weight = 1.0 / (1.0 + np.exp(-2.0 / max(margin, 1.0) * (scores - threshold)))
    for i in np.flatnonzero(labels > 0):
        hinges = np.maximum(0.0, scores - scores[i] + margin) ** 2
        total -= weight[i] * gains[i] / (ideal * np.log2(hinges.sum() + 1.0))
    return float(total)


@pytest.mark.parametrize(("margin", "cutoff"), [(1.0, None), (10.0, None), (1.0, 4)])
def test_the_objective_over_whole_lists(margin: float, cutoff: int | None) -> None:
    data = made_lists(5, queries=70, empty=0.2)
    scores = np.random.default_rng(1).normal(size=data.labels.size)
    pairs = RelevantPairs.from_lists(data.starts, np.asarray(data.labels))
    found = whole_objective(pairs, data, scores, song_loss(margin, cutoff))
    terms = [
        slow_objective(scores[data.rows(q)], data.labels[data.rows(q)], margin, cutoff)
        for q in range(70)
        if (data.labels[data.rows(q)] > 0).any()
    ]
    assert len(terms) < 70
    assert found == pytest.approx(np.mean(terms), rel=1e-5)


def test_a_training_is_fits_and_is_measured_at_its_best_epoch() -> None:
    song = SMALL | {"loss": "song"}
    result = train(DATA, 1, song, [1, 5], watched=True)
    fold = load_split(DATA, 1)
    trained = fit(fold.train, fold.validation, Settings.from_record(song))
    assert result["best_epoch"] == trained.best_epoch
    assert result["courses"]["validation"] == [row.validation for row in trained.history]
    expected = mean_over_lists(ndcg(trained.score(fold.test), fold.test, [1, 5])).tolist()
    assert result["test"] == expected
    assert len(result["courses"]["objective"]) == len(result["courses"]["training"]) == 3
    assert all(-1.0 < value < 0.0 for value in result["courses"]["objective"])
    unwatched = train(DATA, 1, song, [1, 5])
    assert unwatched["validation"] == result["validation"]
    assert list(unwatched["courses"]) == ["validation"]


def test_few_queries_take_smaller_steps() -> None:
    few = train(DATA, 1, SMALL, [5], least_steps=4)
    assert few == train(DATA, 1, SMALL | {"batch_size": 2}, [5])
    assert few != train(DATA, 1, SMALL, [5])


def test_the_cross_entropy_over_whole_lists() -> None:
    data = made_lists(5, queries=70, empty=0.2)
    scores = np.random.default_rng(1).normal(size=data.labels.size)
    pairs = RelevantPairs.from_lists(data.starts, np.asarray(data.labels))
    terms = []
    for q in range(70):
        own, labels = scores[data.rows(q)], data.labels[data.rows(q)]
        if (labels > 0).any():
            terms.append(-(labels / labels.sum()) @ log_softmax(own))
    found = whole_objective(pairs, data, scores, make_loss("cross-entropy", {"gamma": 0.1}))
    assert found == pytest.approx(np.mean(terms), rel=1e-5)


def test_labels_are_lowered() -> None:
    fold = load_split(DATA, 1)
    lowered = with_least_grade(fold, 2)
    assert with_least_grade(fold, 1) is fold
    for before, after in ((fold.train, lowered.train), (fold.test, lowered.test)):
        assert after.labels.tolist() == [max(0.0, label - 1.0) for label in before.labels]
