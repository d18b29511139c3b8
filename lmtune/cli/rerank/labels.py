"""``lmtune rerank labels``: losses compared on rankings of all labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from lmtune.cli.rerank import Checkpoints, Machine
from lmtune.cli.rerank.compare import LossesOutput, Trials, hold
from lmtune.measures.lists import Empty
from lmtune.options import other_default
from lmtune.parallel import Workers
from lmtune.progress import note
from lmtune.reranking.long_lists.settings import LabelOptions, LabelSettings

if TYPE_CHECKING:
    from lmtune.reranking.long_lists.labels import LabelLists


@dataclass(frozen=True)
class LabelTrials(Trials):
    """Losses compared."""

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
    """Train networks that rank all labels by several losses; print P@k, nDCG@k and propensity-scored ones."""

    def read() -> tuple[LabelLists, tuple[Empty, ...]]:
        from lmtune.reranking.long_lists.labels import LabelLists, read_label_folder

        lists = LabelLists(
            *read_label_folder(data, split=options.split, share=options.test_share, seed=settings.seed),
            options,
        )
        given, test = lists.given, lists.test
        note(
            f"{len(given):,} examples to learn from, {len(test):,} to test on; {given.features:,} features,"
            f" {given.labels:,} labels, {len(given.relevant.ids) / len(given):.2f} an example"
        )
        if without := int((test.relevant.starts[1:] == test.relevant.starts[:-1]).sum()):
            note(f"{without:,} test examples have no label, and do not count")
        lists.check(settings)
        return lists, ("skip",)

    hold(data, read, trials, settings, checkpoints, machine, workers, output)
