"""Replications of papers' tables that compare losses: the protocol, the trainings and the table."""

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
from lmtune.rerank.reranker import evaluate_queries, learner_of

RAW = Normalisation("none", log1p=False)


@dataclass(frozen=True)
class PaperSet:
    """A data set of a paper's table.

    Attributes
    ----------
    name : str
        The data set's name in the paper.
    pattern : str
        A regular expression that matches the last two parts of the path of the distributed data.
    printed : mapping of str to tuple of str
        The paper's cells by method.
    settings : mapping
        Fields of `lmtune.rerank.Settings` that the paper sets for this data set only.
    """

    name: str
    pattern: str
    printed: Mapping[str, tuple[str, ...]]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Protocol:
    """A paper's protocol for comparing losses.

    Attributes
    ----------
    source : str
        The paper and the number of its table.
    methods : mapping of str to str
        Losses, in the syntax of `lmtune rerank compare --losses`, by their names in the table. Empty for
        methods that are not available here.
    cutoffs : tuple of int
        The table's columns: cutoffs of nDCG.
    settings : mapping
        Fields of `lmtune.rerank.Settings` for all methods.
    falls : float or None
        Share of the epochs, without warm-up, after which the learning rate is divided by ten.
    normalisation : Normalisation
        Normalisation of the features for networks.
    empty : {"skip", "zero", "one"}
        Value of test queries without a relevant document.
    claims : tuple of (str, str)
        Pairs (a, b) for which the paper claims that a is better than b.
    sets : tuple of PaperSet
        The data sets with the paper's values.
    differences : tuple of str
        Notes on deviations from the paper and on assumptions.
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
        """Return the paper's data set at this path, or None if it is another data set."""
        path = "/".join(Path(data).absolute().parts[-2:])
        return next((each for each in self.sets if re.search(each.pattern, path, re.IGNORECASE)), None)


@dataclass(frozen=True)
class TableOptions:
    """Options of a replicated table.

    Attributes
    ----------
    data : str
        artificial:QUERIES[xDOCUMENTS] or a folder of LETOR files (first fold only)
    validation : str, optional
        share of the training queries such as 0.2, or a file, if the data have no validation queries
    trials : int
        trials per method, with consecutive seeds
    epochs : int
        passes over the training queries, without warm-up
    network : str
        network of all methods except trees
    warm_up : int
        epochs with the warm-up loss before each training
    grids : bool
        try the paper's grids of loss options instead of their first values only
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
    """Train a scorer for each method, grid point and trial, and lay out the paper's table.

    Each method's options are chosen on validation queries, by the mean over trials.

    Returns
    -------
    dict
        ``printed``: the table in the paper's layout. ``claims``: the differences that the paper claims.
        ``table``: one row per method and cutoff. ``differences``: all pairs of methods. ``tried``: options
        with validation values. ``trials``: means by trial. ``notes``: deviations and failures.
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
    """Choose each method's options on validation queries.

    Returns the methods' outcomes, the options tried, and notes on failures.
    """
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
        outcomes.append(Outcome(str(method), (), measures, values))
        tried += [
            {"method": method, "options": str(settings.method), "validation": mean, "chosen": number == best}
            for number, (settings, mean) in enumerate(zip(asked[str(method)], means, strict=True))
        ]
    return outcomes, tried, notes


def _by_trial(outcomes: list[Outcome]) -> pd.DataFrame:
    """Return each method's mean over queries for each trial."""
    rows = [
        (outcome.label, trial, str(measure), value)
        for outcome in outcomes
        for measure in outcome.measures
        for trial, value in enumerate(outcome.by_trial("skip", measure).tolist(), 1)
    ]
    return pd.DataFrame(rows, columns=["method", "trial", "measure", "value"])


def method_settings(protocol: Protocol, options: TableOptions) -> dict[str, list[Settings]]:
    """Return each method's candidate settings, from which validation chooses."""
    texts = {method: text for method, text in protocol.methods.items() if text}
    known = protocol.set_of(options.data)
    fixed = {**protocol.settings, **(known.settings if known else {})}
    falls, warm_up, epochs = protocol.falls, options.warm_up, options.epochs
    schedule = "constant" if falls is None else f"step:{warm_up + math.ceil(falls * epochs)}"
    chosen = {"network": options.network, "epochs": warm_up + epochs, "warm_up": warm_up}
    common = Settings.from_record({"batch_size": 64, **fixed, **chosen, "schedule": schedule})
    losses = read_losses(",".join(texts.values()), common)
    return {
        method: [common.with_method(loss) for loss in (some if options.grids else some[:1])]
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
        ``validation``: the best epoch's value. ``test``: each query's nDCG at each cutoff, NaN for queries
        without a relevant document. If there are too few data for the paper's trees, only ``failed``: the
        reason.
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
    values = evaluate_queries([(split.test, scores)], list(map(exponential_ndcg, cutoffs)))
    return {"validation": scorer.validation, "test": values.tolist()}
