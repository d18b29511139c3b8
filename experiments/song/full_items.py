"""SONG or its warm-up on samples, by gamma, and on all items (Qiu et al. 2022, figures 3, 11, 12)."""

from __future__ import annotations

from experiments.common import Results, main
from experiments.song.long_lists import FULL, LongLists
from experiments.song.long_lists import QUICK as SMALL

SIZE = LongLists()
QUICK = {**SMALL, "gammas": (0.3,), "epochs": 20}
ALL, BIASED = "all items", "biased mini-batch"


def experiment(
    lists: LongLists = SIZE,
    *,
    gammas: tuple[float, ...] = (0.1, 0.3),
    loss: str = "song",
    all_items: bool = True,
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
    all_items : bool
        train on all items, too
    """
    ours = {f"samples, gamma {gamma:g}": lists.case(loss, {"gamma": gamma}) for gamma in gammas}
    cases = {BIASED: lists.case(loss, {"gamma": 1.0}), **ours}
    pairs = [(label, BIASED) for label in ours]
    if all_items:
        cases = {ALL: lists.case(loss, {"gamma": 1.0}, **FULL), **cases}
        pairs += [(label, ALL) for label in (*ours, BIASED)]
    results = lists.run("full-items", cases, [pairs], watched=True)
    if not all_items:
        return results
    ends = results["ends"].set_index("value")["objective"]
    closed = (ends[BIASED] - ends[list(ours)]) / (ends[BIASED] - ends[ALL])
    # share of the gap between the objectives of biased mini-batches and of all items
    results["closed"] = closed.rename("share").reset_index()
    return results


if __name__ == "__main__":
    main(__spec__)
