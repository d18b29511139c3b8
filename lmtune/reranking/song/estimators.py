"""How the running estimate u of an inner value g follows it from sample to sample.

All take u, g^ on this step's sample at the present weights, and the change of g^ on that same
sample since the previous weights; they give the next u. Sources: Qiu et al. 2022, section 4
(moving average) and appendix F (the others).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from lmtune.reranking.losses.evaluation import Bounds

Rule = Callable[[Tensor, Tensor, Tensor | None, Tensor, Tensor], Tensor]


def moving_average(
    state: Tensor, current: Tensor, change: Tensor | None, gamma: Tensor, share: Tensor
) -> Tensor:
    """Give (1 - gamma) u + gamma g^."""
    del change, share
    return state + gamma * (current - state)


def storm(state: Tensor, current: Tensor, change: Tensor | None, gamma: Tensor, share: Tensor) -> Tensor:
    """Give (1 - gamma) u + g^(w_t) - (1 - gamma) g^(w_t-1)."""
    del share
    assert change is not None
    return (1.0 - gamma) * (state + change) + gamma * current


def msvr(state: Tensor, current: Tensor, change: Tensor | None, gamma: Tensor, share: Tensor) -> Tensor:
    """Give (1 - gamma) u + gamma g^(w_t) + beta (g^(w_t) - g^(w_t-1)).

    beta = (1 - share) / (share (1 - gamma)) + 1 - gamma, where `share` (R,) of the steps sample a
    pair, the paper's block: its query, and it among the query's relevant items. An estimate is
    1 / share steps old on average, so one step's change is taken about that many times. With
    share = 1 it is STORM. With gamma = 1 nothing is kept, nor corrected.
    """
    assert change is not None
    kept = 1.0 - gamma
    beta = torch.where(kept > 0, (1.0 - share) / (share * kept) + kept, 0.0)
    return (1.0 - gamma) * state + gamma * current + beta * change


class Estimator(NamedTuple):
    """A rule, and the argument of `Song` from which it has the change of g^, if it takes one."""

    rule: Rule
    compares: Literal["", "previous_scores", "score_changes"] = ""


ESTIMATORS = {
    "moving-average": Estimator(moving_average),
    "storm": Estimator(storm, "previous_scores"),
    "msvr": Estimator(msvr, "previous_scores"),
    "msvr-sp": Estimator(msvr, "score_changes"),
}

EstimatorName = Annotated[str, Bounds(choices=tuple(ESTIMATORS))]


class PreviousIterate:
    """A network's weights before its last step, and what they make of a batch.

    In a training loop::

        previous = PreviousIterate(network)
        for features, mask, ... in batches:
            scores, before = previous.scores(features, mask)
            loss = song(scores, ..., previous_scores=before)
            loss.backward()
            previous.remember()      # after backward, before the step
            optimiser.step()

    For "msvr-sp" take ``previous.changes`` and ``score_changes``. Both evaluations draw the same
    dropout. Keep `state_dict` in checkpoints to resume exactly.

    Parameters
    ----------
    network : torch.nn.Module
        Its weights now are the first previous ones.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.weights: dict[str, Tensor] = {}
        self.remember()

    def remember(self) -> None:
        """Keep a copy of the weights as they are."""
        self.weights = {name: value.detach().clone() for name, value in self.network.named_parameters()}

    def scores(self, *inputs: Any) -> tuple[Tensor, Tensor]:
        """Return the scores at the present weights, with gradients, and at the previous ones."""
        return self._twice(inputs, self._previous_scores)

    def changes(self, *inputs: Any) -> tuple[Tensor, Tensor]:
        """Return the present scores, and their derivative along the last step of the weights."""
        return self._twice(inputs, self._score_changes)

    def compared(self, argument: str, *inputs: Any) -> tuple[Tensor, Tensor]:
        """Return the present scores, and what `Song` takes as the argument of that name."""
        return self.scores(*inputs) if argument == "previous_scores" else self.changes(*inputs)

    def _twice(self, inputs: Any, other: Callable[[Any, dict[str, Tensor]], Tensor]) -> tuple[Tensor, Tensor]:
        states = _random_states()
        present = self.network(*inputs)
        after = _random_states()
        _restore(states)
        buffers = {name: value.clone() for name, value in self.network.named_buffers()}
        with torch.no_grad():
            before = other(inputs, buffers)
        _restore(after)
        return present, before

    def _previous_scores(self, inputs: Any, buffers: dict[str, Tensor]) -> Tensor:
        before: Tensor = torch.func.functional_call(self.network, {**self.weights, **buffers}, inputs)
        return before

    def _score_changes(self, inputs: Any, buffers: dict[str, Tensor]) -> Tensor:
        dual: Any = forward_ad
        with dual.dual_level():
            weights = {
                name: dual.make_dual(value.detach(), value.detach() - self.weights[name])
                for name, value in self.network.named_parameters()
            }
            moved = torch.func.functional_call(self.network, {**weights, **buffers}, inputs)
            change: Tensor | None = dual.unpack_dual(moved).tangent
            return torch.zeros_like(moved) if change is None else change.detach()

    def state_dict(self) -> dict[str, Tensor]:
        """Return the previous weights by name."""
        return dict(self.weights)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take the previous weights from `state_dict`."""
        self.weights = {name: state[name].to(self.weights[name]) for name in self.weights}


def _random_states() -> list[Tensor]:
    states = [torch.get_rng_state()]
    if torch.cuda.is_available():
        states.append(torch.cuda.get_rng_state())
    return states


def _restore(states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state(states[1])
