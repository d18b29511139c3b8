"""``lmtune rerank ratings``: losses held against each other on users' rankings of all items."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from lmtune.cli.rerank import Checkpoints, Machine
from lmtune.cli.rerank.compare import LossesOutput, Trials
from lmtune.cli.screen import stages, utf8_output
from lmtune.errors import name_of
from lmtune.formats.folders import check_directory
from lmtune.formats.ratings import read_ratings
from lmtune.options import other_default
from lmtune.progress import note, timed
from lmtune.reranking.long_list_settings import LONG_LISTS, LongListSettings, RankingOptions


@dataclass(frozen=True)
class RatingTrials(Trials):
    """What is compared."""

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
    output: LossesOutput,
) -> None:
    """Train NeuMF by several losses; print nDCG of held-out items among all items, with 95% intervals."""
    from lmtune.reporting.loss_folder import KIND, write_losses
    from lmtune.reporting.loss_tables import loss_table
    from lmtune.reranking import comparison
    from lmtune.reranking.long_lists import RatingLists
    from lmtune.reranking.training import check_device

    losses = comparison.read_losses(trials.losses, settings)
    check_device(machine.device)
    if output.output is not None:
        check_directory(output.output, KIND, reads=[Path(file), *checkpoints.folders()])
    with timed(f"{file}: read"):
        lists = RatingLists(read_ratings(file), rankings)
        users, tested = len(lists.ratings.user_ids), len(lists.test.users)
    note(f"{len(lists.ratings.users):,} ratings of {len(lists.ratings.item_ids):,} items by {users:,} users")
    if tested < users:
        note(f"{users - tested:,} users have too few ratings to hold any out: they are learnt from alone")
    if (chosen := len(lists.validation.users)) < tested:
        note(f"each epoch is measured on {chosen:,} of {tested:,} users (--validation-users)")
    with stages() as progress, timed(f"{len(losses)} losses, {trials.trials} trials each"):
        outcomes = comparison.compare_on(
            lists,
            losses,
            replace(settings, learning_rate=trials.rates[0]),
            rates=trials.rates,
            trials=trials.trials,
            report=progress,
            device=machine.device,
            **checkpoints.options(),
        )
    if output.output is not None:
        write_losses(output.output, outcomes, ("skip",), data=name_of(file))
    with utf8_output() as stream:
        stream.write(loss_table(outcomes, output.style, empty=("skip",)))
