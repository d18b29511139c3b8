"""The losses by the names that the command line has for them."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from lmtune.reranking.losses.approximate_ndcg import approx_ndcg
from lmtune.reranking.losses.lambda_rank import lambdarank, ndcg_loss2pp
from lmtune.reranking.losses.list_mle import listmle
from lmtune.reranking.losses.list_net import listnet
from lmtune.reranking.losses.neural_sort import neural_ndcg
from lmtune.reranking.losses.pointwise import binary_cross_entropy
from lmtune.reranking.losses.rank_net import ranknet

LOSSES: dict[str, Callable[..., Tensor]] = {
    "ranknet": ranknet,
    "lambdarank": lambdarank,
    "ndcgloss2++": ndcg_loss2pp,
    "approxndcg": approx_ndcg,
    "neuralndcg": neural_ndcg,
    "listnet": listnet,
    "listmle": listmle,
    "binary-cross-entropy": binary_cross_entropy,
}
