"""ApproxNDCG by alpha, the steepness of its sigmoids (Bruch et al. 2019, section 3.3, figure 2)."""

from __future__ import annotations

from itertools import combinations

from experiments.common import Results, main
from experiments.sweep import loss_text, sweep

QUICK = {
    "data": "artificial:200",
    "alphas": (0.1, 1.0, 10.0, 100.0),
    "alike": (10.0,),
    "trials": 3,
    "epochs": 15,
}


def experiment(
    *,
    data: str = "artificial:300",
    alphas: tuple[float, ...] = (0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 40.0, 100.0),
    alike: tuple[float, ...] = (5.0, 10.0, 20.0, 40.0),
    reference: float = 10.0,
    network: str = "b:64",
    learning_rate: float = 0.005,
    trials: int = 10,
    epochs: int = 20,
    batch_size: int = 32,
    seed: int = 0,
) -> Results:
    """Train at several alphas.

    Parameters
    ----------
    data : str
        artificial:QUERIES[xDOCUMENTS] or a folder of LETOR files
    alphas : tuple of float
        the values to train at
    alike : tuple of float
        values that do not differ in the paper; they are compared with each other
    reference : float
        the value that the others are compared with
    network : str
        the scorer: one hidden layer, batch norm before and after
    learning_rate : float
        Adam's rate
    trials : int
        trials for each value, with consecutive seeds
    epochs : int
        passes over the training queries
    batch_size : int
        queries in a step
    seed : int
        seed of artificial data and of the first trial
    """
    cases = {f"{alpha:g}": {"loss": loss_text("approxndcg", alpha=alpha)} for alpha in alphas}
    rest = [alpha for alpha in alphas if alpha not in (*alike, reference)]
    pairs = [*combinations([f"{alpha:g}" for alpha in alike], 2)]
    pairs += [(f"{alpha:g}", f"{reference:g}") for alpha in rest]
    settings = {"network": network, "learning_rate": learning_rate, "measure": "ndcg@5"}
    settings |= {"epochs": epochs, "batch_size": batch_size}
    return sweep(cases, [pairs], data=data, trials=trials, seed=seed, settings=settings, name="alpha")


if __name__ == "__main__":
    main(__spec__)
