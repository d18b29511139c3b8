"""Losses of learning to rank, as functions of scores and labels.

Each is called ``loss(scores, labels, *, mask=None, reduce="mean", ...)`` with tensors of shape
(queries, items). None hangs on the order of the items or on padding; padding gets gradient 0; a
query without a relevant item contributes 0 and is not counted in the mean.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from lmtune.reranking.losses.approx_ndcg import approx_ndcg
from lmtune.reranking.losses.lambdarank import lambdarank, ndcg_loss2pp
from lmtune.reranking.losses.listmle import listmle
from lmtune.reranking.losses.listnet import listnet
from lmtune.reranking.losses.lists import Backend, Gains, Reduce
from lmtune.reranking.losses.neural_ndcg import neural_ndcg
from lmtune.reranking.losses.ranknet import ranknet

# By the names of the command line, with the options that they have there.
LOSSES: dict[str, Callable[..., Tensor]] = {
    "ranknet": ranknet,
    "lambdarank": lambdarank,
    "ndcgloss2++": ndcg_loss2pp,
    "approxndcg": approx_ndcg,
    "neuralndcg": neural_ndcg,
    "listnet": listnet,
    "listmle": listmle,
}

__all__ = [
    "LOSSES",
    "Backend",
    "Gains",
    "Reduce",
    "approx_ndcg",
    "lambdarank",
    "listmle",
    "listnet",
    "ndcg_loss2pp",
    "neural_ndcg",
    "ranknet",
]
