"""Write a custom learner, ridge regression on labels; save its model and compare it with a network."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lmtune import rerank
from lmtune.measures import Measurer, ndcg


@dataclass(frozen=True, eq=False)
class Ridge(rerank.FeatureScorer):
    """Scores documents by a weighted sum of their features."""

    settings: rerank.Settings
    weights: np.ndarray
    validation: float
    kind = label = summary = "ridge"
    scales = has_rate = False

    def score(self, data: rerank.RankingData, **_how: Any) -> np.ndarray:
        """Score every row, shape (rows,)."""
        return data.features @ self.weights

    def save(self, _folder: object) -> dict[str, Any]:
        """Return items for `load`, as JSON values; write large data to files scorer.* in the folder."""
        return {"settings": self.settings.as_record(), "weights": self.weights.tolist()}

    @classmethod
    def load(cls, _folder: object, _files: dict[str, bytes], model: dict[str, Any]) -> "Ridge":
        """Create the scorer from the items of `save`."""
        weights = np.array(model["weights"])
        return cls(rerank.Settings.from_record(model["settings"]), weights, model["validation"])


class RidgeRegression(rerank.Learner):
    """Fits the weights to the labels; the penalty is selected on the validation queries."""

    scorer = Ridge

    def fit(self, train: rerank.RankingData, validation: rerank.RankingData, **_how: Any) -> Ridge:
        """Minimise squared errors plus a penalty times the squared weights."""
        x, mean = train.features.astype(float), Measurer(self.settings.measure, validation).mean
        penalties = [strength * np.eye(x.shape[1]) for strength in (0.1, 1.0, 10.0, 100.0)]
        fits = [np.linalg.solve(x.T @ x + penalty, x.T @ train.labels) for penalty in penalties]
        value, best = max((mean(validation.features @ weights), n) for n, weights in enumerate(fits))
        return Ridge(self.settings, fits[best], value)


x = np.random.default_rng(0).normal(size=(2400, 6)).astype(np.float32)
made = rerank.RankingData.from_lengths(x, np.clip(x @ [2, 1, 1, 0, 0, -1], 2, 6).round() - 2, [20] * 120)
split = rerank.RankingSplit("made", *(made.take(range(*ends)) for ends in ((50,), (50, 70), (70, 120))))
methods = [rerank.Ranker.of(RidgeRegression), rerank.parse_loss("listnet")]
settings = rerank.Settings(ranker=methods[0], network="linear", epochs=20, learning_rate=0.1)
rerank.save_model("ridge", rerank.learn(split.train, split.validation, settings), record={})
kept = ndcg(rerank.load_model("ridge", Ridge).score(split.test), split.test, [10])
print(f"kept: nDCG@10 {np.nanmean(kept):.4f} on held-out lists")
for outcome in rerank.compare([split], methods, settings, trials=2):
    print(f"{outcome.label}: mean {np.nanmean(outcome.queries[..., -1]):.4f} over two trials")
