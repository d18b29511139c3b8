"""SONG's memory: one number for each relevant pair, in buffers that checkpoints carry."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lmtune.errors import InputError
from lmtune.reranking.losses import padded_lists
from lmtune.reranking.song.pairs import RelevantPairs


class PairState(nn.Module):
    """An estimate for each relevant pair, and the sizes of the lists.

    `estimate` (P,) is in ``state_dict``, moves with ``.to()``, and holds NaN for pairs never
    visited. `fingerprint` goes along, so that a checkpoint of other data is refused. The rest is
    rebuilt from the pairs.

    No look-up waits for a device. What is wrong with a batch raises at once on the CPU; elsewhere it
    is kept in `fault`, turns the loss into NaN, and is raised by `check` and ``state_dict``.

    Parameters
    ----------
    pairs : RelevantPairs
        The training data's.
    """

    kept: Tensor
    fault: Tensor
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
        # The last key and number stand for no pair: all that are none are sought and kept there.
        self.register_buffer("kept", torch.full((len(keys) + 1,), torch.nan))
        self.register_buffer("fingerprint", torch.tensor(pairs.fingerprint()))
        for name, values in {
            "query_ids": torch.from_numpy(pairs.queries),
            "keys": torch.cat([keys, torch.tensor([_NO_PAIR])]),
            "lengths": torch.from_numpy(pairs.lengths),
            "counts": torch.from_numpy(pairs.counts),
            "fault": torch.zeros(1, _FAULT, dtype=torch.int64),
        }.items():
            self.register_buffer(name, values, persistent=False)
        self.register_state_dict_pre_hook(_check)  # type: ignore[no-untyped-call]
        self.register_state_dict_post_hook(_as_estimate)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_from_estimate)  # type: ignore[no-untyped-call]

    @property
    def estimate(self) -> Tensor:
        """The pairs' numbers (P,), to be written to as well."""
        return self.kept[:-1]

    def positions(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Find the places of the query ids (B,) among the training data's; and tell which are unknown."""
        queries = queries.to(self.query_ids.device)
        found = torch.searchsorted(self.query_ids, queries).clamp(max=len(self.query_ids) - 1)
        return found, self.query_ids[found] != queries

    def slots(self, positions: Tensor, items: Tensor, relevant: Tensor) -> tuple[Tensor, Tensor]:
        """Find the slots (B, n) of the pairs of queries (B,) and items (B, n), P where there is none.

        Tells as well which relevant ones are unknown.
        """
        sought = relevant & (items >= 0) & (items < self.stride)
        key = torch.where(sought, positions.unsqueeze(1) * self.stride + items, _NO_PAIR)
        slot = torch.searchsorted(self.keys, key)
        known = sought & (self.keys[slot] == key)
        return torch.where(known, slot, len(self.keys) - 1), relevant & ~known

    def write(self, slots: Tensor, values: Tensor) -> None:
        """Set the estimates of `slots`."""
        self.kept[slots] = values.to(self.kept.dtype)
        self.kept[-1:].fill_(torch.nan)

    def notice(self, faults: Tensor) -> None:
        """Raise, or on other devices than the CPU keep, what is wrong with a batch's lists.

        Parameters
        ----------
        faults : int64 Tensor (B, 9)
            Whether the query is unknown, a pair is, the sample is too small; the query, the unknown
            pair's item; relevant items seen and in the list, others seen and in the list.
        """
        first = faults[:, :3].any(1).byte().argmax(0, keepdim=True)
        found = faults.index_select(0, first)
        self.fault.copy_(torch.where(self.fault[:, :3].any(), self.fault, found))
        if padded_lists.on_cpu(self.fault):
            self.check()

    def check(self) -> None:
        """Raise InputError for the first thing that was wrong, once. Waits for the device."""
        strange, unknown, few, query, item, *sizes = self.fault[0].tolist()
        self.fault.zero_()
        if strange:
            known = self.query_ids
            raise InputError(
                "a query that the training data lacks",
                value=query,
                accepted=f"the {len(known)} ids from {int(known[0])} to {int(known[-1])} that the pairs were"
                " made from",
            )
        if unknown:
            raise InputError(
                "a pair (query, item) labelled relevant that the training data lacks",
                value=(query, item),
                accepted="the pairs that the state was made from",
            )
        if few:
            seen, relevant, unseen, others = sizes
            raise InputError(
                "a sample too small for unbiased estimates",
                value=f"{seen} of a list's {relevant} relevant items, {unseen} of its {others} others",
                accepted="2 relevant items and 1 other, or all where there are fewer",
            )

    def sound(self, value: Tensor) -> Tensor:
        """Return a loss, as NaN if something was wrong."""
        if padded_lists.on_cpu(value):
            return value
        return torch.where(self.fault[:, :3].any(), torch.nan, value)


_NO_PAIR = 2**63 - 1
# Numbers that say what is wrong with a list: see `PairState.notice`.
_FAULT = 9


def _check(module: PairState, *_unused: object) -> None:
    module.check()


def _as_estimate(_module: nn.Module, state: dict[str, Any], prefix: str, _metadata: object) -> None:
    state[f"{prefix}estimate"] = state.pop(f"{prefix}kept")[:-1]


def _from_estimate(module: nn.Module, state: dict[str, Any], prefix: str, *unused: object) -> None:
    del unused
    given = state.get(f"{prefix}fingerprint")
    own = module.fingerprint
    if isinstance(given, Tensor) and isinstance(own, Tensor) and int(given) != int(own):
        raise InputError(
            "SONG's state was saved for other training data", accepted="a state of the same pairs"
        )
    if f"{prefix}estimate" in state:
        state[f"{prefix}kept"] = nn.functional.pad(state.pop(f"{prefix}estimate"), (0, 1), value=torch.nan)
