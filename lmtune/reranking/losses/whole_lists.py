"""SONG and K-SONG of whole lists: a function of scores and labels, like the other losses.

Where every item of a list is in the batch, SONG's estimates are exact: it needs no memory of former
steps, and so neither ids nor the training data's pairs, as `lmtune.reranking.song.Song` does for
samples of long lists.
"""

from __future__ import annotations

from torch import Tensor

from lmtune.reranking.losses.declared import Positive, checked
from lmtune.reranking.losses.padded_lists import Labels, PaddedLists, Scores, as_padded
from lmtune.reranking.song.k_song import KSong
from lmtune.reranking.song.pairs import RankOrShare
from lmtune.reranking.song.songs import MARGIN, Song


@checked
def song(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    margin: Positive = MARGIN,
    cutoff: RankOrShare | None = None,
) -> Tensor:
    """Compute the bound of NDCG that SONG minimises, of whole lists.

    Parameters
    ----------
    scores, labels, mask
        As of `lmtune.reranking.losses.ranknet`.
    margin, cutoff
        As of `lmtune.reranking.song.Song`, where the formula is.

    Returns
    -------
    Tensor
        A scalar in [-1, 0], the mean over queries with a relevant item; 0 where there is none.

    Raises
    ------
    InputError
        If shapes, types or options do not fit.

    Examples
    --------
    With margin 1 and two equal scores g is 1, and the relevant item counts 1 / log2(2 g + 1):

    >>> import torch
    >>> round(float(song(torch.zeros(1, 2), torch.tensor([[1, 0]]), margin=1.0)), 6)
    -0.63093
    """
    return _of_whole(Song(None, margin=margin, cutoff=cutoff), scores, labels, mask)


@checked
def k_song(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    margin: Positive = MARGIN,
    cutoff: RankOrShare = 50,
    theoretical: bool = True,
) -> Tensor:
    """Compute K-SONG's objective, for NDCG at a cutoff, of whole lists.

    Parameters
    ----------
    scores, labels, mask
        As of `lmtune.reranking.losses.ranknet`.
    margin, cutoff, theoretical
        As of `lmtune.reranking.song.KSong`, where the formula is.

    Returns
    -------
    Tensor
        A scalar, the mean over queries with a relevant item; 0 where there is none.

    Raises
    ------
    InputError
        If shapes, types or options do not fit.

    Examples
    --------
    Lists no longer than the cutoff are weighted as `song` weighs them:

    >>> import torch
    >>> round(float(k_song(torch.zeros(1, 2), torch.tensor([[1, 0]]), margin=1.0, cutoff=2)), 6)
    -0.63093
    """
    module = KSong(None, margin=margin, cutoff=cutoff, theoretical=theoretical)
    return _of_whole(module, scores, labels, mask)


def _of_whole(module: Song, scores: Scores, labels: Labels, mask: Tensor | None) -> Tensor:
    score, label, real = as_padded(scores, labels, mask)
    lists = PaddedLists.of(score.double() if score.is_floating_point() else score, label, real)
    return module.of_lists(score, lists) if score.numel() else 0 * score.sum()
