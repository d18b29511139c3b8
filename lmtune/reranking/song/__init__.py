"""SONG and K-SONG: NDCG surrogates by stochastic compositional optimisation, for any list."""

from __future__ import annotations

from lmtune.reranking.song.iterates import PreviousIterate
from lmtune.reranking.song.k_song import KSong
from lmtune.reranking.song.pairs import RelevantPairs
from lmtune.reranking.song.sampling import ItemSample, ListSampler, subsample
from lmtune.reranking.song.songs import Song
from lmtune.reranking.song.warmup import ListwiseCrossEntropy, reinitialise_last_layer

__all__ = [
    "ItemSample",
    "KSong",
    "ListSampler",
    "ListwiseCrossEntropy",
    "PreviousIterate",
    "RelevantPairs",
    "Song",
    "reinitialise_last_layer",
    "subsample",
]
