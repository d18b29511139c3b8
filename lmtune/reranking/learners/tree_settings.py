"""Options of LambdaMART."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lmtune.measures.measure import Measure, check_higher_is_better, parse_list_measure
from lmtune.options import check, option


@dataclass(frozen=True)
class TreeSettings:
    """All that a LambdaMART model depends on besides the data; see the help of each field.

    The defaults are those of LightGBM's own lambdarank example, for data of the size of LETOR's
    MQ2008; for some hundred thousand rows take `leaves` 63 and `learning_rate` .05. The model is
    the same for any number of threads. The validation measure is as in
    `lmtune.reranking.settings.Settings`.

    Raises
    ------
    InputError
        For a value out of bounds.
    """

    leaves: int = option(31, "leaves a tree at most", low=2)
    learning_rate: float = option(0.1, "shrinkage of each tree", above=0, high=1)
    rounds: int = option(1000, "trees at most", low=1)
    patience: int = option(50, "trees without a better validation value before the end", low=1)
    min_rows: int = option(50, "rows that a leaf holds at least", low=1)
    min_hessian: float = option(5.0, "summed second derivatives that a leaf holds at least", low=0)
    row_share: float = option(0.9, "share of the rows that each tree sees", above=0, high=1)
    feature_share: float = option(1.0, "share of the features that each tree sees", above=0, high=1)
    truncation: int = option(30, "rank within which a pair's better document stands", low=1)
    measure: str = option("ndcg@10", "the validation measure", flag="")
    seed: int = option(0, "of all that is drawn", low=0, flag="")
    threads: int = option(2, "threads that grow the trees", low=1)

    def __post_init__(self) -> None:
        check(self)
        check_higher_is_better(self.measure)

    @cached_property
    def chosen_by(self) -> Measure:
        """The measure by which validation chooses."""
        return parse_list_measure(self.measure)

    def parameters(self) -> dict[str, Any]:
        """Return them as LightGBM names them."""
        return {
            "objective": "lambdarank",
            "metric": "None",
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": self.min_rows,
            "min_sum_hessian_in_leaf": self.min_hessian,
            "feature_pre_filter": False,
            "bagging_fraction": self.row_share,
            "bagging_freq": 1 if self.row_share < 1.0 else 0,
            "feature_fraction": self.feature_share,
            "lambdarank_truncation_level": self.truncation,
            "seed": self.seed,
            "num_threads": self.threads,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
