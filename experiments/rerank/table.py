"""Losses and learners with their defaults on test queries, beside plain PyTorch and LightGBM's own defaults.

python -m experiments.rerank.table --data LETOR_DIR,FEATURES.txt --output results/table
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Unpack

import lightgbm
import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from experiments.common import Results, each, main
from experiments.datasets import load_split
from experiments.paper_tables import differences
from lmtune.errors import name_of
from lmtune.measures.lists import Measurer
from lmtune.rerank import FeatureScorer, Learner, Outcome, RankingData, RankingSplit, Settings
from lmtune.rerank.comparison import compare, read_losses
from lmtune.rerank.letor_folder import read_letor_folder
from lmtune.rerank.rankers import Ranker
from lmtune.rerank.training.loop import TrainingOptions

QUICK = {"data": "artificial:20x20", "losses": ("listnet", "plain-listnet"), "trials": 2}

_FOLDS, _HELD_OUT = 5, 0.2


def experiment(
    *,
    data: str = "artificial:60",
    losses: tuple[str, ...] = (
        *("lambdarank", "ranknet", "listnet", "neuralndcg", "song", "k-song", "approxndcg"),
        *("adr-mse", "slatk", "lambdamart", "yetirank", "plain-ranknet", "plain-listnet", "lightgbm"),
    ),
    trials: int = 3,
    seed: int = 0,
) -> Results:
    """Train each loss or learner with its default settings, and test all pairs over the test queries.

    Parameters
    ----------
    data : str
        sets: folders of LETOR files, files of features (five folds), artificial:QUERIES[xDOCUMENTS]
    losses : tuple of str
        losses and learners; plain-ranknet, plain-listnet: plain PyTorch, lightgbm: LightGBM's own defaults
    trials : int
        seeds for each loss and set
    seed : int
        seed of the folds and of the first trial
    """
    sets = data.split(",")
    calls = [{"data": one, "method": loss, "trials": trials, "seed": seed} for one in sets for loss in losses]
    outcomes: list[Outcome] = each(measure, calls)
    rows, tests, values = [], [], []
    for start, name in zip(range(0, len(outcomes), len(losses)), sets, strict=True):
        of_set = outcomes[start : start + len(losses)]
        ndcg = Settings().validation_measure
        for outcome in of_set:
            of_seeds = outcome.by_trial("skip", ndcg)
            spread = float(of_seeds.std(ddof=1)) if trials > 1 else 0.0
            rows.append((name_of(name), outcome.label, float(of_seeds.mean()), spread))
            values += [(name_of(name), outcome.label, seed + n, value) for n, value in enumerate(of_seeds)]
        tested = differences(of_set)
        tests.append(tested[tested["measure"] == str(ndcg)].assign(set=name_of(name)))
    means = pd.DataFrame(rows, columns=["set", "method", "mean", "sd"])
    wide = means.pivot_table("mean", "method", "set", sort=False)
    by_seed = pd.DataFrame(values, columns=["set", "method", "seed", "ndcg10"])
    return {"ndcg10": means, "means": wide.reset_index(), "pairs": pd.concat(tests), "values": by_seed}


def measure(*, data: str, method: str, trials: int, seed: int) -> Outcome:
    """Evaluate one loss or learner on the test queries of a data set's folds."""
    torch.set_num_threads(1)
    custom = {"plain-ranknet": PlainRankNet, "plain-listnet": PlainListNet, "lightgbm": PlainTrees}
    settings = Settings(seed=seed)
    methods = [[Ranker.of(custom[method])]] if method in custom else read_losses(method, settings)
    [outcome] = compare(folds(data, seed), methods, settings, trials=trials)
    return replace(outcome, label=method, trials=())


def folds(data: str, seed: int) -> list[RankingSplit]:
    """Return a folder's splits, or five random folds of a file; 20% of the rest is for validation."""
    if data.startswith("artificial"):
        return [load_split(data, seed)]
    if Path(data).is_dir():
        return read_letor_folder(data)
    whole = RankingData.read(data, cache=False)
    useful = [q for q in range(len(whole.queries)) if whole.labels[whole.rows(q)].max(initial=0) > 0]
    parts = np.array_split(np.random.default_rng(seed).permutation(useful), _FOLDS)
    splits = []
    for number, test in enumerate(parts):
        rest = np.concatenate(parts[:number] + parts[number + 1 :])
        held_out, train = np.split(rest, [round(_HELD_OUT * rest.size)])
        chosen = (whole.take(np.sort(part)) for part in (train, held_out, test))
        splits.append(RankingSplit(f"fold {number + 1}", *chosen))
    return splits


