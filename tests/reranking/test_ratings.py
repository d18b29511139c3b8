"""Reading ratings, holding the latest out, and NDCG against trec_eval."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.reranking.ratings import Ratings, held_out_ndcg, leave_out, read_ratings

LINES = "7\t30\t5\t100\n7\t10\t3\t200\n7\t20\t4\t200\n2\t10\t1\t50\n7\t40\t2.5\t10\n"


def made(tmp_path: Path, text: str) -> Ratings:
    file = tmp_path / "ratings.tsv"
    file.write_bytes(text.encode())
    return read_ratings(file)


@pytest.mark.parametrize("text", [LINES, LINES.replace("\n", "\r\n"), f"\ufeff{LINES}\n"])
def test_read(tmp_path: Path, text: str) -> None:
    ratings = made(tmp_path, text)
    assert ratings.user_ids.tolist() == [2, 7]
    assert ratings.item_ids.tolist() == [10, 20, 30, 40]
    assert ratings.users.tolist() == [1, 1, 1, 0, 1]
    assert ratings.items.tolist() == [2, 0, 1, 0, 3]
    assert ratings.values.tolist() == [5, 3, 4, 1, 2.5]
    assert ratings.times.tolist() == [100, 200, 200, 50, 10]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no ratings"),
        ("1\t2\t3\n", ":1: not a rating"),
        ("1\t2\t3\t4\n1\tx\t3\t4\n", ":2: not a rating"),
        ("1\t2\t0\t4\n", ":1: rating out of range: 0.0"),
        ("1\t2\tnan\t4\n", ":1: rating out of range"),
        ("1\t2\t3\t4\n1\t2\t5\t9\n", "rated twice"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        made(tmp_path, text)


def test_leave_out(tmp_path: Path) -> None:
    split = leave_out(made(tmp_path, LINES))
    assert split.test.tolist() == [2]  # time 200, the higher item
    assert split.validation.tolist() == [1]
    assert sorted(split.train) == [0, 3, 4]  # user 2 has too few
    with pytest.raises(InputError, match="test is too small: 0"):
        leave_out(made(tmp_path, LINES), test=0)


@pytest.mark.parametrize("graded", [False, True])
def test_ndcg_is_trec_evals(graded: bool) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    random = np.random.default_rng(3)
    users, items = np.divmod(random.permutation(6 * 30)[:90], 30)
    values = random.integers(1, 6, 90).astype(float)
    ratings = Ratings(users, items, values, np.arange(90), np.arange(6), np.arange(30))
    held_out, seen = np.arange(40), np.arange(40, 90)
    scores = random.standard_normal((6, 30))
    given = held_out_ndcg(scores, ratings, held_out, seen, (3, 10, 20), graded=graded)
    qrels: dict[str, dict[str, int]] = {}
    for row in held_out:
        gain = int(2 ** values[row]) - 1 if graded else 1
        qrels.setdefault(str(users[row]), {})[str(items[row])] = gain
    run: dict[str, dict[str, float]] = {user: {} for user in qrels}
    for user in run:
        hidden = set(items[seen][users[seen] == int(user)])
        run[user] = {str(i): float(scores[int(user), i]) for i in range(30) if i not in hidden}
    measured = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.3,10,20"}).evaluate(run)
    wanted = [[measured[str(u)][f"ndcg_cut_{k}"] for k in (3, 10, 20)] for u in np.unique(users[:40])]
    np.testing.assert_allclose(given, wanted, atol=1e-12)


def test_ties_rank_held_out_items_last() -> None:
    ratings = Ratings(
        np.array([0, 0, 0]),
        np.array([0, 1, 2]),
        np.array([1.0, 3.0, 1.0]),
        np.arange(3),
        np.arange(1),
        np.arange(5),
    )
    flat = held_out_ndcg(np.zeros((1, 5)), ratings, np.array([0, 1]), np.array([2]), (4,))
    # Four items are ranked; the two held-out ones take the last two places.
    ideal = 1 + 1 / np.log2(3)
    assert flat[0, 0] == pytest.approx((1 / np.log2(4) + 1 / np.log2(5)) / ideal)
    graded = held_out_ndcg(np.zeros((1, 5)), ratings, np.array([0, 1]), np.array([2]), (4,), graded=True)
    ideal = 7 + 1 / np.log2(3)
    assert graded[0, 0] == pytest.approx((1 / np.log2(4) + 7 / np.log2(5)) / ideal)
