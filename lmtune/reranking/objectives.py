"""The losses by name, as training calls them: plain ones and those that remember."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from lmtune.errors import InputError
from lmtune.measures.lists import Measurer
from lmtune.measures.measure import ACCEPTED_OF_LISTS, parse_list_measure
from lmtune.reranking.data import RankingData
from lmtune.reranking.losses.given_lambdas import loss_from_options
from lmtune.reranking.losses.lambda_functions import LAMBDAS, named_options
from lmtune.reranking.settings import GRADIENT_FREE

_REMEMBERING = ("song", "k-song", "cross-entropy")


@dataclass(frozen=True)
class Lists:
    """A batch as losses see it.

    Attributes
    ----------
    labels, mask : Tensor, shape (batch, items)
        Grades and, True, where there is an item.
    queries : Tensor of int64, shape (batch,)
        Numbers of the queries.
    rows : Tensor of int64, shape (batch, items)
        Rows of the items in the training data, -1 on padding.
    seed : int
        Of whatever the loss draws.
    """

    labels: Tensor
    mask: Tensor
    queries: Tensor
    rows: Tensor
    seed: int


class Objective(Protocol):
    """A loss in training.

    Attributes
    ----------
    needs : {"", "previous", "direction"}
        What it takes besides scores: those at the weights before the last step, or the scores'
        derivative along it.
    """

    needs: str

    def __call__(self, scores: Tensor, lists: Lists, before: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the scalar whose backward is the gradient, and the objective's estimate."""

    def state(self) -> dict[str, Tensor]:
        """Return what the loss remembers."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state` returned."""


def loss_names() -> list[str]:
    """Return the losses that networks can be trained with."""
    from lmtune.reranking.losses.table import LOSSES

    return [*LOSSES, *_REMEMBERING, LAMBDAS]


def is_measure(name: str) -> bool:
    """Say whether a name is a measure's, of `parse_list_measure`."""
    try:
        parse_list_measure(name)
    except InputError:
        return False
    return True


def check_objective(name: str, optimizer: str) -> None:
    """Raise InputError for a loss that there is not, or that the optimizer cannot minimise.

    A measure has no gradient. A loss that remembers earlier scores is no function of the weights,
    whose values SPSA could compare, and lambdas need not have a cost at all.
    """
    if is_measure(name):
        if optimizer not in GRADIENT_FREE:
            raise InputError(
                f"the measure {name} has no gradient for the optimizer",
                value=optimizer,
                accepted=", ".join(GRADIENT_FREE),
            )
    elif name not in loss_names():
        accepted = ", ".join(loss_names())
        if optimizer in GRADIENT_FREE:
            accepted += f"; measures: {ACCEPTED_OF_LISTS}"
        raise InputError("unknown loss", value=name, accepted=accepted)
    elif name in (*_REMEMBERING, LAMBDAS) and optimizer in GRADIENT_FREE:
        plain = [loss for loss in loss_names() if loss not in (*_REMEMBERING, LAMBDAS)]
        problem = "has no value" if name == LAMBDAS else "remembers earlier scores"
        raise InputError(
            f"{optimizer} cannot minimise a loss that {problem}",
            value=name,
            accepted=f"{', '.join(plain)}; {ACCEPTED_OF_LISTS}",
        )


def make_objective(name: str, options: Mapping[str, Any], data: RankingData, device: str) -> Objective:
    """Make a loss ready for training.

    Parameters
    ----------
    name : str
        One of `loss_names`, or a measure.
    options : mapping
        The loss's own keyword arguments.
    data : RankingData
        The training data, which remembering losses keep a number for each relevant row of.
    device : str
        Where their state lives.

    Raises
    ------
    InputError
        For an unknown loss, or an option that it does not have.
    """
    from lmtune.reranking.losses.table import LOSSES

    if name in LOSSES:
        _check(name, LOSSES[name], options)
        return _Plain(LOSSES[name], options, device)
    if name == LAMBDAS:
        return _Plain(loss_from_options(named_options(options)), {}, device)
    if name in _REMEMBERING:
        return _Remembering(_module(name, options, data).to(device))
    if is_measure(name):
        return _Measured(name, options)
    raise InputError("unknown loss", value=name, accepted=", ".join(loss_names()))


