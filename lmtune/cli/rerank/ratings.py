"""``lmtune rerank ratings``: losses compared on users' rankings of all items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from lmtune.cli.rerank import Checkpoints, Machine
from lmtune.cli.rerank.compare import LossesOutput, Trials, hold
from lmtune.formats.ratings import read_ratings
from lmtune.measures.lists import Empty
from lmtune.options import other_default
from lmtune.parallel import Workers
from lmtune.progress import note
from lmtune.reranking.long_lists.settings import LONG_LISTS, LongListSettings, RankingOptions

if TYPE_CHECKING:
    from lmtune.reranking.long_lists.ratings import RatingLists


@dataclass(frozen=True)
class RatingTrials(Trials):
    """Losses compared."""

    losses: str = other_default(
        Trials, "losses", "ranknet,listnet,listmle,lambdarank,approxndcg,neuralndcg,song,k-song"
    )
    trials: int = other_default(Trials, "trials", 3)
    rates: tuple[float, ...] = other_default(Trials, "rates", (LONG_LISTS.learning_rate,))


def ratings(
    file: Annotated[
        str,
        "Ratings of MovieLens or the Netflix Prize: u.data, ratings.dat, ratings.csv ...; or their folder.",
        "FILE",
    ],
    trials: Annotated[RatingTrials, "empty", "validation"],
    rankings: RankingOptions,
    settings: Annotated[LongListSettings, "loss", "network", "learning_rate"],
    checkpoints: Checkpoints,
    machine: Machine,
    workers: Workers,
    output: LossesOutput,
) -> None:
    """Train NeuMF by several losses; print nDCG of held-out items among all items, with 95% intervals."""

    def read() -> tuple[RatingLists, tuple[Empty, ...]]:
        from lmtune.reranking.long_lists.ratings import RatingLists

        lists = RatingLists(read_ratings(file), rankings)
        users, tested = len(lists.ratings.user_ids), len(lists.test.users)
        note(f"{len(lists.ratings.users):,} ratings of {lists.items:,} items by {users:,} users")
        if tested < users:
            note(f"{users - tested:,} users have too few ratings to hold any out: they are learnt from alone")
        if (chosen := len(lists.validation.users)) < tested:
            note(f"each epoch is measured on {chosen:,} of {tested:,} users (--validation-users)")
        return lists, ("skip",)

    hold(file, read, trials, settings, checkpoints, machine, workers, output)
