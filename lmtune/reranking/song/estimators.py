"""How the running estimate u of an inner value g follows it from sample to sample.

All take u, g^ on this step's sample at the present weights, and the change of g^ on that same
sample since the previous weights; they give the next u. Sources: Qiu et al. 2022, section 4
(moving average) and appendix F (the others).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from lmtune.reranking.losses.declared import Bounds

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
