"""Training on texts: the same gradients in pieces as at once, every loss, resumed to the same bits."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
pytest.importorskip("transformers", reason="the extra 'text' is not installed")

from made_texts import made_texts  # noqa: E402
from tiny_bert import tiny_bert  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from lmtune.errors import InputError  # noqa: E402
from lmtune.losses import lambdarank  # noqa: E402
from lmtune.rerank.data import batches  # noqa: E402
from lmtune.rerank.loss_names import loss_names, parse_loss  # noqa: E402
from lmtune.rerank.settings import Settings, TextOptions  # noqa: E402
from lmtune.rerank.text import cross_encoder as gradient_cache  # noqa: E402
from lmtune.rerank.text.cross_encoder import CrossEncoder, load_language_model  # noqa: E402
from lmtune.rerank.text.training import TextFeed, TextLists, TextTrained, fit  # noqa: E402

torch.set_num_threads(1)

EXAMPLES = Path(__file__).resolve().parents[3] / "experiments" / "lambdas" / "examples.py"
LAMBDAS = f"lambdas:{EXAMPLES}:squared_hinge"
SMALL = TextOptions(max_length=24, overlap=4, batch_tokens=128)
TRAIN, VALIDATION = made_texts(0, options=SMALL), made_texts(1, queries=4, options=SMALL)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    model = tiny_bert(tmp_path_factory.mktemp("model"))
    yield Settings(network=f"text:{model}", learning_rate=0.003, epochs=2, batch_size=3)


def kept_whole(score: Callable[[Any], Any], piece: Any, *, use_reentrant: bool) -> Any:
    del use_reentrant
    return score(piece)


def gradients(network: CrossEncoder, lists: TextLists) -> dict[str, Any]:
    network.train().zero_grad()
    [batch] = batches(lists, size=len(lists.queries), seed=0, epoch=0)
    torch.manual_seed(5)
    scores = network(*TextFeed(lists, "cpu").inputs(network, batch.rows))
    labels, mask = torch.from_numpy(batch.labels), torch.from_numpy(batch.mask)
    lambdarank(scores, labels, mask=mask).backward()  # type: ignore[no-untyped-call]
    return {name: own.grad.clone() for name, own in network.named_parameters() if own.grad is not None}


@pytest.mark.first_case
@pytest.mark.parametrize("passages", ["first", "max", "sum"])
def test_gradients_in_pieces_are_those_of_all_at_once(settings: Settings, passages: str) -> None:
    lists = replace(TRAIN, options=replace(SMALL, passages=passages))
    network = CrossEncoder(load_language_model(settings.network, TextOptions()), lists.options, dropout=0.3)
    pieces = gradients(network, lists)
    with pytest.MonkeyPatch.context() as at_once:
        at_once.setattr(gradient_cache, "checkpoint", kept_whole)
        whole = gradients(network, lists)
    assert pieces.keys() == whole.keys()
    assert any(float(own.abs().max()) > 1e-3 for own in whole.values())
    for name, own in whole.items():
        torch.testing.assert_close(pieces[name], own, rtol=1e-5, atol=1e-8)
    again = gradients(network, lists)
    assert all(torch.equal(own, again[name]) for name, own in pieces.items())


class Alive(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the tensors that are alive, and their most at a time."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[int] = set()
        self.now = self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for tensor in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(tensor, torch.Tensor) and id(storage := tensor.untyped_storage()) not in self.seen:
                self.seen.add(id(storage))
                self.now += storage.nbytes()
                self.most = max(self.most, self.now)
                weakref.finalize(storage, self.gone, id(storage), storage.nbytes())
        return found

    def gone(self, number: int, size: int) -> None:
        self.seen.discard(number)
        self.now -= size


@pytest.mark.slow
def test_graphs_of_one_micro_batch_at_a_time(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = made_texts(2, queries=24, options=SMALL)
    network = CrossEncoder(load_language_model(settings.network, TextOptions()), SMALL)
    gradients(network, lists)
    with Alive() as in_pieces:
        gradients(network, lists)
    monkeypatch.setattr(gradient_cache, "checkpoint", kept_whole)
    with Alive() as at_once:
        gradients(network, lists)
    assert in_pieces.most < 0.3 * at_once.most


@pytest.mark.first_case
@pytest.mark.parametrize("loss", [name.replace("lambdas", LAMBDAS) for name in loss_names()])
def test_every_loss_learns(settings: Settings, loss: str) -> None:
    asked = replace(settings, loss=parse_loss(loss), epochs=1)
    trained = fit(TRAIN, VALIDATION, asked)
    assert np.isfinite(trained.validation)
    before = load_language_model(settings.network, TextOptions()).model.state_dict()
    moved = [
        not torch.equal(before[name.removeprefix("model.")], own) for name, own in trained.weights.items()
    ]
    assert any(moved)


@pytest.mark.slow
def test_training_makes_it_better_and_bf16_nearly_as_good(settings: Settings) -> None:
    asked = replace(settings, loss=parse_loss("ranknet"), epochs=12, dropout=0.0, learning_rate=0.01)
    trained = fit(TRAIN, None, asked)
    assert trained.history[-1].loss < 0.7 * trained.history[0].loss
    half = fit(TRAIN, None, replace(asked, amp_bf16=True))
    assert half.history[0].loss != trained.history[0].loss
    assert half.history[-1].loss < 0.8 * half.history[0].loss


def same(one: TextTrained, other: TextTrained) -> bool:
    return one.history == other.history and all(
        torch.equal(own, other.weights[n]) for n, own in one.weights.items()
    )


@pytest.mark.first_case
@pytest.mark.parametrize("loss", ["lambdarank", "song"])
def test_resumed_to_the_same_bits(settings: Settings, tmp_path: Path, loss: str) -> None:
    asked = replace(settings, loss=parse_loss(loss))
    straight = fit(TRAIN, VALIDATION, asked)

    class Killed(Exception):  # noqa: N818
        pass

    def stop(done: int, total: int, words: str) -> None:
        del total, words
        if done == 6:
            raise Killed

    with pytest.raises(Killed):
        fit(TRAIN, VALIDATION, asked, checkpoint=tmp_path, checkpoint_every=2, progress=stop)
    done: list[int] = []

    def count(step: int, total: int, words: str) -> None:
        del total, words
        done.append(step)

    assert same(fit(TRAIN, VALIDATION, asked, checkpoint=tmp_path, progress=count), straight)
    assert done[0] == 6
    other = replace(TRAIN, topics=dict.fromkeys(TRAIN.topics, "x"))
    with pytest.raises(InputError, match="checkpoint of another texts"):
        fit(other, VALIDATION, asked, checkpoint=tmp_path)


def test_scores_do_not_depend_on_micro_batches(settings: Settings) -> None:
    trained = fit(TRAIN, VALIDATION, replace(settings, epochs=1))
    scores = trained.score(VALIDATION)
    trained.network.options = replace(SMALL, batch_tokens=8)
    np.testing.assert_allclose(trained.score(VALIDATION), scores, atol=1e-6)


def test_a_document_without_text(settings: Settings) -> None:
    lists = TextLists.of({"q": "a"}, {"q": {"d1": 1.0, "d2": 0.0}}, {"d1": "a text"})
    with pytest.raises(InputError, match="a document without text: 'd2'"):
        fit(lists, None, settings)
