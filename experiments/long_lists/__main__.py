"""Compare losses on long lists.

python -m experiments.long_lists --data ml-100k/u.data --loss listnet,song,k-song --output DIR
python -m experiments.long_lists --data bibtex_train.txt --test bibtex_test.txt --visits 1 --list-size 100
"""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from experiments.long_lists.data import LongLists, label_lists, rating_lists, read_ratings
from experiments.long_lists.training import TrainingOptions, train
from lmtune import InputError
from lmtune.measures import ComparisonOptions, compare
from lmtune.reranking import parse_loss

LOSSES = "ranknet,listnet,listmle,lambdarank,approxndcg,neuralndcg,song,k-song"
RATING_MEASURES = ("ndcg@10", "ndcg@20", "ndcg@50")
LABEL_MEASURES = ("p@1", "p@5", "ndcg@3", "ndcg@5", "psp@5")
_NUMBERS = ("warm_up", "epochs", "visits", "batch_size", "list_size", "list_relevant", "seed")
_RATES = ("learning_rate", "weight_decay")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.long_lists", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--data", type=Path, required=True, help="ratings, or training examples with labels")
    parser.add_argument("--test", type=Path, help="test examples with labels; without it data are ratings")
    parser.add_argument("--loss", default=LOSSES, help=f"losses to compare (default: {LOSSES})")
    parser.add_argument("--trials", type=int, default=3, help="seeds a loss (default: 3)")
    parser.add_argument("--held-out", type=int, default=5, help="ratings a user for tests (default: 5)")
    parser.add_argument("--graded", action="store_true", help="take ratings as grades")
    parser.add_argument("--widths", default="256", help="hidden layers of the label network (default: 256)")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--all-items", action="store_true", help="take every item in each step")
    parser.add_argument("--output", type=Path, help="write results.csv and history.csv into this folder")
    defaults = {field.name: field.default for field in fields(TrainingOptions)}
    for name in (*_NUMBERS, *_RATES):
        kind = int if name in _NUMBERS else float
        flag, default = f"--{name.replace('_', '-')}", defaults[name]
        parser.add_argument(flag, type=kind, default=default, help=f"default: {default}")
    return parser


def _lists(asked: argparse.Namespace) -> LongLists:
    if asked.test is None:
        ratings = read_ratings(asked.data)
        return rating_lists(ratings, held_out=asked.held_out, graded=asked.graded, dropout=asked.dropout)
    widths = [int(width) for width in asked.widths.split(",") if width]
    return label_lists(asked.data, asked.test, widths=widths, dropout=asked.dropout)


def run(arguments: list[str] | None = None) -> pd.DataFrame:
    """Train every loss with every seed; print and return the test measures' means."""
    asked = _parser().parse_args(arguments)
    lists = _lists(asked)
    measures = RATING_MEASURES if asked.test is None else LABEL_MEASURES
    chosen = "ndcg@10" if asked.test is None else "ndcg@5"
    options = replace(
        TrainingOptions(measure=chosen), **{name: getattr(asked, name) for name in (*_NUMBERS, *_RATES)}
    )
    if asked.all_items:
        options = replace(options, list_size=None)
    tested: dict[str, list[np.ndarray]] = {}
    history = []
    for text, trial in product(asked.loss.split(","), range(asked.trials)):
        own = replace(options, loss=parse_loss(text), seed=options.seed + trial)
        trained = train(lists, own)
        tested.setdefault(text, []).append(lists.measure(trained.network, "test", measures))
        rows = enumerate(trained.validation, 1)
        history += [{"loss": text, "trial": trial + 1, "epoch": n, "validation": value} for n, value in rows]
    by_list = {text: np.mean(values, axis=0) for text, values in tested.items()}
    results = pd.DataFrame(
        [values.mean(axis=0) for values in by_list.values()], index=pd.Index(by_list, name="loss")
    )
    results.columns = pd.Index(measures)
    print(results.round(4).to_string())
    if len(by_list) > 1:
        first, *others = by_list
        rest = {text: by_list[text][:, 0] for text in others}
        paired = ComparisonOptions(pairwise=True)
        print(compare(by_list[first][:, 0], rest, paired, baseline=first, measures=[measures[0]]))
    if asked.output is not None:
        asked.output.mkdir(parents=True, exist_ok=True)
        results.to_csv(asked.output / "results.csv")
        pd.DataFrame(history).to_csv(asked.output / "history.csv", index=False)
    return results


if __name__ == "__main__":
    torch.set_num_threads(1)
    try:
        run()
    except InputError as error:
        raise SystemExit(f"error: {error}") from None
