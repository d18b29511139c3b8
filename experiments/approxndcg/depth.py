"""ApproxNDCG with deeper and wider networks (Bruch et al. 2019, section 3.4, figure 3)."""

from __future__ import annotations

from itertools import pairwise

from experiments.common import Results, main
from experiments.sweep import loss_text, sweep

QUICK = {"data": "artificial:100", "networks": ("b64", "b256", "b512"), "trials": 3, "epochs": 8}


def experiment(
    *,
    data: str = "artificial:300",
    networks: tuple[str, ...] = ("b64", "b128", "b256", "b512", "b1024"),
    alpha: float = 10.0,
    learning_rate: float = 0.005,
    trials: int = 10,
    epochs: int = 20,
    batch_size: int = 32,
    seed: int = 0,
) -> Results:
    """Train several networks.

    Parameters
    ----------
    data : str
        artificial:QUERIES[xDOCUMENTS] or a folder of LETOR files
    networks : tuple of str
        scorers from the shallowest to the deepest
    alpha : float
        ApproxNDCG's steepness
        learning_rate : float
        Adam's rate
    trials : int
        trials for each network, with consecutive seeds
    epochs : int
        passes over the training queries
    batch_size : int
        queries in a step
    seed : int
        seed of artificial data and of the first trial
    """
    cases = {network.upper(): {"network": network} for network in networks}
    first, *rest = names = list(cases)
    # The first two are compared already.
    pairs = [(name, first) for name in rest] + [(later, before) for before, later in pairwise(names[1:])]
    settings = {"loss": loss_text("approxndcg", alpha=alpha), "learning_rate": learning_rate}
    settings |= {"epochs": epochs, "batch_size": batch_size, "measure": "ndcg@5"}
    return sweep(cases, [pairs], data=data, trials=trials, seed=seed, settings=settings, name="depth")


if __name__ == "__main__":
    main(__spec__)
