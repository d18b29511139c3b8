"""SONG's memory: one number for each relevant pair, in buffers that checkpoints carry."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lmtune.errors import InputError
from lmtune.reranking.song.pairs import RelevantPairs


class PairState(nn.Module):
    """An estimate for each relevant pair, and the sizes of the lists.

    `estimate` (P,) is in ``state_dict``, moves with ``.to()``, and holds NaN for pairs never
    visited. `fingerprint` goes along, so that a checkpoint of other data is refused. The rest is
    rebuilt from the pairs.

    Parameters
    ----------
    pairs : RelevantPairs
        The training data's.
    """

    estimate: Tensor
    fingerprint: Tensor
    query_ids: Tensor
    keys: Tensor
    lengths: Tensor
    counts: Tensor

    def __init__(self, pairs: RelevantPairs) -> None:
        super().__init__()
        self.stride = int(pairs.items.max(initial=0)) + 1
        if len(pairs.queries) * self.stride >= 2**62:
            raise InputError("item ids too large to number the pairs", value=self.stride - 1)
        position = torch.repeat_interleave(torch.arange(len(pairs.queries)), torch.from_numpy(pairs.counts))
        keys = position * self.stride + torch.from_numpy(pairs.items)
        self.register_buffer("estimate", torch.full((len(keys),), torch.nan))
        self.register_buffer("fingerprint", torch.tensor(pairs.fingerprint()))
        self.register_buffer("query_ids", torch.from_numpy(pairs.queries), persistent=False)
        self.register_buffer("keys", keys, persistent=False)
        self.register_buffer("lengths", torch.from_numpy(pairs.lengths), persistent=False)
        self.register_buffer("counts", torch.from_numpy(pairs.counts), persistent=False)
        self.register_load_state_dict_pre_hook(_refuse_other_data)  # type: ignore[no-untyped-call]

    def positions(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Find the places of the query ids (B,) among the training data's; and tell which are unknown."""
        queries = queries.to(self.query_ids.device)
        found = torch.searchsorted(self.query_ids, queries).clamp(max=len(self.query_ids) - 1)
        return found, self.query_ids[found] != queries

    def slots(self, positions: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """Find the slots (R,) of pairs (query positions (R,), item ids (R,)); and tell which are unknown."""
        key = positions * self.stride + items
        if not len(self.keys):
            return torch.zeros_like(key), torch.ones_like(key, dtype=torch.bool)
        slot = torch.searchsorted(self.keys, key).clamp(max=len(self.keys) - 1)
        return slot, (self.keys[slot] != key) | (items < 0) | (items >= self.stride)

    def write(self, slots: Tensor, values: Tensor) -> None:
        """Set the estimates of `slots`."""
        self.estimate[slots] = values.to(self.estimate.dtype)


def _refuse_other_data(module: nn.Module, state: dict[str, Any], prefix: str, *unused: object) -> None:
    del unused
    given = state.get(f"{prefix}fingerprint")
    own = module.fingerprint
    if isinstance(given, Tensor) and isinstance(own, Tensor) and int(given) != int(own):
        raise InputError(
            "SONG's state was saved for other training data", accepted="a state of the same pairs"
        )
