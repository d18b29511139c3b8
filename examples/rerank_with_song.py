"""Learn to rank made lists with SONG, beside RankNet, on samples of 20 documents; judge on other lists."""

import numpy as np

from lmtune.measures import ndcg
from lmtune.rerank import RankingData, Settings, learn, parse_loss

random = np.random.default_rng(0)


def made(count: int) -> RankingData:
    """Make lists of 30 to 119 documents, relevant by the product of two features, and a third."""
    lengths = random.integers(30, 120, count)
    features = random.normal(size=(lengths.sum(), 10)).astype(np.float32)
    worth = features[:, 0] * features[:, 1] + features[:, 2] + random.normal(0, 0.3, len(features))
    return RankingData.from_lengths(features, np.clip(worth - 1, 0, 3).round(), lengths)


train, validation, test = made(96), made(32), made(64)
for loss in ("ranknet", "song"):
    settings = Settings(
        loss=parse_loss(loss),
        network="mlp:32-32",
        epochs=15,
        batch_size=16,
        learning_rate=0.01,
        list_size=20,
        list_relevant=5,
        warm_up=3 * (loss == "song"),
    )
    model = learn(train, validation, settings)
    print(f"{loss}: nDCG@10 {np.nanmean(ndcg(model.score(test), test, [10])):.4f} on held-out lists")
print(f"the third feature alone: {np.nanmean(ndcg(test.features[:, 2], test, [10])):.4f}")
