"""Running estimates in SONG: gamma (Qiu et al. 2022, D.3, figure 11), and how u follows g (appendix F)."""

from __future__ import annotations

from experiments.common import Results, main
from experiments.song.long_lists import QUICK as SMALL
from experiments.song.long_lists import LongLists

SIZE = LongLists()
QUICK = {**SMALL, "gammas": (0.3, 1.0)}


def experiment(
    lists: LongLists = SIZE,
    *,
    gammas: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0),
    estimators: tuple[str, ...] = ("moving-average",),
    loss: str = "song",
) -> Results:
    """Train at several gammas; compare each with the largest, and each estimator with the first.

    Parameters
    ----------
    lists : LongLists
        the options that the sweeps over long lists share
    gammas : tuple of float
        values to train at, in (0, 1]
    estimators : tuple of str
        moving-average, storm, msvr, msvr-sp: how estimates move
    loss : str
        song, k-song, or cross-entropy, the warm-up's
    """

    def label(estimator: str, gamma: float) -> str:
        return f"{gamma:g}" if len(estimators) == 1 else f"{gamma:g}, {estimator}"

    cases = {
        label(estimator, gamma): lists.case(loss, {"gamma": gamma} | how)
        for estimator in estimators
        for how in [{} if estimator == "moving-average" else {"estimator": estimator}]
        for gamma in gammas
    }
    last, first = max(gammas), estimators[0]
    by_gamma = [(label(e, gamma), label(e, last)) for e in estimators for gamma in gammas if gamma != last]
    by_estimator = [(label(e, gamma), label(first, gamma)) for e in estimators[1:] for gamma in gammas]
    return lists.run("gamma", cases, [by_gamma, by_estimator], watched=True)


if __name__ == "__main__":
    main(__spec__)
