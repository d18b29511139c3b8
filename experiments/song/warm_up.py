"""SONG and K-SONG with and without a warm-up by cross-entropy (Qiu et al. 2022, section 6)."""

from __future__ import annotations

from experiments.common import Results, main
from experiments.song.long_lists import QUICK as SMALL
from experiments.song.long_lists import LongLists

SIZE = LongLists(trials=7, warm_up=20)
QUICK = {**SMALL, "epochs": 18, "warm_up": 6}


def experiment(lists: LongLists = SIZE, *, gamma: float = 0.3, cutoff: int = 50) -> Results:
    """Train both losses with and without warm-up.

    Parameters
    ----------
    lists : LongLists
        shared options of the sweeps over long lists
    gamma : float
        gamma of both losses
    cutoff : int
        K-SONG's K
    """
    options = {"SONG": {"gamma": gamma}, "K-SONG": {"gamma": gamma, "cutoff": cutoff}}
    cases = {
        f"{name}, {form}": lists.case(name.lower(), own, warm_up=first)
        for name, own in options.items()
        for form, first in (("cold", 0), ("warm-up", lists.warm_up))
    }
    pairs = [(f"{name}, warm-up", f"{name}, cold") for name in options]
    return lists.run("warm-up", cases, [pairs], watched=True)


if __name__ == "__main__":
    main(__spec__)