@dataclass(frozen=True, eq=False)
class _Plain(FeatureScorer):
    """A scorer that is a function of features."""

    settings: Settings
    model: Any
    validation: float = 0.0
    kind: ClassVar = "plain"
    scales: ClassVar = True
    has_rate: ClassVar = False

    def score(self, data: RankingData, **_: Any) -> np.ndarray:
        """Score every row, shape (rows,)."""
        with torch.no_grad():
            return np.asarray(self.model(torch.from_numpy(data.features)).squeeze(-1))


class PlainRankNet(Learner):
    """A multilayer perceptron in plain PyTorch: 64 and 32 units, Adam, 16 lists a step, early stopping."""

    scorer: ClassVar[Any] = _Plain
    epochs, patience, rate = 100, 15, 1e-3

    @staticmethod
    def loss(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the mean over a batch's pairs."""
        better = (labels.unsqueeze(2) > labels.unsqueeze(1)) & mask.unsqueeze(2) & mask.unsqueeze(1)
        difference = scores.unsqueeze(2) - scores.unsqueeze(1)
        return nn.functional.softplus(-difference[better]).sum() / better.sum().clamp(min=1)

    def fit(self, train: RankingData, validation: RankingData, **_: Unpack[TrainingOptions]) -> Any:
        """Train, and stop after `patience` epochs without a better validation value."""
        torch.manual_seed(self.settings.seed)
        layers = (nn.Linear(train.features.shape[1], 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        network = nn.Sequential(*layers, nn.Linear(32, 1))
        optimizer = torch.optim.Adam(network.parameters(), lr=self.rate)
        features, labels = torch.from_numpy(train.features), torch.tensor(train.labels)
        rows = [train.rows(q) for q in range(len(train.queries))]
        measurer = Measurer("ndcg@10", validation)
        best, best_epoch, kept = -1.0, 0, {}
        for epoch in range(self.epochs):
            for numbers in torch.randperm(len(rows)).split(16):  # type: ignore[no-untyped-call]
                x = pad_sequence([features[rows[q]] for q in numbers], batch_first=True)
                y = pad_sequence([labels[rows[q]] for q in numbers], batch_first=True, padding_value=-1)
                loss = self.loss(network(x).squeeze(-1), y, y >= 0)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            value = measurer.mean(_Plain(self.settings, network).score(validation))
            if value > best:
                best, best_epoch = value, epoch
                kept = {name: tensor.clone() for name, tensor in network.state_dict().items()}
            elif epoch - best_epoch >= self.patience:
                break
        network.load_state_dict(kept)
        return _Plain(self.settings, network, best)


class PlainListNet(PlainRankNet):
    """The same with ListNet's cross-entropy."""

    @staticmethod
    def loss(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the mean over a batch's lists."""
        target = labels.masked_fill(~mask, -torch.inf).softmax(1)
        logs = scores.masked_fill(~mask, -torch.inf).log_softmax(1)
        return -(target * logs.masked_fill(~mask, 0.0)).sum(1).mean()


class _Trees(_Plain):
    scales: ClassVar = False

    def score(self, data: RankingData, **_: Any) -> np.ndarray:
        """Score every row, shape (rows,)."""
        return np.asarray(self.model.predict(data.features), np.float64)


class PlainTrees(Learner):
    """LightGBM's LambdaMART with all of its own defaults: 100 trees, no validation."""

    scorer: ClassVar[Any] = _Trees

    def fit(self, train: RankingData, validation: RankingData, **_: Unpack[TrainingOptions]) -> Any:
        """Train on the training queries only."""
        del validation
        data = lightgbm.Dataset(train.features, label=train.labels, group=train.lengths)
        seed = self.settings.seed
        parameters = {"objective": "lambdarank", "seed": seed, "num_threads": 1, "verbosity": -1}
        return _Trees(self.settings, lightgbm.train(parameters, data))


if __name__ == "__main__":
    main(__spec__)
