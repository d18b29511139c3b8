"""Write a loss of one's own, the hinge of RankSVM's pairs; train by it, keep the model, compare losses."""

import numpy as np
import torch
from torch import Tensor

from lmtune import rerank
from lmtune.measures import ndcg


def hinge(scores: Tensor, labels: Tensor, *, mask: Tensor, margin: float = 1.0) -> Tensor:
    """Return the mean over pairs, then queries, of max(0, margin - s_i + s_j), y_i > y_j (Joachims 2002)."""
    pairs = (labels[:, :, None] > labels[:, None, :]) & mask[:, :, None] & mask[:, None, :]
    costs = torch.relu(margin - scores[:, :, None] + scores[:, None, :]) * pairs
    count = pairs.sum(dim=(1, 2))
    return (costs.sum(dim=(1, 2)) / count.clamp(min=1)).sum() / (count > 0).sum().clamp(min=1)


random = np.random.default_rng(0)


def made(count: int) -> rerank.RankingData:
    """Make lists of 10 to 39 documents, relevant by the product of two features, and a third."""
    lengths = random.integers(10, 40, count)
    features = random.normal(size=(lengths.sum(), 6)).astype(np.float32)
    worth = features[:, 0] * features[:, 1] + features[:, 2] + random.normal(0, 0.3, len(features))
    return rerank.RankingData.from_lengths(features, np.clip(worth - 1, 0, 3).round(), lengths)


split = rerank.RankingSplit("made", train=made(64), validation=made(32), test=made(64))
losses = [rerank.Loss.of(hinge, margin=0.5), rerank.parse_loss("ranknet")]
settings = rerank.Settings(loss=losses[0], network="mlp:32", epochs=10, learning_rate=0.01)
model = rerank.learn(split.train, split.validation, settings)
rerank.save_model("hinge", model, record={"by": "own_loss.py"})
scores = rerank.load_model("hinge").score(split.test)
print(f"kept: nDCG@10 {np.nanmean(ndcg(scores, split.test, [10])):.4f} on held-out lists")
for outcome in rerank.compare([split], losses, settings, trials=2):
    print(f"{outcome.label}: mean {np.nanmean(outcome.queries[..., -1]):.4f} over two trials")