class _Plain:
    needs = ""

    def __init__(self, loss: Any, options: Mapping[str, Any], device: str) -> None:
        self.loss, self.options = loss, dict(options)
        names = inspect.signature(loss).parameters
        self.generator = torch.Generator(device) if "generator" in names else None

    def __call__(self, scores: Tensor, lists: Lists, before: Tensor | None) -> tuple[Tensor, Tensor]:
        del before
        drawn = {}
        if self.generator is not None:
            # Drawn from the step's own seed: there is no state to keep.
            drawn["generator"] = self.generator.manual_seed(lists.seed)
        value = self.loss(scores, lists.labels, mask=lists.mask, **drawn, **self.options)
        return value, value.detach()

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass


class _Measured:
    """A measure as a loss without a gradient: 1 minus its mean over a batch, or a cost's mean.

    Queries that no order could better do not count; a batch without any other has loss 0.
    """

    needs = ""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        for option in options:
            if option != "threshold":
                raise InputError(f"{name} has no such option", value=option, accepted="threshold")
        self.measure, self.options = parse_list_measure(name), dict(options)
        self._known: tuple[Lists, Measurer] | None = None

    def __call__(self, scores: Tensor, lists: Lists, before: Tensor | None) -> tuple[Tensor, Tensor]:
        del before
        mean = self._measurer(lists).mean(scores.detach()[lists.mask].double().cpu().numpy())
        cost = 1.0 - mean if self.measure.higher_is_better else mean
        if np.isnan(mean):
            cost = 0.0
        value = torch.tensor(cost, dtype=torch.float64, device=scores.device)
        return value, value

    def _measurer(self, lists: Lists) -> Measurer:
        # A step asks for the same lists several times.
        if self._known is None or self._known[0] is not lists:
            labels, mask = lists.labels.cpu().numpy(), lists.mask.cpu().numpy()
            lengths = mask.sum(axis=1)
            data = RankingData.from_lengths(np.empty((int(lengths.sum()), 0)), labels[mask], lengths)
            self._known = lists, Measurer(self.measure, data, **self.options)
        return self._known[1]

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass


class _Remembering:
    def __init__(self, module: nn.Module) -> None:
        from lmtune.reranking.song.estimators import ESTIMATORS

        self.module = module
        estimator = getattr(module, "estimator", None)
        self.needs = "" if estimator is None else ESTIMATORS[str(estimator)][1]

    def __call__(self, scores: Tensor, lists: Lists, before: Tensor | None) -> tuple[Tensor, Tensor]:
        more = {"previous": "previous_scores", "direction": "score_changes"}
        value = self.module(
            scores,
            lists.labels,
            mask=lists.mask,
            queries=lists.queries,
            items=lists.rows,
            **({more[self.needs]: before} if self.needs else {}),
        )
        objective = self.module.objective
        assert isinstance(objective, Tensor)
        return value, objective

    def state(self) -> dict[str, Tensor]:
        return dict(self.module.state_dict())

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.module.load_state_dict(dict(state))


def _module(name: str, options: Mapping[str, Any], data: RankingData) -> nn.Module:
    from lmtune.reranking import song

    pairs = song.RelevantPairs.from_lists(data.starts, np.asarray(data.labels))
    kinds: dict[str, type[nn.Module]] = {
        "song": song.Song,
        "k-song": song.KSong,
        "cross-entropy": song.ListwiseCrossEntropy,
    }
    kind = kinds[name]
    _check(name, kind, options)
    return kind(pairs, **options)


def _check(name: str, called: Any, options: Mapping[str, Any]) -> None:
    parameters = inspect.signature(called).parameters
    known = [
        own
        for own, parameter in parameters.items()
        if parameter.default is not inspect.Parameter.empty and own not in ("mask", "reduce", "generator")
    ]
    for option in options:
        if option not in known:
            raise InputError(f"{name} has no such option", value=option, accepted=", ".join(known) or "none")
