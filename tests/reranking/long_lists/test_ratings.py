"""Holding the latest ratings out, and NDCG over all items in blocks."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.formats.ratings import Ratings
from lmtune.measures.lists import ndcg
from lmtune.reranking.long_lists import ratings as module
from lmtune.reranking.long_lists.ratings import HeldOut, leave_out

USERS, ITEMS = 30, 40


def made(count: int = 600) -> Ratings:
    random = np.random.default_rng(3)
    users, items = np.divmod(random.permutation(USERS * ITEMS)[:count], ITEMS)
    values = random.integers(1, 11, count) / 2
    return Ratings(users, items, values, np.arange(count), np.arange(USERS), np.arange(ITEMS))


def test_leave_out() -> None:
    users, items = np.array([1, 1, 1, 0, 1]), np.array([2, 0, 1, 0, 3])
    times = np.array([100, 200, 200, 50, 10])
    ratings = Ratings(users, items, np.ones(5), times, np.arange(2), np.arange(4))
    split = leave_out(ratings)
    assert split.test.tolist() == [2]  # time 200, the higher item
    assert split.validation.tolist() == [1]
    assert sorted(split.train) == [0, 3, 4]  # user 0 has too few
    with pytest.raises(InputError, match="test is too small: 0"):
        leave_out(ratings, test=0)
    with pytest.raises(InputError, match="no user has enough ratings: '4 at most'; accepted: 11 or more"):
        leave_out(ratings, validation=5, test=5)


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_ndcg_is_that_of_whole_lists(
    graded: bool, kind: type[np.floating], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores of few values: most items tie with others, held-out ones too."""
    monkeypatch.setattr(module, "_BLOCK", 7)
    ratings, cutoffs = made(), (1, 5, 20)
    held_out, seen = np.arange(150), np.arange(200, 600)  # those between are ranked, not relevant
    scores = np.random.default_rng(4).integers(0, 6, (USERS, ITEMS)).astype(kind)
    held = HeldOut.of(ratings, held_out, seen, graded=graded)
    told: list[tuple[int, int]] = []
    found = held.ndcg(lambda users: scores[users], cutoffs, progress=lambda *far: told.append(far))
    assert len(held.users) == len(found) > 7 and told[-1] == (-(-len(found) // 7),) * 2
    np.testing.assert_array_equal(held.ndcg(lambda users: scores[users], cutoffs, threads=3), found)
    for user, values in zip(held.users, found, strict=True):
        labels = np.zeros(ITEMS)
        own = held_out[ratings.users[held_out] == user]
        labels[ratings.items[own]] = ratings.values[own] if graded else 1.0
        ranked = np.setdiff1d(np.arange(ITEMS), ratings.items[seen][ratings.users[seen] == user])
        whole = SimpleNamespace(labels=labels[ranked], starts=np.array([0, len(ranked)]), docnos=None)
        np.testing.assert_allclose(values, ndcg(scores[user, ranked], whole, cutoffs)[0], atol=1e-14)


@pytest.mark.parametrize("graded", [False, True])
def test_ndcg_is_trec_evals(graded: bool) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    ratings = made()
    held_out, seen = np.arange(100), np.arange(100, 600)
    values = np.ceil(ratings.values)
    ratings = Ratings(ratings.users, ratings.items, values, ratings.times, np.arange(USERS), np.arange(ITEMS))
    scores = np.random.default_rng(5).standard_normal((USERS, ITEMS))
    given = HeldOut.of(ratings, held_out, seen, graded=graded).ndcg(lambda users: scores[users], (3, 10, 20))
    qrels: dict[str, dict[str, int]] = {}
    for row in held_out:
        gain = int(2 ** values[row]) - 1 if graded else 1
        qrels.setdefault(str(ratings.users[row]), {})[str(ratings.items[row])] = gain
    run: dict[str, dict[str, float]] = {user: {} for user in qrels}
    for user in run:
        hidden = set(ratings.items[seen][ratings.users[seen] == int(user)])
        run[user] = {str(i): float(scores[int(user), i]) for i in range(ITEMS) if i not in hidden}
    measured = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.3,10,20"}).evaluate(run)
    known = np.unique(ratings.users[held_out])
    wanted = [[measured[str(u)][f"ndcg_cut_{k}"] for k in (3, 10, 20)] for u in known]
    np.testing.assert_allclose(given, wanted, atol=1e-12)


def test_a_sample_of_users_is_measured_as_among_all() -> None:
    held = HeldOut.of(made(), np.arange(150), np.arange(200, 600))
    scores = np.random.default_rng(6).standard_normal((USERS, ITEMS))

    def score(users: NDArray[np.int64]) -> NDArray[np.float64]:
        return scores[users]

    some = held.sample(9, seed=1)
    assert len(some.users) == 9 and held.sample(1_000, 0) is held
    places = np.searchsorted(held.users, some.users)
    np.testing.assert_array_equal(some.ndcg(score, (5,)), held.ndcg(score, (5,))[places])
    with pytest.raises(InputError, match="no longer finite"):
        held.ndcg(lambda users: np.full((len(users), ITEMS), np.nan), (5,))
