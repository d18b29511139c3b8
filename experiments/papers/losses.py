"""Tables that compare losses: a paper's protocol as data, its trainings, and its table."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from experiments.data import HELP, check_name, load_split, short_name
from experiments.experiment import Claim, Experiment, Run, Study, Tables, Unit, figures
from experiments.papers.table import better, differences, differing, paper_table, rows_of
from lmtune.errors import InputError
from lmtune.measures.lists import Empty
from lmtune.measures.measure import exponential_ndcg, parse_list_measure
from lmtune.options import option
from lmtune.reporting.table import Table
from lmtune.reranking.comparison import Outcome, read_losses
from lmtune.reranking.losses.names import Loss
from lmtune.reranking.normalisation import Normalisation
from lmtune.reranking.settings import Settings


@dataclass(frozen=True)
class PaperSet:
    """A set of data that a paper reports on.

    Attributes
    ----------
    name : str
        The paper's.
    pattern : str
        What the last two parts of its path look like, as it is distributed; a regular expression.
    printed : mapping of str to tuple of str
        The table's cells by method.
    settings : mapping
        Of `lmtune.reranking.settings.Settings`, those that the paper sets for these data alone.
    """

    name: str
    pattern: str
    printed: Mapping[str, tuple[str, ...]]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Protocol:
    """How a paper compares losses.

    Attributes
    ----------
    source : str
        The paper, and the number of its table.
    methods : mapping of str to str
        By the table's names, losses as `lmtune.reranking.losses.names.parse_losses` takes them; empty for
        what cannot be run here.
    cutoffs : tuple of int
        The columns, of nDCG.
    settings : mapping
        Of `lmtune.reranking.settings.Settings`, for all methods.
    falls : float or None
        The share of the epochs, warm-up aside, after which the rate falls to a tenth.
    normalisation : Normalisation
        Of a network's features.
    empty : {"skip", "zero", "one"}
        What test queries without a relevant document count.
    claims : tuple of (str, str)
        What the paper says is better than what.
    sets : tuple of PaperSet
        The data with their figures.
    differences : tuple of str
        What is done otherwise, or had to be assumed.
    """

    source: str
    methods: Mapping[str, str]
    cutoffs: tuple[int, ...]
    settings: Mapping[str, Any]
    falls: float | None
    normalisation: Normalisation
    empty: Empty
    claims: tuple[tuple[str, str], ...]
    sets: tuple[PaperSet, ...]
    differences: tuple[str, ...]

    def set_of(self, data: str) -> PaperSet | None:
        """Return the set whose files these are, by their path; None for another's."""
        path = "/".join(Path(data).absolute().parts[-2:])
        return next((each for each in self.sets if re.search(each.pattern, path, re.IGNORECASE)), None)


_RAW = Normalisation("none", log1p=False)


