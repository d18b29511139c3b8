"""Losses on long lists: ratings and labels held out, measures by brute force, trainings that learn."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from experiments.common import call  # noqa: E402
from experiments.long_lists.__main__ import QUICK, experiment  # noqa: E402
from experiments.long_lists.data import (  # noqa: E402
    HeldOut,
    label_lists,
    made_ratings,
    rating_lists,
    read_examples,
    read_ratings,
)
from experiments.long_lists.networks import NeuMF  # noqa: E402
from experiments.long_lists.training import TrainingOptions, train  # noqa: E402
from lmtune.errors import InputError  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

BRIEF = TrainingOptions(
    epochs=3, warm_up=2, visits=8, batch_size=10, list_size=12, list_relevant=4, learning_rate=0.05
)


def write_examples(path: Path, count: int, seed: int) -> None:
    """Write examples of ten topics: words tell the topic, which has four of forty labels."""
    random, lines = np.random.default_rng(seed), [f"{count} 60 40"]
    for _ in range(count):
        topic = random.integers(10)
        labels = topic * 4 + random.permutation(4)[:2]
        words = topic * 6 + random.permutation(6)[:3]
        lines.append(f"{labels[0]},{labels[1]} " + " ".join(f"{word}:1" for word in sorted(words)))
    path.write_text("\n".join(lines) + "\n")


def test_measures_are_those_of_whole_rankings() -> None:
    random = np.random.default_rng(4)
    scores = random.permutation(70 * 30).reshape(70, 30) * 1.0
    table = random.integers(0, 5, (70, 30))
    relevant, seen, weights = (table == 1) * 1.0, (table == 2) * 1.0, random.random(30)
    held = HeldOut(np.arange(70), sparse.csr_array(relevant), sparse.csr_array(seen), weights)
    found = held.measure(lambda rows: scores[rows], ["ndcg@5", "p@5", "psp@5"])
    best, psp = [], []
    for row in range(70):
        order = [item for item in np.argsort(-scores[row]) if not seen[row, item]][:5]
        hits = relevant[row, order]
        discount = 1 / np.log2(np.arange(5) + 2)
        ideal = discount[: int(relevant[row].sum())].sum()
        assert found[row, 0] == pytest.approx((hits * discount).sum() / ideal)
        assert found[row, 1] == pytest.approx(hits.sum() / 5)
        best.append(np.sort(weights * relevant[row])[::-1][:5].sum() / 5)
        psp.append((hits * weights[order]).sum() / 5)
    np.testing.assert_allclose(found[:, 2], np.array(psp) / np.mean(best))


def test_each_users_latest_ratings_are_held_out() -> None:
    frame = pd.DataFrame({"user": [1, 1, 1, 0, 1], "item": [2, 0, 1, 0, 3], "time": [100, 200, 200, 50, 10]})
    lists = rating_lists(frame.assign(rating=1.0), held_out=1)
    assert [part.relevant.nonzero()[1].tolist() for part in (lists.validation, lists.test)] == [[0], [1]]
    assert lists.test.lists.tolist() == [1]
    assert sorted(zip(np.repeat([0, 1], lists.pairs.counts), lists.pairs.items, strict=True)) == [
        (0, 0),
        (1, 2),
        (1, 3),
    ]
    with pytest.raises(InputError, match="no user has enough ratings; accepted: 11 or more"):
        rating_lists(frame.assign(rating=1.0), held_out=5)


@pytest.mark.parametrize(
    "text", ["3::7::4.5::10\n9::2::1::11\n", "user,item,rating,time\n3,7,4.5,10\n9,2,1,11\n"]
)
def test_ratings_are_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / ("ratings.dat" if "::" in text else "ratings.csv")
    path.write_text(text)
    assert read_ratings(path).to_numpy().tolist() == [[0, 1, 4.5, 10], [1, 0, 1, 11]]


def test_examples_are_read(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("3 3 2\n0,1 0:1 2:0.5\n 1:2\n1\n")
    features, labels = read_examples(path)
    assert features.toarray().tolist() == [[1, 0, 0.5], [0, 2, 0], [0, 0, 0]]
    assert labels.toarray().tolist() == [[1, 1], [0, 0], [0, 1]]
    for wrong in ("1 3\n0 1:1\n", "2 3 2\n0 1:1\n", "1 3 2\n5 1:1\n", "1 3 2\n0 x:1\n"):
        path.write_text(wrong)
        with pytest.raises(InputError, match=r"train\.txt"):
            read_examples(path)


def test_neumf_scores_all_items_as_one_by_one() -> None:
    network = NeuMF(9, 50, layers=(8, 6, 4)).eval()
    users = torch.tensor([8, 0, 3])
    whole = network(users, torch.arange(50).expand(3, -1))
    torch.testing.assert_close(network.score_all(users), whole)
    torch.testing.assert_close(network(users[1:2], torch.tensor([[7]]))[0, 0], whole[1, 7])


@pytest.mark.first_case
@pytest.mark.parametrize("loss", ["song", "k-song:cutoff=10", "cross-entropy", "ranknet", "listnet"])
@pytest.mark.parametrize("whole", [False, True])
def test_ratings_are_learnt(loss: str, whole: bool) -> None:
    lists = rating_lists(made_ratings(), held_out=2)
    options = replace(BRIEF, list_size=0 if whole else 12)
    trained, again = train(lists, loss, options), train(lists, loss, options)
    assert trained.validation == again.validation
    assert trained.best_epoch == 3
    # A random ranking of about fifty items reaches about 0.06.
    assert lists.measure(trained.network, "test", ["ndcg@10"]).mean() > 0.12


@pytest.mark.slow
@pytest.mark.parametrize("widths", [(), (16,)])
def test_labels_are_learnt(tmp_path: Path, widths: tuple[int, ...]) -> None:
    for name, count in (("train", 300), ("test", 80)):
        write_examples(tmp_path / name, count, count)
    lists = label_lists(tmp_path / "train", tmp_path / "test", widths=widths)
    options = replace(BRIEF, epochs=6, warm_up=0, list_size=8, list_relevant=2, measure="ndcg@5")
    measured = lists.measure(train(lists, "song", options).network, "test", ["p@1", "psp@5"])
    assert measured[:, 0].mean() > 0.35
    assert math.isfinite(measured[:, 1].mean())


def test_losses_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "ratings.tsv"
    made_ratings().to_csv(path, sep="\t", header=False, index=False)
    results = call(experiment, {**QUICK, "data": str(path)})
    made = call(experiment, QUICK)
    for name in ("summary", "courses", "comparison"):
        pd.testing.assert_frame_equal(results[name], made[name])
    assert results["summary"].shape == (2, 4)
    assert len(results["courses"]) == 4
