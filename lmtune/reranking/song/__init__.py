"""SONG and K-SONG: NDCG surrogates by stochastic compositional optimisation, for any list."""

from __future__ import annotations

from collections.abc import Callable

from lmtune.reranking.song.estimators import PreviousIterate
from lmtune.reranking.song.k_song import KSong
from lmtune.reranking.song.pairs import ItemSample, ListSampler, RelevantPairs
from lmtune.reranking.song.songs import Song
from lmtune.reranking.song.warmup import ListwiseCrossEntropy, reinitialise_last_layer

SONGS: dict[str, Callable[..., Song | ListwiseCrossEntropy]] = {
    "song": Song,
    "k-song": KSong,
    "cross-entropy": ListwiseCrossEntropy,
}
"""By the names of the command line."""

__all__ = [
    "SONGS",
    "ItemSample",
    "KSong",
    "ListSampler",
    "ListwiseCrossEntropy",
    "PreviousIterate",
    "RelevantPairs",
    "Song",
    "reinitialise_last_layer",
]
