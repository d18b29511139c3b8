"""SONG or its warm-up on samples, compared with all items (Qiu et al. 2022, section 7.3, figures 3, 12)."""

from __future__ import annotations

from experiments.common import Results, main
from experiments.song.long_lists import FULL, LongLists
from experiments.song.long_lists import QUICK as SMALL

SIZE = LongLists()
QUICK = {**SMALL, "gammas": (0.3,), "epochs": 20}
ALL, BIASED = "all items", "biased mini-batch"


def experiment(
    lists: LongLists = SIZE, *, gammas: tuple[float, ...] = (0.1, 0.3), loss: str = "song"
) -> Results:
    """Train on all items, on samples with the biased gradient, and on samples with running estimates.

    Parameters
    ----------
    lists : LongLists
        shared options of the sweeps over long lists
    gammas : tuple of float
        gammas of the running estimates, below 1
    loss : str
        song, k-song, or cross-entropy (the warm-up)
    """
    ours = {f"samples, gamma {gamma:g}": lists.case(loss, {"gamma": gamma}) for gamma in gammas}
    whole = lists.case(loss, {"gamma": 1.0}, **FULL)
    cases = {ALL: whole, BIASED: lists.case(loss, {"gamma": 1.0}), **ours}
    pairs = [*((label, other) for label in ours for other in (BIASED, ALL)), (BIASED, ALL)]
    results = lists.run("full-items", cases, [pairs], watched=True)
    ends = results["ends"].set_index("value")["objective"]
    closed = (ends[BIASED] - ends[list(ours)]) / (ends[BIASED] - ends[ALL])
    # share of the gap between the objectives of biased mini-batches and of all items
    results["closed"] = closed.rename("share").reset_index()
    return results


if __name__ == "__main__":
    main(__spec__)
