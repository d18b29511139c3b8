"""``lmtune rerank ratings`` and ``labels``: losses compared on rankings of all items, or of all labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from lmtune.cli.rerank import Checkpoints, Machine
from lmtune.cli.rerank.compare import LossesOutput, Trials, compare_losses
from lmtune.formats.ratings import read_ratings
from lmtune.measures.lists import Empty
from lmtune.options import other_default
from lmtune.parallel import Workers
from lmtune.progress import note
from lmtune.reranking.long_lists.settings import (
    LONG_LISTS,
    LabelOptions,
    LabelSettings,
    LongListSettings,
    RankingOptions,
)

if TYPE_CHECKING:
    from lmtune.reranking.long_lists.labels import LabelLists
    from lmtune.reranking.long_lists.ratings import RatingLists


@dataclass(frozen=True)
class RatingTrials(Trials):
    """Losses and trials."""

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
    """Train NeuMF by several losses; print nDCG of held-out items among all items, with 95% intervals.

    Examples
    --------
    lmtune rerank ratings ml-100k/u.data --losses listnet,k-song --output results
    lmtune rerank ratings ml-100k/u.data --trials 1 --epochs 20
    """

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

    compare_losses(file, read, trials, settings, checkpoints, machine, workers, output)


@dataclass(frozen=True)
class LabelTrials(Trials):
    """Losses and trials."""

    losses: str = other_default(Trials, "losses", "binary-cross-entropy,cross-entropy,approxndcg,song,k-song")
    trials: int = other_default(Trials, "trials", 3)
    rates: tuple[float, ...] = other_default(Trials, "rates", (LabelSettings.learning_rate,))


def labels(
    data: Annotated[
        str,
        "A folder of the extreme-classification repository (X_train.txt and X_test.txt, trn_X_Xf.txt ...,"
        " X_data.txt and splits); or a file, of which a share is tested on.",
        "DATA",
    ],
    trials: Annotated[LabelTrials, "empty", "validation"],
    options: LabelOptions,
    settings: Annotated[LabelSettings, "loss", "learning_rate"],
    checkpoints: Checkpoints,
    machine: Machine,
    workers: Workers,
    output: LossesOutput,
) -> None:
    """Train networks that rank all labels by several losses; print P@k, nDCG@k and propensity-scored ones.

    Examples
    --------
    lmtune rerank labels eurlex --losses cross-entropy,k-song --output results
    lmtune rerank labels bibtex.txt --trials 1 --net mlp:512
    """

    def read() -> tuple[LabelLists, tuple[Empty, ...]]:
        from lmtune.reranking.long_lists.labels import LabelLists, read_label_folder

        lists = LabelLists(
            *read_label_folder(data, split=options.split, share=options.test_share, seed=settings.seed),
            options,
        )
        training, test = lists.given, lists.test
        labels_each = len(training.relevant.ids) / len(training)
        note(
            f"{len(training):,} examples to learn from, {len(test):,} to test on; {training.features:,}"
            f" features, {training.labels:,} labels, {labels_each:.2f} an example"
        )
        if without := int((test.relevant.starts[1:] == test.relevant.starts[:-1]).sum()):
            note(f"{without:,} test examples have no label, and do not count")
        lists.check(settings)
        return lists, ("skip",)

    compare_losses(data, read, trials, settings, checkpoints, machine, workers, output)
