"""Losses of learning to rank, as functions of scores and labels.

Each is called ``loss(scores, labels, *, mask=None, reduce="mean", ...)`` with tensors of shape
(queries, items). None depends on the order of the items or on padding; padding gets gradient 0; a
query without a relevant item contributes 0 and is not counted in the mean.

They are imported when first used, for they need torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmtune.reranking.losses.approximate_ndcg import approx_ndcg
    from lmtune.reranking.losses.given_lambdas import lambda_loss
    from lmtune.reranking.losses.lambda_functions import load_function
    from lmtune.reranking.losses.lambda_rank import lambdarank, ndcg_loss2pp
    from lmtune.reranking.losses.list_mle import listmle
    from lmtune.reranking.losses.list_net import listnet
    from lmtune.reranking.losses.neural_sort import neural_ndcg
    from lmtune.reranking.losses.rank_net import ranknet
    from lmtune.reranking.losses.table import LOSSES

_HOMES = {
    "LOSSES": "table",
    "approx_ndcg": "approximate_ndcg",
    "lambda_loss": "given_lambdas",
    "lambdarank": "lambda_rank",
    "listmle": "list_mle",
    "listnet": "list_net",
    "load_function": "lambda_functions",
    "ndcg_loss2pp": "lambda_rank",
    "neural_ndcg": "neural_sort",
    "ranknet": "rank_net",
}

__all__ = [
    "LOSSES",
    "approx_ndcg",
    "lambda_loss",
    "lambdarank",
    "listmle",
    "listnet",
    "load_function",
    "ndcg_loss2pp",
    "neural_ndcg",
    "ranknet",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lmtune.reranking.losses' has no attribute {name!r}")
    return getattr(importlib.import_module(f"lmtune.reranking.losses.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