@dataclass(frozen=True)
class LossTable(Experiment):
    """Experiment: a paper's table of losses.

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

    def study(self) -> Study:
        """Return a training a method, point of its grid, and trial."""
        asked = self._asked()

        def unit(run: Run) -> Unit:
            settings = replace(list(asked.values())[run.case][run.option], seed=self.seed + run.trial)
            key = f"method{run.case + 1}-options{run.option + 1}-trial{run.trial + 1}"
            return Unit(key, self.train, {"settings": settings.as_record()})

        return Study(asked, self.trials, unit)

    def units(self) -> list[Unit]:
        """Return the study's units."""
        check_name(self.data)
        return self.study().units()

    def train(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Train one scorer and measure it.

        Parameters
        ----------
        settings : mapping
            A record of `lmtune.reranking.settings.Settings`.

        Returns
        -------
        dict
            ``validation``, the best epoch's value; ``test``, each query's nDCG at each cutoff, NaN without a
            relevant document. ``failed``, instead, where the data are too few for a paper's trees.
        """
        from lmtune.reranking.reranker import learner_of, measured

        learner = learner_of(Settings.from_record(settings))
        normalisation = self.protocol.normalisation if learner.scorer.scales else _RAW
        split = load_split(self.data, self.seed, normalisation, self.validation)
        try:
            scorer = learner.fit(split.train, split.validation, device=self.device)
        except InputError as error:
            if learner.scorer.has_rate:
                raise
            return {"failed": str(error)}
        scores = scorer.score(split.test, device=self.device)
        values = measured([(split.test, scores)], list(map(exponential_ndcg, self.protocol.cutoffs)))
        return {"validation": scorer.validation, "test": values.tolist()}

    def _asked(self) -> dict[str, list[Settings]]:
        """Return, by method, the settings that validation chooses from."""
        texts = {method: text for method, text in self.protocol.methods.items() if text}
        known = self.protocol.set_of(self.data)
        fixed = {**self.protocol.settings, **(known.settings if known else {})}
        falls, epochs = self.protocol.falls, self.warm_up + self.epochs
        schedule = "constant" if falls is None else f"step:{self.warm_up + math.ceil(falls * self.epochs)}"
        chosen = {"network": self.network, "epochs": epochs, "warm_up": self.warm_up, "schedule": schedule}
        common = Settings.from_record({**fixed, **chosen})
        losses: list[list[Loss]] = read_losses(",".join(texts.values()), common)
        return {
            method: [replace(common, loss=loss) for loss in (some if self.grids else some[:1])]
            for method, some in zip(texts, losses, strict=True)
        }

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Choose each method's options by validation, and compare the methods."""
        measures = tuple(map(exponential_ndcg, self.protocol.cutoffs))
        fill = {"skip": math.nan, "zero": 0.0, "one": 1.0}[self.protocol.empty]
        study = self.study()
        runs = study.table(results)
        outcomes, tried, notes = [], [], list[str]()
        for method, trials in runs.groupby("case", sort=False):
            if "failed" in trials and len(failed := trials["failed"].dropna()):
                notes.append(f"{method} is not there: {failed.iloc[0]}")
                continue
            values = np.array(trials.loc[trials["chosen"], "test"].tolist())
            values[np.isnan(values)] = fill
            outcomes.append(Outcome(str(method), math.nan, measures, values))
            options = zip(study.cases[str(method)], trials.groupby("option"), strict=True)
            tried += [
                {"method": method, "options": str(settings.loss)}
                | {"validation": float(np.mean(mine["validation"].tolist())), "chosen": mine["chosen"].all()}
                for settings, (_, mine) in options
            ]
        known = self.protocol.set_of(self.data)
        labels = self.protocol.methods if known else [outcome.label for outcome in outcomes]
        rows = []
        for column, (cutoff, measure) in enumerate(zip(self.protocol.cutoffs, measures, strict=True)):
            cells = {method: texts[column] for method, texts in known.printed.items()} if known else {}
            printed = dict.fromkeys(labels, "") | cells
            rows += rows_of(outcomes, measure, over="trials", printed=printed, column=f"NDCG@{cutoff}")
        by_trial = [
            (outcome.label, trial, str(measure), value)
            for outcome in outcomes
            for measure in measures
            for trial, value in enumerate(outcome.by_trial("skip", measure).tolist(), 1)
        ]
        return {
            "table": pd.DataFrame(rows),
            "differences": differences(outcomes),
            "tried": pd.DataFrame(tried),
            "notes": pd.DataFrame({"note": notes}),
            "trials": pd.DataFrame(by_trial, columns=["method", "trial", "measure", "value"]),
        }

    def table(self, tables: Tables) -> Table:
        """Lay it out as the paper does."""
        known = self.protocol.set_of(self.data)
        caption = f"{self.protocol.source}, on {known.name if known else short_name(self.data)}: test queries"
        return paper_table(tables["table"], caption=caption, over=f"{self.trials} trials")

    def claims(self) -> Sequence[Claim]:
        """Return whether the paper's order holds, and what differs from its protocol."""
        names = " and ".join(each.name for each in self.protocol.sets)
        other = f"its data are {names}, so that none of its figures stand beside ours"
        known = self.protocol.set_of(self.data) is not None
        return (
            better(self.protocol.claims, parse_list_measure(str(self.protocol.settings["measure"]))),
            Claim("Notes", figures("notes", "note")),
            *differing(self, [*([] if known else [other]), *self.protocol.differences]),
        )


# Trials have processes of their own: one thread each.
_TREES = "lambdamart:leaves=200:learning_rate=0.1:min_rows=50:min_hessian=100:threads=1"

BRUCH = Protocol(
    source="Bruch et al. (2019), table 1",
    methods={
        "ListMLE": "listmle",
        "RankNet": "ranknet",
        "LambdaMART (RankLib)": "",
        "LambdaMART (LightGBM)": _TREES,
        "ApproxNDCG": "approxndcg:alpha=10",
    },
    cutoffs=(1, 5, 10),
    settings={"batch_size": 128, "learning_rate": 0.005, "measure": "ndcg@5"},
    falls=None,
    normalisation=Normalisation("none", log1p=False),
    empty="skip",
    claims=(("ApproxNDCG", "ListMLE"), ("ApproxNDCG", "RankNet"), ("LambdaMART (LightGBM)", "ApproxNDCG")),
    sets=(
        PaperSet(
            "MSLR-WEB30K",
            "web-?30k",
            {
                "ListMLE": (".4190 ± .0034", ".4256 ± .0020", ".4491 ± .0017"),
                "RankNet": (".4218 ± .0035", ".4323 ± .0014", ".4570 ± .0010"),
                "LambdaMART (RankLib)": (".4535 ± .0006", ".4459 ± .0004", ".4646 ± .0003"),
                "LambdaMART (LightGBM)": (".5033 ± .0022", ".4920 ± .0007", ".5105 ± .0002"),
                "ApproxNDCG": (".4664 ± .0022", ".4538 ± .0011", ".4731 ± .0010"),
            },
            {"norm_momentum": 0.8},
        ),
        PaperSet(
            "Yahoo! set 1",
            "set1$|yahoo",
            {
                "LambdaMART (RankLib)": (".6852 ± .0009", ".7027 ± .0005", ".7458 ± .0005"),
                "LambdaMART (LightGBM)": (".7207 ± .0022", ".7416 ± .0014", ".7840 ± .0010"),
                "ApproxNDCG": (".6963 ± .0017", ".7232 ± .0010", ".7677 ± .0006"),
            },
            {"norm_momentum": 0.99},
        ),
    ),
    differences=(
        "RankLib's trees are not grown: the paper's figures stand alone",
        "the optimizer, which the paper does not name, is Adam; it does not say how many epochs either: 100, "
        "of which validation nDCG@5 chooses one",
        "LightGBM grows up to 1,000 trees, each on nine tenths of the rows drawn by the trial's seed; "
        "training ends after 50 without a better validation value",
    ),
)


@dataclass(frozen=True)
class Bruch(LossTable):
    """Experiment.

    Bruch et al. 2019, table 1: ApproxNDCG against other losses and LambdaMART.
    """

    name: ClassVar[str] = "bruch"
    protocol: ClassVar[Protocol] = BRUCH
    quick: ClassVar[Mapping[str, Any]] = {"trials": 3, "epochs": 15, "network": "b64"}

    network: str = option("b1024", "The scorer of all but the trees.")


_GAMMAS = "gamma=0.1|0.2|0.3|0.4|0.5"
_OTHERS = ("RankNet", "ListNet", "ListMLE", "LambdaRank", "ApproxNDCG", "NeuralNDCG")

QIU = Protocol(
    source="Qiu et al. (2022), table 5",
    methods={
        **{name: name.lower() for name in _OTHERS},
        "SONG": f"song:{_GAMMAS}",
        "K-SONG": f"k-song:theoretical=true:{_GAMMAS}:cutoff=10|20|50",
    },
    cutoffs=(1, 3, 5),
    settings={
        "batch_size": 64,
        "learning_rate": 0.001,
        "measure": "ndcg@5",
        "warm_up_loss": "cross-entropy",
        "list_size": 100,
        "list_relevant": 10,
    },
    falls=0.5,
    normalisation=Normalisation(),
    empty="one",
    claims=tuple((song, other) for song in ("SONG", "K-SONG") for other in _OTHERS),
    sets=(
        PaperSet(
            "MSLR-WEB30K",
            "web-?30k",
            {
                "RankNet": (".5138 ± .0008", ".5105 ± .0004", ".5159 ± .0003"),
                "ListNet": (".5105 ± .0001", ".5058 ± .0001", ".5146 ± .0002"),
                "ListMLE": (".5153 ± .0012", ".5074 ± .0002", ".5136 ± .0005"),
                "LambdaRank": (".5173 ± .0014", ".5118 ± .0003", ".5187 ± .0003"),
                "ApproxNDCG": (".5204 ± .0007", ".5114 ± .0005", ".5179 ± .0006"),
                "NeuralNDCG": (".5160 ± .0006", ".5101 ± .0005", ".5155 ± .0002"),
                "SONG": (".5265 ± .0005", ".5136 ± .0006", ".5206 ± .0003"),
                "K-SONG": (".5271 ± .0006", ".5147 ± .0006", ".5204 ± .0003"),
            },
        ),
        PaperSet(
            "Yahoo!",
            "set1$|yahoo",
            {
                "RankNet": (".7066 ± .0006", ".7150 ± .0004", ".7368 ± .0005"),
                "ListNet": (".7066 ± .0002", ".7151 ± .0004", ".7352 ± .0004"),
                "ListMLE": (".7067 ± .0008", ".7146 ± .0006", ".7353 ± .0007"),
                "LambdaRank": (".7084 ± .0003", ".7155 ± .0002", ".7352 ± .0004"),
                "ApproxNDCG": (".7085 ± .0009", ".7152 ± .0007", ".7350 ± .0006"),
                "NeuralNDCG": (".7076 ± .0003", ".7139 ± .0001", ".7349 ± .0003"),
                "SONG": (".7131 ± .0002", ".7187 ± .0004", ".7390 ± .0002"),
                "K-SONG": (".7128 ± .0004", ".7191 ± .0004", ".7394 ± .0008"),
            },
            {"list_size": 40},
        ),
    ),
    differences=(
        "the paper does not say how many trials it means, what its ± are, what validation chooses by, nor "
        "the size of its self-attention: ours are 10 trials, 95% intervals, nDCG@5, and width 128, "
        "2 blocks, 2 heads",
        "it does not say how long its warm-up is on these data: 20 epochs, as on its ratings, then 100",
        "test queries without a relevant document count 1, as in allRank, which the paper uses",
        "100 documents of a query are drawn anew each epoch (Yahoo: 40), up to 10 of them relevant, for all "
        "losses; the paper truncates lists to so many, and samples",
        "log(1 + |x|) is taken of all features before they are standardised, not of selected ones",
    ),
)


@dataclass(frozen=True)
class Qiu(LossTable):
    """Experiment.

    Qiu et al. 2022, table 5: SONG and K-SONG against other losses on learning to rank.
    """

    name: ClassVar[str] = "qiu"
    protocol: ClassVar[Protocol] = QIU
    quick: ClassVar[Mapping[str, Any]] = {
        "trials": 2,
        "epochs": 10,
        "warm_up": 3,
        "network": "attention:32-1-1",
        "grids": False,
    }

    network: str = option("attention", "The scorer.")
    warm_up: int = option(20, "Epochs of cross-entropy before, whatever the loss.", low=0)
