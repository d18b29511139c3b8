"""A paper's comparison of losses: its protocol turned into trainings, and these into its table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lmtune.errors import InputError
from lmtune.laboratory.collections import short_name
from lmtune.laboratory.data import HELP, check_name, load
from lmtune.laboratory.experiment import Experiment, Tables, Unit
from lmtune.laboratory.papers.protocol import Protocol
from lmtune.laboratory.papers.table import changes, differences, differing, paper_table, rows_of, weighed
from lmtune.measures.measure import exponential_ndcg, parse_list_measure
from lmtune.options import option
from lmtune.reporting.table import Table
from lmtune.reranking.comparison import Outcome, read_losses
from lmtune.reranking.losses.names import Loss
from lmtune.reranking.normalisation import Normalisation
from lmtune.reranking.settings import Settings

_RAW = Normalisation("none", log1p=False)


@dataclass(frozen=True)
class LossTable(Experiment):
    """What to train on, and how.

    Attributes
    ----------
    protocol : Protocol
        The paper's.
    """

    protocol: ClassVar[Protocol]

    data: str = option("artificial:300", f"{HELP}; of folds the first.", metavar="DIR")
    validation: str | None = option(
        None, "A share such as 0.2 of the training queries, or a file of them, where no file has any."
    )
    trials: int = option(10, "Trials a method, with seeds that follow each other.", low=1)
    epochs: int = option(100, "Passes over the training queries, warm-up aside.", low=1)
    network: str = option("b1024", "The scorer of all but the trees.")
    warm_up: int = option(0, "Epochs of cross-entropy before, whatever the loss.", low=0, flag="")
    grids: bool = option(True, "Try the paper's grids of losses' options; else their first values.")
    device: str = option("cpu", "cpu or cuda.")
    seed: int = option(0, "The first trial's; draws artificial data.", low=0)

    def units(self) -> list[Unit]:
        """Return a training a method, point of its grid, and trial."""
        check_name(self.data)
        return [
            Unit(_key(place, number, trial), train, self._arguments(replace(own, seed=self.seed + trial)))
            for place, asked in enumerate(self._asked().values())
            for number, own in enumerate(asked)
            for trial in range(self.trials)
        ]

    def _arguments(self, settings: Settings) -> dict[str, Any]:
        from lmtune.reranking.reranker import learner_of

        scales = learner_of(settings).scorer.scales
        return {
            "data": self.data,
            "data_seed": self.seed,
            "validation": self.validation,
            "normalisation": asdict(self.protocol.normalisation if scales else _RAW),
            "settings": settings.as_record(),
            "cutoffs": list(self.protocol.cutoffs),
            "device": self.device,
        }

    def _asked(self) -> dict[str, list[Settings]]:
        """Return, by method, the settings that validation chooses from."""
        texts = {method: text for method, text in self.protocol.methods.items() if text}
        known = self.protocol.set_of(self.data)
        given = {**self.protocol.settings, **(known.settings if known else {})}
        common = Settings.from_record(
            {
                **given,
                "network": self.network,
                "epochs": self.warm_up + self.epochs,
                "warm_up": self.warm_up,
                "schedule": self._schedule(),
            }
        )
        losses: list[list[Loss]] = read_losses(",".join(texts.values()), common)
        return {
            method: [replace(common, loss=loss) for loss in (some if self.grids else some[:1])]
            for method, some in zip(texts, losses, strict=True)
        }

    def _schedule(self) -> str:
        falls = self.protocol.falls
        return "constant" if falls is None else f"step:{self.warm_up + math.ceil(falls * self.epochs)}"

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Choose each method's options by validation, and hold the methods against each other."""
        import pandas as pd

        measures = tuple(map(exponential_ndcg, self.protocol.cutoffs))
        fill = {"skip": math.nan, "zero": 0.0, "one": 1.0}[self.protocol.empty]
        outcomes, tried, notes = [], [], list[str]()
        for place, (method, asked) in enumerate(self._asked().items()):
            every = [
                [results[_key(place, number, trial)] for trial in range(self.trials)]
                for number in range(len(asked))
            ]
            if failed := [own["failed"] for some in every for own in some if "failed" in own]:
                notes.append(f"{method} is not there: {failed[0]}")
                continue
            means = [float(np.mean([own["validation"] for own in some])) for some in every]
            best = int(np.argmax(means))
            values = np.array([own["test"] for own in every[best]])
            values[np.isnan(values)] = fill
            outcomes.append(Outcome(method, math.nan, measures, values))
            tried += [
                {"method": method, "options": str(own.loss), "validation": mean, "chosen": number == best}
                for number, (own, mean) in enumerate(zip(asked, means, strict=True))
            ]
        known = self.protocol.set_of(self.data)
        rows = []
        for column, (cutoff, measure) in enumerate(zip(self.protocol.cutoffs, measures, strict=True)):
            printed = dict.fromkeys(self.protocol.methods if known else (own.label for own in outcomes), "")
            if known:
                printed |= {method: figures[column] for method, figures in known.printed.items()}
            rows += rows_of(outcomes, measure, over="trials", printed=printed, column=f"NDCG@{cutoff}")
        trials = [
            (own.label, trial, str(measure), value)
            for own in outcomes
            for measure in measures
            for trial, value in enumerate(own.by_trial("skip", measure).tolist(), 1)
        ]
        return {
            "table": pd.DataFrame(rows),
            "differences": differences(outcomes),
            "tried": pd.DataFrame(tried),
            "notes": pd.DataFrame({"note": notes}),
            "trials": pd.DataFrame(trials, columns=["method", "trial", "measure", "value"]),
        }

    def table(self, found: Tables) -> Table:
        """Lay it out as the paper does."""
        known = self.protocol.set_of(self.data)
        caption = f"{self.protocol.source}, on {known.name if known else short_name(self.data)}: test queries"
        return paper_table(found["table"], caption=caption, over=f"{self.trials} trials")

    def conclusions(self, found: Tables) -> list[str]:
        """Say whether the paper's order holds, and what differs from its protocol."""
        chosen = parse_list_measure(str(self.protocol.settings["measure"]))
        said = weighed(found["differences"], self.protocol.claims, chosen)
        said += [f"{note}." for note in found["notes"]["note"]]
        return [*said, *differing(self._otherwise())]

    def _otherwise(self) -> Iterator[str]:
        yield from changes(self)
        if self.protocol.set_of(self.data) is None:
            names = " and ".join(own.name for own in self.protocol.sets)
            yield f"its data are {names}, so that none of its figures stand beside ours"
        yield from self.protocol.differences


