"""Training a network by the loss's values alone: SPSA and FDSA over its weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils import parameters_to_vector

from lmtune.gradient_free import Gains, fdsa_gradient, random_signs, spsa_gradient
from lmtune.reranking.settings import Settings

# Of all steps: over so many the rate hardly falls.
_STABILITY = 0.1


class Perturbing(torch.optim.Optimizer):
    """Spall's descent over a network's weights, without a gradient (see `lmtune.gradient_free`).

    The weights move by the rate times the estimated gradient. The rate is the schedule's, times
    Spall's decay, which is 1 at the first step; A is a tenth of all steps. There is no state but
    the weights: a step's number and seed determine it.

    Parameters
    ----------
    network : torch.nn.Module
        Its parameters are moved. Buffers, such as a batch norm's running statistics, are after a
        step what its first evaluation made of them.
    settings : Settings
        With ``"spsa"`` or ``"fdsa"`` for an optimizer.
    steps : int
        How many there will be in all.
    """

    def __init__(self, network: nn.Module, settings: Settings, steps: int) -> None:
        super().__init__(network.parameters(), {"lr": settings.learning_rate})
        self.network, self.settings = network, settings
        stability = _STABILITY * steps
        one = Gains(1.0, settings.perturbation, stability)
        self.gains = Gains((stability + 1.0) ** one.alpha, settings.perturbation, stability)

    @torch.no_grad()
    def descend(self, loss: Callable[[], float], rate: float, k: int, seed: int) -> float:
        """Make a step.

        Parameters
        ----------
        loss : callable
            The loss at the network's present weights; finite. Called `evaluations_per_step` times,
            with FDSA two times for each weight.
        rate : float
            The schedule's.
        k : int
            The step's number, from 0.
        seed : int
            Of its perturbations.

        Returns
        -------
        float
            The mean of the losses, at weights around those before the step.
        """
        settings, losses = self.settings, list[float]()
        weights = list(self.network.parameters())
        buffers: list[torch.Tensor] = []

        def objective(point: NDArray[np.float64]) -> float:
            _put(weights, point)
            losses.append(loss())
            if len(losses) == 1:
                buffers.extend(buffer.clone() for buffer in self.network.buffers())
            return losses[-1]

        here = parameters_to_vector(weights).double().cpu().numpy()
        width = self.gains.width(k)
        if settings.optimizer == "fdsa":
            slope = fdsa_gradient(objective, here, width)
        else:
            rng = np.random.default_rng(seed)
            signs = random_signs(rng, settings.evaluations_per_step // 2, here.size)
            slope = spsa_gradient(objective, here, width, signs)
        for buffer, kept in zip(self.network.buffers(), buffers, strict=True):
            buffer.copy_(kept)
        slope += settings.weight_decay * here
        if settings.clip is not None:
            slope *= min(1.0, settings.clip / (float(np.linalg.norm(slope)) or 1.0))
        step = rate * self.gains.rate(k)
        for group in self.param_groups:
            group["lr"] = step
        _put(weights, here - step * slope)
        return float(np.mean(losses))


def _put(weights: list[nn.Parameter], point: NDArray[np.float64]) -> None:
    flat, first = torch.from_numpy(point), 0
    for weight in weights:
        last = first + weight.numel()
        weight.copy_(flat[first:last].view_as(weight))
        first = last
