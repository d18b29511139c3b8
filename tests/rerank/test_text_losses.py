"""The losses as sentence-transformers calls them: values, gradients, memory of lists, its own trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="the extra 'text' is not installed")

import torch
from sentence_transformers.cross_encoder import CrossEncoder
from tiny_bert import WORDS, tiny_bert
from torch import Tensor

from lmtune.errors import InputError
from lmtune.losses.listwise import k_song, song
from lmtune.losses.songs import RelevantPairs, Song
from lmtune.losses.table import LOSSES, SONGS
from lmtune.rerank import sentence_transformers as losses
from lmtune.rerank.data import RankingData, batch_of

NAMES = [name for name in vars(losses) if name.endswith("Loss") and name != "ListLoss"]
QUERIES = ["what is a bear", "the sea"]
DOCUMENTS = [
    ["a panda", "the whale lives in the sea", "paris"],
    ["whale", "bear and panda in paris of the sea"],
]
LABELS = [torch.tensor([2, 1, 0]), torch.tensor([1, 0])]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return CrossEncoder(str(tiny_bert(tmp_path_factory.mktemp("bert"), dropout=0.0)), device="cpu")


def step(model: Any, loss: torch.nn.Module, *inputs: Any) -> tuple[float, list[Tensor]]:
    """Return a loss's value and the gradients of the model's weights."""
    model.zero_grad()
    value = loss(*inputs)
    value.backward()
    return value.item(), [own.grad.clone() for own in model.parameters() if own.grad is not None]


def scores_at_once(model: Any, queries: list[str], documents: list[list[str]]) -> list[Tensor]:
    pairs = [(query, text) for query, own in zip(queries, documents, strict=True) for text in own]
    scores = model(model.preprocess(pairs))["scores"].view(-1)
    return list(torch.split(scores, [len(own) for own in documents]))


def test_each_loss_has_a_class(model: Any) -> None:
    made = {getattr(losses, name)(model).settings.loss.name for name in NAMES}
    assert made == {*LOSSES, *SONGS}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "ListwiseCrossEntropyLoss"])
def test_value_and_gradient_are_those_of_the_loss_of_all_scores(model: Any, name: str) -> None:
    loss = getattr(losses, name)(model, mini_batch_size=2)
    function: Any = {"song": song, "k-song": k_song, **LOSSES}[loss.settings.loss.name]
    found, gradients = step(model, loss, [QUERIES, DOCUMENTS], LABELS)
    wanted, expected = step(model, lambda: function(scores_at_once(model, QUERIES, DOCUMENTS), LABELS))  # type: ignore[arg-type]
    assert found == pytest.approx(wanted, rel=1e-5)
    assert max(float(own.abs().max()) for own in expected) > 1e-5
    for ours, theirs in zip(gradients, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_in_batch_negatives_are_infonce_over_the_batch(model: Any) -> None:
    queries = [*QUERIES, "paris"]
    documents = [["a panda", "whale"], ["the sea"], ["whale", "paris of the sea"]]
    labels = [torch.tensor([1, 0]), torch.tensor([1]), torch.tensor([0, 1])]
    texts = ["a panda", "the sea", "paris of the sea", "whale"]  # the relevant ones in the queries' order

    def by_hand() -> Any:
        scores = model(model.preprocess([(query, text) for query in queries for text in texts]))["scores"]
        return torch.nn.functional.cross_entropy(scores.view(3, 4), torch.arange(3))

    loss = losses.ListNetLoss(model, target="labels", in_batch=9, mini_batch_size=2)
    found, gradients = step(model, loss, [queries, documents], labels)
    wanted, expected = step(model, by_hand)  # type: ignore[arg-type]
    assert found == pytest.approx(wanted, rel=1e-5)
    for ours, theirs in zip(gradients, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    assert loss.get_config_dict()["in_batch"] == 9
    with torch.no_grad():  # evaluation takes the lists as they are
        alone = losses.ListNetLoss(model, target="labels")([queries, documents], labels)
        assert loss([queries, documents], labels) == alone


def test_some_of_the_others_are_drawn_anew(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[tuple[str, str]]] = []
    preprocess = model.preprocess

    def preprocessed(pairs: Any, **how: Any) -> Any:
        read.append(pairs)
        return preprocess(pairs, **how)

    monkeypatch.setattr(model, "preprocess", preprocessed)
    documents = [["bear", "whale", "panda"], ["whale", "sea", "paris", "lives"]]
    labels = [torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0, 0])]
    loss = losses.RankNetLoss(model, in_batch=2, list_size=2, mini_batch_size=None)
    added = set()
    for seed in range(12):
        torch.manual_seed(seed)
        loss([QUERIES, documents], labels)
        texts = [[text for query, text in read[-1] if query == own] for own in QUERIES]
        for own, lists in zip(documents, texts, strict=True):
            others = set(lists) - set(own)
            assert len(lists) == 4 == len(set(lists))
            assert len(others) == 2
            added |= others
    assert added == {"bear", "panda", "sea", "paris", "lives"}


def test_song_remembers_lists_that_are_cut(model: Any) -> None:
    random = np.random.default_rng(0)
    documents = [[" ".join(random.choice(WORDS, 4)) for _ in range(size)] for size in (30, 20)]
    labels = [torch.tensor([1.0] * 5 + [0.0] * (len(own) - 5)) for own in documents]
    loss = losses.SongLoss(model, list_size=8, gamma=0.25)
    data = RankingData.from_lengths(np.empty((50, 0)), torch.cat(labels), [30, 20])
    by_hand = Song(RelevantPairs.from_lists(data.starts, data.labels), gamma=0.25)
    everything = scores_at_once(model, QUERIES, documents)
    for number in range(4):
        torch.manual_seed(number)
        found, gradients = step(model, loss, [QUERIES, documents], labels)
        torch.manual_seed(number)
        drawn = np.random.default_rng(int(torch.randint(2**62, ())))
        batch = batch_of(data, np.arange(2), 8, 2, drawn)
        assert (batch.labels > 0).sum(axis=1).tolist() == [2, 2]
        rows = torch.from_numpy(batch.rows)
        ids = {"queries": torch.from_numpy(batch.queries), "items": rows}
        scores = torch.cat(everything)[rows].detach().requires_grad_()
        wanted = by_hand(scores, torch.from_numpy(batch.labels), **ids)
        [slopes] = torch.autograd.grad(wanted, [scores])
        assert found == pytest.approx(wanted.item(), rel=1e-5)
        again = torch.cat(scores_at_once(model, QUERIES, documents))[rows]
        [expected] = torch.autograd.grad((again * slopes).sum(), [next(model.parameters())])
        torch.testing.assert_close(gradients[0], expected, rtol=1e-4, atol=1e-7)
    with torch.no_grad():  # whole lists, of which SONG needs no memory
        value = float(loss([QUERIES, documents], labels))
    assert value == pytest.approx(float(song(everything, labels)), rel=1e-5)


@pytest.mark.slow
def test_sentence_transformers_trains_with_it(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("accelerate")
    from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments

    model = CrossEncoder(str(tiny_bert(tmp_path / "bert")), device="cpu")
    columns = {"query": QUERIES * 4, "docs": DOCUMENTS * 4, "labels": [own.tolist() for own in LABELS] * 4}
    loss = losses.ApproxNDCGLoss(model, mini_batch_size=4, k=2)
    with torch.no_grad():
        before = float(loss.eval()([QUERIES, DOCUMENTS], LABELS))
    arguments = CrossEncoderTrainingArguments(
        output_dir=str(tmp_path / "out"),
        num_train_epochs=8,
        learning_rate=3e-3,
        per_device_train_batch_size=2,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        seed=1,
    )
    dataset = datasets.Dataset.from_dict(columns)
    CrossEncoderTrainer(model, args=arguments, train_dataset=dataset, loss=loss).train()
    model.eval()
    with torch.no_grad():
        after = float(loss([QUERIES, DOCUMENTS], LABELS))
    assert after < min(before - 0.05, -0.95)
    model.save_pretrained(str(tmp_path / "kept"))
    assert '"loss": "approxndcg"' in (tmp_path / "kept" / "README.md").read_text(encoding="utf-8")
    again = CrossEncoder(str(tmp_path / "kept"), device="cpu")
    pairs = [(QUERIES[0], text) for text in DOCUMENTS[0]]
    np.testing.assert_allclose(again.predict(pairs), model.predict(pairs), rtol=1e-5)
    assert again.predict(pairs).argmax() == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda model: losses.RankNetLoss(model, alpha=3), "ranknet has no such option: 'alpha'"),
        (lambda model: losses.ApproxNDCGLoss(model, alpha=-1), "approxndcg: "),
        (lambda model: losses.SongLoss(model, list_size=2), "too small for SONG"),
        (lambda model: losses.RankNetLoss(model, mini_batch_size=0), "mini_batch_size"),
        (lambda model: losses.RankNetLoss(model, in_batch=-1), "bad in_batch: -1; accepted: 0 or more"),
        (lambda model: losses.SongLoss(model, in_batch=4), "bad in_batch: 4; accepted: 0 with song"),
        (lambda model: losses.ListLoss(model, "hinge"), "unknown loss: 'hinge'"),
        (lambda model: losses.ListNetLoss(model)([QUERIES, ["a", "b"]], LABELS), "no lists of documents"),
        (lambda model: losses.ListNetLoss(model)([QUERIES, DOCUMENTS], LABELS[:1]), "differ in number"),
        (lambda model: losses.ListNetLoss(model)([QUERIES, [[], []]], [LABELS[0][:0]] * 2), "no doc"),
    ],
)
def test_bad_input(model: Any, make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(model)
