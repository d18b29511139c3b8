"""Training NeuMF on rankings of all items."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError  # noqa: E402
from lmtune.reranking.long_lists import LONG_LISTS, NeuMF, fit, score_all, training_pairs  # noqa: E402
from lmtune.reranking.loss_names import parse_loss  # noqa: E402
from lmtune.reranking.ratings import Ratings, held_out_ndcg, leave_out, read_ratings  # noqa: E402

SMALL = replace(
    LONG_LISTS, epochs=3, warm_up=2, batch_size=10, list_relevant=4, list_size=12, learning_rate=0.05
)
LOSSES = ["song", "k-song:cutoff=10:theoretical=false", "k-song:cutoff=10", "cross-entropy"]


def blocks() -> Ratings:
    """Forty users, who each like one of two halves of sixty items."""
    random = np.random.default_rng(0)
    users = np.repeat(np.arange(40), 12)
    items = np.concatenate([(u % 2) * 30 + random.permutation(30)[:12] for u in range(40)])
    values = random.integers(1, 6, len(users)).astype(float)
    return Ratings(users, items, values, np.arange(len(users)), np.arange(40), np.arange(60))


def test_neumf_scores_each_pair_by_itself() -> None:
    network = NeuMF(3, 5)
    torch.nn.init.normal_(network.item_inputs.weight)
    users, items = torch.tensor([2, 0]), torch.tensor([[4, 1, -1], [3, 4, 4]])
    scores = network(users, items)
    assert scores.shape == (2, 3)
    alone = network(users[:1], items[:1, 1:2])
    torch.testing.assert_close(alone[0, 0], scores[0, 1])
    torch.testing.assert_close(scores[1, 1], scores[1, 2])
    torch.testing.assert_close(torch.tensor(score_all(network, batch=2))[2, 4], scores[0, 0])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("whole", [False, True])
def test_learns(loss: str, whole: bool) -> None:
    ratings = blocks()
    split = leave_out(ratings, validation=2, test=2)
    settings = replace(SMALL, loss=parse_loss(loss))
    if whole:
        settings = replace(settings, list_size=None, list_relevant=None)
    fitted = fit(ratings, split, settings, visits=8, cutoffs=(10,))
    seen = np.concatenate([split.train, split.validation])
    reached = held_out_ndcg(score_all(fitted.network), ratings, split.test, seen, (10,)).mean()
    random = np.random.default_rng(1).standard_normal((40, 60))
    chance = held_out_ndcg(random, ratings, split.test, seen, (10,)).mean()
    assert reached > 2 * chance
    assert fitted.best_epoch == len(fitted.history) == len(fitted.ndcg) == 3


def test_is_seeded() -> None:
    ratings = blocks()
    split = leave_out(ratings)
    brief = replace(SMALL, epochs=2, warm_up=1)
    first, again = (fit(ratings, split, brief, visits=1) for _ in range(2))
    assert first.history == again.history
    other = fit(ratings, split, replace(brief, seed=1), visits=1)
    assert other.history != first.history


def test_graded_pairs() -> None:
    ratings = blocks()
    split = leave_out(ratings)
    pairs = training_pairs(ratings, split, graded=True)
    assert (pairs.lengths == 60).all()
    assert sorted(pairs.labels) == sorted(ratings.values[split.train])
    assert (training_pairs(ratings, split).labels == 1).all()


def test_the_best_epoch_is_none_of_the_warm_up() -> None:
    ratings = blocks()
    split = leave_out(ratings, validation=2, test=2)
    # The last layer's first epoch is far behind the warm-up's last.
    settings = replace(SMALL, loss=parse_loss("song"), epochs=9, warm_up=8, learning_rate=0.02)
    fitted = fit(ratings, split, settings, visits=8, cutoffs=(10,))
    assert fitted.ndcg[:8, 0].max() > fitted.ndcg[8, 0]
    scores = score_all(fitted.network)
    reached = held_out_ndcg(scores, ratings, split.validation, split.train, (10,)).mean()
    assert reached == pytest.approx(fitted.ndcg[-1, 0])
    with pytest.raises(InputError, match="no epoch is left"):
        fit(ratings, split, replace(settings, warm_up=9), cutoffs=(10,))


def test_bad_settings() -> None:
    for settings, visits, message in (
        (
            replace(SMALL, list_relevant=None, loss=parse_loss("ranknet"), warm_up=0),
            1,
            "bad number of relevant",
        ),
        (
            replace(SMALL, list_relevant=12, loss=parse_loss("ranknet"), warm_up=0),
            1,
            "bad number of relevant items: 12",
        ),
        (SMALL, 0, "visits is too small: 0"),
    ):
        with pytest.raises(InputError, match=message):
            fit(blocks(), leave_out(blocks()), settings, visits=visits)


@pytest.mark.slow
def test_movielens(shared_data: Path) -> None:
    """A few epochs rank unseen items better than their popularity does."""
    ratings = read_ratings(shared_data / "movielens100k" / "ratings.tsv")
    assert (len(ratings.user_ids), len(ratings.item_ids)) == (943, 1682)
    split = leave_out(ratings, validation=5, test=5)
    fitted = fit(ratings, split, replace(LONG_LISTS, epochs=12, warm_up=6), visits=3)
    seen = np.concatenate([split.train, split.validation])
    popularity = np.bincount(ratings.items[split.train], minlength=1682)
    baseline, reached = (
        held_out_ndcg(scores, ratings, split.test, seen, (10,)).mean()
        for scores in (np.tile(popularity, (943, 1)).astype(np.float32), score_all(fitted.network))
    )
    assert reached > 1.1 * baseline
    ours = fitted.history[6:]
    assert ours[-1].loss < ours[0].loss
    assert ours[-1].validation > ours[0].validation
