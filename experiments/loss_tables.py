"""Tables that compare losses: a paper's protocol as data, its trainings, and its table."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.common import Results, each
from experiments.datasets import load_split
from experiments.paper_tables import differences, laid_out, rows_of
from lmtune import InputError
from lmtune.measures.lists import Empty
from lmtune.measures.measure import exponential_ndcg
from lmtune.rerank import Normalisation, Outcome, Settings
from lmtune.rerank.comparison import read_losses
from lmtune.rerank.reranker import learner_of, measured

RAW = Normalisation("none", log1p=False)


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
        Of `lmtune.rerank.Settings`, those that the paper sets for these data alone.
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
        By the table's names, losses as `lmtune rerank compare --losses` takes them; empty for what cannot
        be run here.
    cutoffs : tuple of int
        The columns, of nDCG.
    settings : mapping
        Of `lmtune.rerank.Settings`, for all methods.
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


@dataclass(frozen=True)
class TableOptions:
    """How a paper's table is computed.

    Attributes
    ----------
    data : str
        artificial:QUERIES[xDOCUMENTS] or a folder of LETOR files; of folds the first
    validation : str, optional
        a share such as 0.2 of the training queries, or a file of them, where no file has any
    trials : int
        trials a method, with seeds that follow each other
    epochs : int
        passes over the training queries, warm-up aside
    network : str
        the scorer of all but the trees
    warm_up : int
        epochs of the warm-up's loss before, whatever the loss
    grids : bool
        try the paper's grids of losses' options; else their first values
    device : str
        cpu or cuda
    seed : int
        seed of artificial data and of the first trial
    """

    data: str = "artificial:300"
    validation: str | None = None
    trials: int = 10
    epochs: int = 100
    network: str = "attention"
    warm_up: int = 0
    grids: bool = True
    device: str = "cpu"
    seed: int = 0


def run_table(protocol: Protocol, options: TableOptions) -> Results:
    """Train a scorer a method, point of its grid and trial, and lay out the paper's table.

    Validation chooses each method's options, by the mean over trials.

    Returns
    -------
    dict
        ``printed``: the table as the paper lays it out; ``claims``: the differences that the paper claims;
        ``table``, ``differences`` of all pairs, ``tried`` options, ``trials`` and ``notes``.
    """
    asked, data, seed = method_settings(protocol, options), options.data, options.seed
    keys = [(m, o, t) for m, some in asked.items() for o in range(len(some)) for t in range(options.trials)]
    common = {"data": data, "data_seed": seed, "validation": options.validation, "device": options.device}
    common |= {"cutoffs": protocol.cutoffs, "normalisation": protocol.normalisation}
    calls = [{**common, "settings": replace(asked[m][o], seed=seed + t)} for m, o, t in keys]
    runs = pd.DataFrame(keys, columns=["method", "option", "trial"]).join(pd.DataFrame(each(train, calls)))
    outcomes, tried, failed = _chosen(protocol, asked, runs)
    notes = [{"note": text} for text in (*protocol.differences, *failed)]
    known = protocol.set_of(data)
    labels = [*protocol.methods] if known else [outcome.label for outcome in outcomes]
    rows = []
    for column, cutoff in enumerate(protocol.cutoffs):
        cells = {method: texts[column] for method, texts in known.printed.items()} if known else {}
        printed, measure = dict.fromkeys(labels, "") | cells, exponential_ndcg(cutoff)
        rows += rows_of(outcomes, measure, over="trials", printed=printed, column=f"NDCG@{cutoff}")
    table, pairs = pd.DataFrame(rows), differences(outcomes)
    claimed = pairs.set_index(["a", "b"]).index.isin(protocol.claims)
    return {
        "printed": laid_out(table),
        "claims": pairs[claimed],
        "table": table,
        "differences": pairs,
        "tried": pd.DataFrame(tried),
        "notes": pd.DataFrame(notes),
        "trials": _by_trial(outcomes),
    }


def _chosen(
    protocol: Protocol, asked: Mapping[str, list[Settings]], runs: pd.DataFrame
) -> tuple[list[Outcome], list[dict[str, Any]], list[str]]:
    """Choose each method's options by validation; return outcomes, what was tried, and what failed."""
    measures = tuple(map(exponential_ndcg, protocol.cutoffs))
    fill = {"skip": math.nan, "zero": 0.0, "one": 1.0}[protocol.empty]
    outcomes, tried, notes = [], [], []
    for method, own in runs.groupby("method", sort=False):
        if "failed" in own and len(failed := own["failed"].dropna()):
            notes.append(f"{method} is missing: {failed.iloc[0]}")
            continue
        means = own.groupby("option")["validation"].apply(lambda values: float(np.mean(values.tolist())))
        best = int(np.argmax(means.to_numpy()))
        values = np.array(own.loc[own["option"] == best, "test"].tolist())
        values[np.isnan(values)] = fill
        outcomes.append(Outcome(str(method), math.nan, measures, values))
        tried += [
            {"method": method, "options": str(settings.method), "validation": mean, "chosen": number == best}
            for number, (settings, mean) in enumerate(zip(asked[str(method)], means, strict=True))
        ]
    return outcomes, tried, notes


def _by_trial(outcomes: list[Outcome]) -> pd.DataFrame:
    """Return each method's mean over queries, trial by trial."""
    rows = [
        (outcome.label, trial, str(measure), value)
        for outcome in outcomes
        for measure in outcome.measures
        for trial, value in enumerate(outcome.by_trial("skip", measure).tolist(), 1)
    ]
    return pd.DataFrame(rows, columns=["method", "trial", "measure", "value"])


def method_settings(protocol: Protocol, options: TableOptions) -> dict[str, list[Settings]]:
    """Return, by method, the settings that validation chooses from."""
    texts = {method: text for method, text in protocol.methods.items() if text}
    known = protocol.set_of(options.data)
    fixed = {**protocol.settings, **(known.settings if known else {})}
    falls, warm_up, epochs = protocol.falls, options.warm_up, options.epochs
    schedule = "constant" if falls is None else f"step:{warm_up + math.ceil(falls * epochs)}"
    chosen = {"network": options.network, "epochs": warm_up + epochs, "warm_up": warm_up}
    common = Settings.from_record({**fixed, **chosen, "schedule": schedule})
    losses = read_losses(",".join(texts.values()), common)
    return {
        method: [common.by(loss) for loss in (some if options.grids else some[:1])]
        for method, some in zip(texts, losses, strict=True)
    }


def train(
    *,
    data: str,
    data_seed: int,
    validation: str | None,
    settings: Settings,
    normalisation: Normalisation,
    cutoffs: tuple[int, ...],
    device: str,
) -> dict[str, Any]:
    """Train one scorer and measure it.

    Returns
    -------
    dict
        ``validation``, the best epoch's value; ``test``, each query's nDCG at each cutoff, NaN without a
        relevant document. ``failed``, instead, where the data are too few for a paper's trees.
    """
    learner = learner_of(settings)
    split = load_split(data, data_seed, normalisation if learner.scorer.scales else RAW, validation)
    try:
        scorer = learner.fit(split.train, split.validation, device=device)
    except InputError as error:
        if learner.scorer.has_rate:
            raise
        return {"failed": str(error)}
    scores = scorer.score(split.test, device=device)
    values = measured([(split.test, scores)], list(map(exponential_ndcg, cutoffs)))
    return {"validation": scorer.validation, "test": values.tolist()}
