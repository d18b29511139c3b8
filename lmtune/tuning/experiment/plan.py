"""The options of an experiment: training and test topics, measures, model and searches."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lmtune.collections.collection import Collection
from lmtune.collections.folds import Fold
from lmtune.collections.loading import splits_of
from lmtune.errors import InputError
from lmtune.io.term_values import topic_weights_option
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.measure import Measure, check_reads_gains, parse_measures
from lmtune.measures.significance.near_best import MARGIN
from lmtune.models.model import NAMES, find_model
from lmtune.options import check, option, usual
from lmtune.tuning.certificate.optimum import check_tolerance
from lmtune.tuning.certificate.problem import Problem, proof_of
from lmtune.tuning.direct import default_grid_shape
from lmtune.tuning.experiment.result import ALSO, APPROX, BAGGED, DIRECT
from lmtune.tuning.gradient import OPTIMIZERS
from lmtune.tuning.pairs import SAMPLED_NEGATIVES
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import EVALUATIONS, FEWEST

_MOST_POINTS = 1_000_000
_GRID = default_grid_shape(2)
_MOST_BAGGED, _MOST_BAGGED_TOPICS = 2, 50
"""Bagging is recommended for this number of parameters and training topics: docs/protocols/bagging.md."""
_MOST_FREE = 3  # parameters that Direct is recommended for


def _grid(text: str) -> tuple[int, ...]:
    points = (
        tuple(map(int, text.split("x"))) if re.fullmatch(r"[1-9][0-9]{0,6}(x[1-9][0-9]{0,6})*", text) else ()
    )
    if not points or math.prod(points) > _MOST_POINTS:
        raise InputError(
            "bad --grid",
            value=text,
            accepted=f"points along each parameter, such as 20x26, or 520, up to {_MOST_POINTS}",
        )
    return points


@dataclass(frozen=True)
class Split:
    """Training and test topics.

    Attributes
    ----------
    folds : str or None
        The number of folds, or a JSON file of folds; see `lmtune.collections.folds.make_folds`.
    train_topics, test_topics : str or None
        Topics in the syntax of `lmtune.collections.folds.select_topics`.
    train_split, test_split : str or None
        Names of a folder's splits, each with topics and judgments. The default is ``train`` and ``test`` if
        the folder has both and no other option selects topics.
    ignore_unknown : bool
        Skip judgments of topics that the collection lacks, and allow that it lacks every judged document.
    topic_weights : mapping of str to float, optional
        Weights of topics in fits, each above 0; equal by default.

    Raises
    ------
    InputError
        If folds and training or test topics are both given.
    """

    folds: str | None = usual(
        None, "Cross-validation: number of folds (default 2), or a JSON file of folds.", metavar="N|FILE"
    )
    train_topics: str | None = usual(None, "Training topics: 51-100, a list 51,52 or a file.")
    test_topics: str | None = option(None, "Test topics; default: all others.")
    train_split: str | None = option(
        None, "The folder's training split (default: train, if there is one).", metavar="NAME"
    )
    test_split: str | None = option(None, "The folder's test split (default: test).", metavar="NAME")
    ignore_unknown: bool = option(
        False, "Skip judgments of unknown topics; accept judgments without any known document."
    )

    topic_weights: Mapping[str, float] | None = topic_weights_option()

    def files(self) -> list[Path]:
        """Return the options that may be names of files."""
        return [Path(name) for name in (self.folds, self.train_topics, self.test_topics) if name is not None]

    def __post_init__(self) -> None:
        if self.folds == "1":
            raise InputError(
                "one fold leaves no topic to report on",
                value=self.folds,
                accepted="2 or more; the final fit uses all topics with any number of folds",
            )
        if self.folds is not None and (self.train_topics or self.test_topics):
            raise InputError(
                "both folds and a split", value=self.folds, accepted="--folds, or --train-topics"
            )

    def names(self, collection: Collection) -> tuple[str, str] | None:
        """Return the names of a folder's training and test splits; None if topics are selected otherwise.

        Raises
        ------
        InputError
            If both names are equal, or topics or judgments are also selected by another option.
        """
        named = self.train_split or self.test_split
        names = self.train_split or "train", self.test_split or "test"
        other = self.folds or self.train_topics or self.test_topics or collection.split or collection.qrels
        if named is None:
            return names if not other and {*names} <= {*splits_of(collection.name)} else None
        if other or names[0] == names[1]:
            raise InputError(
                "splits and another selection of topics or judgments"
                if other
                else "training split equals test split",
                value=other or named,
                accepted="--train-split and --test-split, two splits of a folder",
            )
        return names


@dataclass(frozen=True)
class Plan:
    """Measures, model and search.

    Attributes
    ----------
    measures : tuple of Measure
        The measures to maximise and report.
    model : str
        A name that `lmtune.models.model.find_model` accepts.
    ranges : mapping of str to (low, high)
        Ranges that replace the model's own, by parameter.
    baseline : mapping of str to float, optional
        The setting of the row ``Default``, by parameter; missing values are the model's defaults. None leaves
        the row out.
    grid : tuple of int
        Grid points along each parameter, or the number of settings. See
        `lmtune.tuning.direct.default_grid_shape`.
    ascents, restarts : int
        Number of coordinate ascents from the best grid points, and from random settings.
    optimizer : str
        RankNet's optimizer; see `RankNetTuner`.
    starts : int
        Number of starts of RankNet.
    validation : float
        The share of training topics on which RankNet stops early, 0 for none; adds the row ``RankNet-val``.
    rel : int
        The lowest gain that counts as relevant for RankNet.
    sampled_negatives : int
        Sampled negatives per topic; see `RankNetTuner`.
    approx : bool
        Whether to maximise a smooth approximation of each measure: the row ``Approx``.
    final : bool
        Whether to fit every method on the topics of all folds at the end: the settings to use.
    seed : int
        Seed of all random choices.
    depth : int
        Run depth.
    also : tuple of str
        Optional methods, ``"spsa"`` and ``"fdsa"``; each adds a row.
    evaluations : int
        Their budget per fold and measure; see `SPSA`.
    bag : bool
        Whether to add the row ``Bagged`` for one or two free parameters and up to 50 training topics: the
        mean of the best grid settings of resampled training topics. It is recommended in place of Direct.
    margin : float
        Largest loss against the best grid setting in the near-optimal region, in the unit of the measure.
    certify : float or None
        Prove that Optimal is within this tolerance of the best setting; see `CertifiedOptimum`.
    """

    measures: tuple[Measure, ...] = usual(
        ("AP", "Bpref", "P@10"),
        "Measure to maximise and report: AP, P@k, Bpref, nDCG@k, RR, R@k ...; repeat it for several.",
        flag="--measure -m",
        read=str,
        separator=None,
    )
    model: str = usual("two-stage", f"{NAMES}. Without :title,body the fields are those of --fields.")
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    baseline: Mapping[str, float] | None = None
    grid: tuple[int, ...] = option(
        (),
        f"Points along each parameter, or the number of settings; default: {'x'.join(map(str, _GRID))} "
        f"for two parameters, else {math.prod(_GRID)}.",
        low=1,
        read=_grid,
        separator="x",
        metavar="NxN",
    )
    ascents: int = option(3, "Coordinate ascents from the best grid points.", low=1, flag="")
    restarts: int = option(2, "Random restarts of the coordinate ascent.", low=0)
    optimizer: str = option(
        "coordinate-descent", "coordinate-descent or l-bfgs.", choices=OPTIMIZERS, flag="--ranknet-optimizer"
    )
    starts: int = option(4, "Number of starts of RankNet's descent.", low=1, flag="--ranknet-starts")
    validation: float = option(
        0.0,
        "Share of training topics for early stopping; adds the row RankNet-val.",
        low=0,
        below=1,
        flag="--ranknet-validation",
    )
    rel: int = option(1, "Lowest gain that counts as relevant for RankNet.", low=1, flag="--ranknet-rel")
    sampled_negatives: int = option(
        SAMPLED_NEGATIVES, "Sampled negatives of a topic without judged non-relevant documents.", low=1
    )
    approx: bool = option(
        True, "Add the row Approx: gradient search on a smooth approximation of each measure."
    )
    final: bool = option(True, "Finally, fit each method on all topics: the settings to use.")
    seed: int = option(0, "Seed of folds, starts and restarts.", low=0)
    depth: int = option(DEPTH, "Run depth of measures and runs.", low=1)
    also: tuple[str, ...] = option((), "Add gradient-free methods: spsa, fdsa, or spsa,fdsa.", choices=ALSO)
    evaluations: int = option(
        EVALUATIONS, "Budget of a gradient-free method: settings per fold and measure.", low=FEWEST
    )
    bag: bool = option(
        True,
        f"For up to {_MOST_BAGGED} parameters and {_MOST_BAGGED_TOPICS} training topics, add the row Bagged: "
        "the mean of the best grid settings of resampled topics.",
    )
    margin: float = option(MARGIN, "Largest loss in the near-optimal region.", above=0)
    certify: float | None = option(
        None,
        "Prove that Optimal is within this tolerance of the best setting, such as 1e-3; for AP, nDCG, P, R, "
        "RR, Bpref and Success. Ctrl-C stops the proof.",
    )

    def __post_init__(self) -> None:
        measures = parse_measures(self.measures)
        check_reads_gains(measures)
        object.__setattr__(self, "measures", tuple(measures))
        for name in self.also:
            if name not in ALSO or self.also.count(name) > 1:
                raise InputError("unknown or repeated optional method", value=name, accepted=", ".join(ALSO))
        check(self)
        if not self.grid:
            object.__setattr__(self, "grid", default_grid_shape(len(self.space.names)))
        self.space.check_grid(self.grid)  # `space` checks the ranges.
        if self.baseline is not None:
            self._complete(self.baseline)
        if self.certify is not None:
            check_tolerance(self.certify)
            proof_of(find_model(self.model).formula)
            for measure in self.measures:
                Problem.check(measure)

    def _complete(self, baseline: Mapping[str, float]) -> None:
        """Complete the baseline with the model's defaults, and check it."""
        setting = self.space.named(self.space.normalise_shares(self.space.vector(baseline)))
        find_model(self.model).check(setting)
        object.__setattr__(self, "baseline", setting)

    def as_record(self) -> dict[str, Any]:
        """Return the plan as a JSON object."""
        record = asdict(self)
        del record["ranges"]
        space = {
            f"{name}_{end}": bound
            for name, bounds in self.space.ranges.items()
            for end, bound in zip(("low", "high"), bounds, strict=True)
        }
        names = [str(measure) for measure in self.measures]
        return {"measures": names, "model": self.model, "space": space} | record | {"measures": names}

    @property
    def measured(self) -> dict[str, tuple[float, float]]:
        """The ranges that contain all settings to measure, including the baseline."""
        baseline = self.baseline or {}
        ranges = self.space.ranges.items()
        return {
            n: (min(low, baseline.get(n, low)), max(high, baseline.get(n, high))) for n, (low, high) in ranges
        }

    @cached_property
    def space(self) -> ParameterSpace:
        """The space that every method searches."""
        return ParameterSpace.of(self.model, self.ranges)

    def bags(self, folds: Sequence[Fold]) -> bool:
        """Whether there is a row ``Bagged``: for few free parameters and training topics, with `bag`."""
        topics = max(len(fold.train) for fold in folds)
        return self.bag and len(self.space.free) <= _MOST_BAGGED and topics <= _MOST_BAGGED_TOPICS

    def fixed_method(self, folds: Sequence[Fold]) -> str:
        """Return the method that is recommended if it is significantly better than the default.

        It is Direct for up to three free parameters, and else Approx, which is regularised for models with
        term weights. It is Bagged where `bags` says so.
        """
        if self.bags(folds):
            return BAGGED
        return APPROX if self.approx and len(self.space.free) > _MOST_FREE else DIRECT

    @property
    def grid_space(self) -> ParameterSpace:
        """The space of grid points, in which term weights, which are too many for a grid, are 0."""
        simpler = find_model(self.model).formula.simpler
        return self.space.fixing(dict(simpler[-1][1]) if simpler else {})
