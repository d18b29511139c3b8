"""Ranking the labels of examples."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_labels import topical

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError  # noqa: E402
from lmtune.measures.lists import parse_label_measure  # noqa: E402
from lmtune.reranking.long_lists import learning as long_lists  # noqa: E402
from lmtune.reranking.long_lists.labels import LabelLists, LabelNetwork, scorer  # noqa: E402
from lmtune.reranking.long_lists.settings import LabelSettings  # noqa: E402
from lmtune.reranking.losses.names import parse_loss  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

BRIEF = LabelSettings(
    network="mlp:16", epochs=6, warm_up=0, batch_size=16, list_size=8, list_relevant=2, learning_rate=0.03
)
LOSSES = [
    "song",
    "k-song:cutoff=5",
    "cross-entropy",
    "binary-cross-entropy",
    "listnet:target=labels",
    "ranknet",
]
MEASURES = [parse_label_measure("p@1"), parse_label_measure("ndcg@5")]


@pytest.fixture(scope="module")
def lists() -> LabelLists:
    return LabelLists(topical(300, 0), topical(80, 1))


@pytest.mark.parametrize(
    ("network", "loss"),
    [*(("linear", loss) for loss in LOSSES), ("mlp:16", "song"), ("mlp:16-8", "cross-entropy")],
)
def test_learns_more_than_which_labels_are_frequent(lists: LabelLists, network: str, loss: str) -> None:
    # All labels are about equally frequent: popularity knows nothing, the words tell the topic,
    # which has 4 of 40 labels, 2 of them the example's. Popularity's P@1 is about 1/20, 1/2 the most.
    counts = np.bincount(lists.given.relevant.ids, minlength=40)
    popular, _ = lists.measured(lambda rows: np.tile(counts * 1.0, (len(rows), 1)), MEASURES).mean(0)
    fitted = lists.train(0, replace(BRIEF, loss=parse_loss(loss), network=network))
    reached = lists.measure([fitted], MEASURES, "cpu").mean(0)
    assert popular < 0.15 and reached[0] > 0.35
    assert fitted.validation == pytest.approx(lists.validate(fitted.network(), 5))


def test_whole_lists_and_warm_up(lists: LabelLists) -> None:
    settings = replace(BRIEF, list_size=None, list_relevant=None, warm_up=3)
    for network in ("linear", "mlp:16"):
        fitted = lists.train(0, replace(settings, network=network))
        assert fitted.best_epoch > 3
        assert lists.measure([fitted], MEASURES, "cpu").mean(0)[0] > 0.35


@pytest.mark.parametrize("widths", [(), (6,), (6, 5)])
def test_scores_what_is_asked_for(widths: tuple[int, ...]) -> None:
    lists = LabelLists(topical(20, 0), topical(5, 1))
    torch.manual_seed(0)
    network = LabelNetwork(60, 40, widths)
    torch.nn.init.normal_(network.bias)
    rows = np.array([3, 0, 7])
    some = np.array([[39, 0, -1], [5, 6, 7], [1, 1, 2]])
    words, values, starts, labels = map(torch.from_numpy, lists.inputs(rows, some))
    # Against dense bags of length 1.
    dense = torch.zeros(3, 60)
    for row, (begin, end) in enumerate(pairwise(starts.tolist())):
        dense[row, words[begin:end]] = values[begin:end]
    assert dense.norm(dim=1).tolist() == pytest.approx([1.0] * 3)
    hidden = network.hidden(dense @ network.words + network.bias)
    every = hidden if network.last is None else network.last(hidden)
    expected = every.gather(1, labels.clamp(min=0))
    found = network(words, values, starts, labels)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(network.score_all(words, values, starts), every)
    torch.testing.assert_close(network(words, values, starts, torch.arange(40).expand(3, -1)), every)
    gradients = [
        torch.autograd.grad(scores.square().sum(), network.words, retain_graph=True)[0]
        for scores in (found, expected)
    ]
    torch.testing.assert_close(*gradients)


def test_never_scores_all_examples_at_once(lists: LabelLists) -> None:
    asked = []

    def score(rows: Any) -> Any:
        asked.append(len(rows))
        return scorer(LabelNetwork(60, 40), lists.test)(rows)

    lists.measured(score, MEASURES)
    assert sum(asked) == 80 and max(asked) <= 64


def test_goes_on_to_the_same_weights(lists: LabelLists, tmp_path: Path) -> None:
    settings = replace(BRIEF, loss=parse_loss("song"), warm_up=2, dropout=0.2)
    whole = long_lists.fit(lists, settings)

    def stop(done: int, total: int, words: str) -> None:
        del total, words
        if done in (25, 70):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            long_lists.fit(lists, settings, checkpoint=tmp_path, checkpoint_every=7, progress=stop)
    resumed = long_lists.fit(lists, settings, checkpoint=tmp_path)
    assert resumed.history == whole.history
    assert all(torch.equal(whole.weights[name], own) for name, own in resumed.weights.items())
    other = LabelLists(topical(300, 2), lists.test)
    with pytest.raises(InputError, match="checkpoint of another data"):
        long_lists.fit(other, settings, checkpoint=tmp_path)


def test_examples_without_words_or_labels_are_kept_apart() -> None:
    given = topical(40, 3)
    bags = given.bags._replace(starts=np.minimum(given.bags.starts, 100))
    relevant = given.relevant._replace(
        starts=np.maximum(given.relevant.starts - 20, 0), ids=given.relevant.ids[20:]
    )
    odd = replace(given, bags=bags, relevant=relevant)
    fitted = LabelLists(odd, odd).train(0, replace(BRIEF, epochs=1))
    assert np.isfinite(fitted.history[0].loss)
    assert LabelLists(odd, odd).measure([fitted], MEASURES, "cpu").shape == (30, 2)
    nothing = replace(
        given, relevant=given.relevant._replace(starts=given.relevant.starts * 0, ids=np.empty(0, np.int32))
    )
    with pytest.raises(InputError, match="no test example has a label"):
        LabelLists(given, nothing).check(BRIEF)


def test_refuses_what_cannot_be() -> None:
    with pytest.raises(InputError, match="too many weights: 3160062000; accepted: 268,435,456 at most"):
        LabelNetwork(102000, 30981)
    for name in ("b64", "attention", "two-layer"):
        with pytest.raises(InputError, match="no network for labels"):
            LabelSettings(network=name)
