"""How the running estimate u of an inner value g follows it from sample to sample.

All take u, g^ on this step's sample at the present weights, and the change of g^ on that same
sample since the previous weights; they give the next u. Sources: Qiu et al. 2022, section 4
(moving average) and appendix F (the others).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Estimator = Callable[[Tensor, Tensor, Tensor | None, Tensor, float], Tensor]


def moving_average(
    state: Tensor, current: Tensor, change: Tensor | None, gamma: Tensor, share: float
) -> Tensor:
    """Give (1 - gamma) u + gamma g^."""
    del change, share
    return state + gamma * (current - state)


def storm(state: Tensor, current: Tensor, change: Tensor | None, gamma: Tensor, share: float) -> Tensor:
    """Give (1 - gamma) u + g^(w_t) - (1 - gamma) g^(w_t-1)."""
    del share
    assert change is not None
    return (1.0 - gamma) * (state + change) + gamma * current


def msvr(state: Tensor, current: Tensor, change: Tensor | None, gamma: Tensor, share: float) -> Tensor:
    """Give (1 - gamma) u + gamma g^(w_t) + beta (g^(w_t) - g^(w_t-1)).

    beta = (1 - share) / (share (1 - gamma)) + 1 - gamma, where `share` of the blocks (queries) is
    sampled at a step: a block's estimate is 1 / share steps old, so one step's change is taken
    that many times. With share = 1 it is STORM. With gamma = 1 nothing is kept, nor corrected.
    """
    assert change is not None
    kept = 1.0 - gamma
    beta = torch.where(kept > 0, (1.0 - share) / (share * kept) + kept, 0.0)
    return (1.0 - gamma) * state + gamma * current + beta * change


#: Name to (rule, what it needs besides g^: "", "previous" or "direction").
ESTIMATORS: dict[str, tuple[Estimator, str]] = {
    "moving-average": (moving_average, ""),
    "storm": (storm, "previous"),
    "msvr": (msvr, "previous"),
    "msvr-sp": (msvr, "direction"),
}
