"""Training NeuMF on rankings of all items."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError  # noqa: E402
from lmtune.formats.ratings import Ratings, read_ratings  # noqa: E402
from lmtune.measures.measure import exponential_ndcg  # noqa: E402
from lmtune.reranking.long_lists import ratings  # noqa: E402
from lmtune.reranking.long_lists.learning import LongListFit, fit  # noqa: E402
from lmtune.reranking.long_lists.ratings import NeuMF, RatingLists  # noqa: E402
from lmtune.reranking.long_lists.settings import LONG_LISTS, RankingOptions  # noqa: E402
from lmtune.reranking.losses.names import parse_loss  # noqa: E402
from lmtune.reranking.training import loop  # noqa: E402
from lmtune.reranking.training.loop import TrainingRun  # noqa: E402

SMALL = replace(
    LONG_LISTS, epochs=3, warm_up=2, batch_size=10, list_relevant=4, list_size=12, learning_rate=0.05
)
LOSSES = ["song", "k-song:cutoff=10:theoretical=false", "k-song:cutoff=10", "cross-entropy", "ranknet"]
LOSSES += ["listnet", "listmle", "lambdarank", "approxndcg", "neuralndcg"]


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


@pytest.mark.parametrize("layers", [(32, 16), (7,), (8, 6, 4)])
def test_all_items_are_scored_as_one_by_one(layers: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is held at a time: many users and items, or few of either."""
    network = NeuMF(9, 50, layers=layers, dropout=0.5)
    for weights in network.parameters():
        torch.nn.init.normal_(weights)
    users = torch.tensor([8, 0, 3, 3, 5])
    whole = network.eval()(users, torch.arange(50).expand(5, -1)).detach()
    network.train()
    for numbers in (1, 200, 1 << 17):
        monkeypatch.setattr(ratings, "_CHUNK", numbers)
        torch.testing.assert_close(network.score_all(users), whole, rtol=1e-4, atol=1e-4)


def reached(lists: RatingLists, fitted: LongListFit) -> float:
    return float(lists.measure([fitted], lists.reported(exponential_ndcg(10)), "cpu")[:, 0].mean())


@pytest.mark.parametrize(
    ("loss", "whole"), [*((own, False) for own in LOSSES), *((own, True) for own in LOSSES[:4])]
)
def test_learns(loss: str, whole: bool) -> None:
    lists = RatingLists(blocks(), RankingOptions(held_out=2, visits=8))
    settings = replace(SMALL, loss=parse_loss(loss))
    if whole:
        settings = replace(settings, list_size=None, list_relevant=None)
    fitted = fit(lists, settings)
    random = np.random.default_rng(1).standard_normal((40, 60))
    assert reached(lists, fitted) > 2 * lists.test.ndcg(lambda users: random[users], (10,)).mean()
    assert fitted.best_epoch == len(fitted.history) == 3


def test_threads_do_not_change_what_is_measured() -> None:
    held = RatingLists(blocks(), RankingOptions(held_out=2)).test
    network, before = NeuMF(40, 60), torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found = network.ndcg(held, (5, 10))
            np.testing.assert_array_equal(found, held.ndcg(network.scorer(), (5, 10)))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_is_seeded() -> None:
    lists = RatingLists(blocks(), RankingOptions(held_out=1, visits=1))
    brief = replace(SMALL, epochs=2, warm_up=1)
    first, again = (fit(lists, brief) for _ in range(2))
    assert first.history == again.history
    other = fit(lists, replace(brief, seed=1))
    assert other.history != first.history


@pytest.mark.parametrize("many", [0, loop._MANY_WEIGHTS])
def test_a_training_that_was_interrupted_ends_as_one_that_was_not(
    many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_MANY_WEIGHTS", many)
    lists = RatingLists(blocks(), RankingOptions(held_out=1, visits=2))
    whole = fit(lists, SMALL)

    def stop(run: TrainingRun) -> None:
        if run.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(lists, SMALL, watch=stop, checkpoint=tmp_path)
    for _ in range(2):  # what has ended is there at once
        resumed = fit(lists, SMALL, checkpoint=tmp_path)
        assert resumed.history == whole.history
        assert all(torch.equal(resumed.weights[name], whole.weights[name]) for name in whole.weights)
    [state] = tmp_path.glob("state-*")
    assert state.stat().st_size < 1.1 * sum(4 * own.numel() for own in whole.weights.values()) + 4096
    with pytest.raises(InputError, match="checkpoint of another data"):
        fit(RatingLists(blocks(), RankingOptions(held_out=2, visits=2)), SMALL, checkpoint=tmp_path)


def test_graded_pairs() -> None:
    ratings = blocks()
    graded = RatingLists(ratings, RankingOptions(held_out=1, graded=True))
    assert (graded.pairs.lengths == 60).all()
    assert sorted(graded.pairs.labels) == sorted(ratings.values[graded.split.train])
    assert (RatingLists(ratings).pairs.labels == 1).all()


@pytest.mark.slow
def test_the_best_epoch_is_none_of_the_warm_up() -> None:
    lists = RatingLists(blocks(), RankingOptions(held_out=2, visits=8))
    # The last layer's first epoch is far behind the warm-up's last.
    settings = replace(SMALL, loss=parse_loss("song"), epochs=9, warm_up=8, learning_rate=0.02)
    fitted = fit(lists, settings)
    course = [row.validation for row in fitted.history]
    assert max(course[:8]) > course[8] == fitted.validation
    assert lists.validation.ndcg(fitted.network().scorer(), (10,)).mean() == pytest.approx(course[8])
    with pytest.raises(InputError, match="no epoch is left"):
        replace(settings, warm_up=9)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"list_relevant": None, "loss": parse_loss("ranknet"), "warm_up": 0}, "bad number of relevant"),
        (
            {"list_relevant": 12, "loss": parse_loss("ranknet"), "warm_up": 0},
            "bad number of relevant items: 12",
        ),
        ({"measure": "mrr"}, "no measure of held-out items: 'mrr'"),
        ({"measure": "ndcg"}, "no measure of held-out items"),
        ({"loss": parse_loss("lambdamart")}, "trees need features"),
    ],
)
def test_bad_settings(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(SMALL, **wrong)


def test_bad_device() -> None:
    with pytest.raises(InputError, match="no such device: 'tpu'"):
        fit(RatingLists(blocks()), SMALL, device="tpu")


@pytest.mark.slow
def test_movielens(shared_data: Path) -> None:
    """A few epochs rank unseen items better than their popularity does."""
    ratings = read_ratings(shared_data / "movielens100k" / "ratings.tsv")
    assert (len(ratings.user_ids), len(ratings.item_ids)) == (943, 1682)
    lists = RatingLists(ratings, RankingOptions(held_out=5, visits=3))
    fitted = fit(lists, replace(LONG_LISTS, epochs=12, warm_up=6))
    popularity = np.bincount(ratings.items[lists.split.train], minlength=1682).astype(np.float64)
    baseline = lists.test.ndcg(lambda users: np.tile(popularity, (len(users), 1)), (10,)).mean()
    assert reached(lists, fitted) > 1.1 * baseline
    ours = fitted.history[6:]
    assert ours[-1].loss < ours[0].loss
    assert ours[-1].validation > ours[0].validation