def train(
    data: str,
    data_seed: int,
    validation: str | None,
    normalisation: Mapping[str, Any],
    settings: Mapping[str, Any],
    cutoffs: list[int],
    device: str,
) -> dict[str, Any]:
    """Train one scorer and measure it.

    Parameters
    ----------
    data, data_seed, validation, normalisation
        As `lmtune.laboratory.data.load` takes them; of the last, the fields.
    settings : mapping
        A record of `lmtune.reranking.settings.Settings`.
    cutoffs : list of int
        Of the nDCG.
    device : str
        Where to train.

    Returns
    -------
    dict
        ``validation``, the best epoch's value; ``test``, each query's nDCG at each cutoff, NaN without a
        relevant document. ``failed``, instead, where the data are too few for a paper's trees.
    """
    from lmtune.reranking.reranker import learner_of, measured

    split = load(data, data_seed, Normalisation(**normalisation), validation)
    learner = learner_of(Settings.from_record(settings))
    try:
        scorer = learner.fit(split.train, split.validation, device=device)
    except InputError as error:
        if learner.scorer.has_rate:
            raise
        return {"failed": str(error)}
    scores = scorer.score(split.test, device=device)
    values = measured([(split.test, scores)], [exponential_ndcg(cutoff) for cutoff in cutoffs])
    return {"validation": scorer.validation, "test": values.tolist()}


def _key(place: int, number: int, trial: int) -> str:
    return f"method{place + 1}-options{number + 1}-trial{trial + 1}"
