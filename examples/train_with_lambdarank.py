"""Train any PyTorch network with lmtune's LambdaRank: lists come as they are, of any lengths."""

import numpy as np
import torch

from lmtune.losses import lambdarank
from lmtune.measures import ndcg
from lmtune.rerank import RankingData

random = np.random.default_rng(0)
lists = [random.normal(size=(n, 8)).astype(np.float32) for n in random.integers(5, 40, 120)]
labels = [np.clip(x[:, 0] * x[:, 1] + x[:, 2], 0, 4).round() for x in lists]  # numpy, grades 0 to 4
held_out = RankingData.from_lengths(np.vstack(lists[80:]), np.hstack(labels[80:]), [*map(len, lists[80:])])

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for epoch in range(20):
    for first in range(0, 80, 16):
        batch = slice(first, first + 16)
        loss = lambdarank([network(torch.from_numpy(x)) for x in lists[batch]], labels[batch], k=10)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scores = network(torch.from_numpy(held_out.features)).detach()[:, 0]
    reached = np.nanmean(ndcg(scores, held_out, [10]))
    print(f"epoch {epoch + 1}: loss {loss.item():.4f}, nDCG@10 {reached:.4f}")
