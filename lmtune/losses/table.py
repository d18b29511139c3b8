"""Losses by their command-line names."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from lmtune.losses.listwise import adr_mse, approx_ndcg, listmle, listnet, neural_ndcg, pirank, sl_at_k
from lmtune.losses.pairwise import lambdarank, ndcg_loss2pp, ranknet
from lmtune.losses.pointwise import binary_cross_entropy, margin_mse
from lmtune.losses.songs.k_song import KSong
from lmtune.losses.songs.songs import ListwiseCrossEntropy, Song

LOSSES: dict[str, Callable[..., Tensor]] = {
    "ranknet": ranknet,
    "lambdarank": lambdarank,
    "ndcgloss2++": ndcg_loss2pp,
    "approxndcg": approx_ndcg,
    "neuralndcg": neural_ndcg,
    "pirank": pirank,
    "listnet": listnet,
    "listmle": listmle,
    "slatk": sl_at_k,
    "binary-cross-entropy": binary_cross_entropy,
    "margin-mse": margin_mse,
    "adr-mse": adr_mse,
}

SONGS: dict[str, Callable[..., Song | ListwiseCrossEntropy]] = {
    "song": Song,
    "k-song": KSong,
    "cross-entropy": ListwiseCrossEntropy,
}
"""Losses with state: each keeps running estimates from earlier scores."""
