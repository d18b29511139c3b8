"""Forms of K-SONG: theoretical, practical, by rank (Qiu et al. 2022, 6, 7.3, figures 4, 5)."""

from __future__ import annotations

from typing import Any

from experiments.common import Results, main
from experiments.song.long_lists import QUICK as SMALL
from experiments.song.long_lists import LongLists

SIZE = LongLists(trials=10, warm_up=20)
QUICK = {**SMALL, "warm_up": 10, "cutoffs": (50,)}
FORMS: dict[str, dict[str, Any]] = {
    "theoretical": {"theoretical": True},
    "practical": {"theoretical": False},
    "by rank": {"inside": "rank"},
}


def experiment(
    lists: LongLists = SIZE, *, gamma: float = 0.3, cutoffs: tuple[int, ...] = (10, 50)
) -> Results:
    """Train the forms of K-SONG, and compare the theoretical one with the others at each K.

    Parameters
    ----------
    lists : LongLists
        shared options of the sweeps over long lists
    gamma : float
        gamma of the running estimates
    cutoffs : tuple of int
        values of K, below the length of the lists
    """
    cases = {
        f"{form}, K = {cutoff}": lists.case("k-song", {"gamma": gamma, "cutoff": cutoff} | own)
        for cutoff in cutoffs
        for form, own in FORMS.items()
    }
    first, *others = FORMS
    pairs = [(f"{first}, K = {cutoff}", f"{form}, K = {cutoff}") for cutoff in cutoffs for form in others]
    return lists.run("k-song", cases, [pairs], watched=False)


if __name__ == "__main__":
    main(__spec__)
