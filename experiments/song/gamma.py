"""Gamma of SONG's running estimates (Qiu et al. 2022, D.3, figure 11)."""

from __future__ import annotations

from experiments.common import Results, main
from experiments.song.long_lists import QUICK as SMALL
from experiments.song.long_lists import LongLists

SIZE = LongLists()
QUICK = {**SMALL, "gammas": (0.3, 1.0)}


def experiment(
    lists: LongLists = SIZE, *, gammas: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0), loss: str = "song"
) -> Results:
    """Train at several gammas; compare each with the largest.

    Parameters
    ----------
    lists : LongLists
        shared options of the sweeps over long lists
    gammas : tuple of float
        values of gamma, in (0, 1]
    loss : str
        song, k-song, or cross-entropy (the warm-up)
    """
    cases = {f"{gamma:g}": lists.case(loss, {"gamma": gamma}) for gamma in gammas}
    last = max(gammas)
    by_gamma = [(f"{gamma:g}", f"{last:g}") for gamma in gammas if gamma != last]
    return lists.run("gamma", cases, [by_gamma], watched=True)


if __name__ == "__main__":
    main(__spec__)
