"""Smooth measures written out in mpmath, from the formulas of `approx_queries`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mpmath import mp, mpf

Numbers = Sequence[Any]


class Smooth(NamedTuple):
    """A smooth measure of one list: ``kind`` is DCG, AP, P, Bpref or RR, gains may be in any order."""

    kind: str
    gains: Sequence[float]
    nonrelevant: Sequence[bool]
    ideal: float
    k: int = 0
    alpha_k: float = 1.0
    hinge: bool = False
    bound: float = 1.0

    def __call__(self, s: Numbers, alpha: Any) -> Any:
        items = range(len(s))
        relevant = [i for i in items if self.gains[i] > 0]
        shares = [mp.exp(alpha * s[i]) for i in relevant]
        total = mpf(0)
        for i, share in zip(relevant, shares, strict=True):
            counts = [mpf(0) if j == i else self._above(alpha * (s[j] - s[i])) for j in items]
            rank = 1 + sum(counts)
            worth = self._worth(rank, counts, alpha)
            if self.k:
                worth *= sigmoid(self.alpha_k * (self.k + mpf(0.5) - rank))
            total += worth * (share / sum(shares) if self.kind == "RR" else mpf(self.gains[i]))
        return total / mpf(self.ideal)

    def _above(self, x: Any) -> Any:
        return max(mpf(0), 1 + x) ** 2 if self.hinge else sigmoid(x)

    def _worth(self, rank: Any, counts: Numbers, alpha: Any) -> Any:
        if self.kind == "DCG":
            return mp.log(2) / mp.log(1 + rank)
        if self.kind == "AP":
            return (1 + sum(n for n, gain in zip(counts, self.gains, strict=True) if gain > 0)) / rank
        if self.kind == "Bpref":
            before = sum(n for n, other in zip(counts, self.nonrelevant, strict=True) if other)
            return softplus(alpha * (1 - before / mpf(self.bound))) / alpha
        return 1 / rank if self.kind == "RR" else mpf(1)


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + e^-x)."""
    return 1 / (1 + mp.exp(-x))


def softplus(x: Any) -> Any:
    """Return log(1 + e^x)."""
    return mp.log1p(mp.exp(x))


def derivatives(function: Callable[[list[Any]], Any], x: Numbers) -> list[Any]:
    """Differentiate by central differences of 1e-13, in more digits than they lose."""
    with mp.workdps(45):
        h, found = mpf("1e-13"), []
        for i in range(len(x)):
            up, down = ([mpf(v) + way * h * (j == i) for j, v in enumerate(x)] for way in (1, -1))
            found.append((function(up) - function(down)) / (2 * h))
        return found
