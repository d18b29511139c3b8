"""Prediction-powered inference: means by a model's judgments, corrected by human judgments of few topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Doubles
from lmtune.errors import InputError
from lmtune.io.rows import QrelsLike, RunsLike
from lmtune.measures.from_files import as_judgments, evaluate_by_each
from lmtune.measures.measure import MeasuresLike, parse_measures
from lmtune.showing import Shown

Interval = tuple[float, float]

FEWEST, FEWEST_OF_TWO = 8, 20
"""Minimum numbers of topics with human judgments: in general, and for measures with two values, as P@1.

In simulations with at least so many topics, 95% intervals had a coverage of 0.88 to 0.97. With 4 topics and
two values, it was as low as 0.59 if one value was rare.
"""
FEW_TOPICS = 25
"""With fewer judged topics, 95% intervals had a coverage of 0.91 to 0.94 (experiments/judges/README.md)."""


class PoweredMean(NamedTuple):
    """A corrected mean, or arrays of corrected means.

    Attributes
    ----------
    mean : float
        The estimate.
    error : float
        The standard error.
    weight : float
        The weight (lambda) of the model's difference between all topics and the human-judged ones.
    freedom : float
        Degrees of freedom of the t distribution of the estimate.
    """

    mean: Any
    error: Any
    weight: Any
    freedom: Any

    def interval(self, confidence: float = 0.95) -> tuple[Any, Any]:
        """Return the confidence interval."""
        from scipy.special import stdtrit

        half = stdtrit(self.freedom, 0.5 + confidence / 2.0) * self.error
        return self.mean - half, self.mean + half


def powered_mean(
    human: ArrayLike, model: ArrayLike, elsewhere: ArrayLike, *, tuned: bool = True
) -> PoweredMean:
    """Estimate the mean by human judgments from few human values and many values of a model.

    Parameters
    ----------
    human, model : array_like of float, shape (..., n)
        Values of the same topics by human judgments and by the model's. n is at least `FEWEST`, or
        `FEWEST_OF_TWO` if there are only two distinct values.
    elsewhere : array_like of float, shape (..., N)
        Values by the model's judgments for topics without human judgments.
    tuned : bool
        Use the weight with the smallest variance instead of 1.

    Returns
    -------
    PoweredMean
        The topics are the sampling units, because judgments of one topic are correlated. The standard error
        is NaN if all human values are equal.

    Raises
    ------
    InputError
        If there are too few topics, or `human` and `model` have different shapes.

    Notes
    -----
    The estimate is mean(human) + w d with d = mean(model on all topics) - mean(model). With w = 1 this is
    prediction-powered inference (Angelopoulos et al., Science 382, 2023). The tuned weight
    w = cov(human, model) / var(model) is that of PPI++ for means (Angelopoulos, Duchi and Zrnic, 2023). It
    gives the regression estimator of double sampling (Cochran, Sampling Techniques, 1977, ch. 12).

    The variance includes the error of w: s^2 (1 / n + d^2 / S) + w^2 var(model on all topics) / (n + N). Here
    s^2 is the residual variance with n - 2 degrees of freedom, and S the sum of squared deviations of
    `model`. The degrees of freedom of the sum are Satterthwaite's (Biometrics Bulletin 2, 1946).

    Examples
    --------
    >>> human = np.array([0.2, 0.5, 0.4, 0.7, 0.2, 0.5, 0.4, 0.7])
    >>> estimate = powered_mean(human, human + 0.1, [0.5, 0.9, 0.7])
    >>> round(estimate.mean, 3), round(estimate.weight, 3)
    (0.491, 1.0)
    """
    human, model, elsewhere = (np.asarray(values, np.float64) for values in (human, model, elsewhere))
    n = human.shape[-1]
    has_two = np.unique(np.concatenate([human.ravel(), model.ravel(), elsewhere.ravel()])).size <= 2
    least = FEWEST_OF_TWO if has_two else FEWEST
    if human.shape != model.shape or n < least:
        which = " for a measure with two values" if has_two else ""
        accepted = f"{least} or more, with human values and the model's for each"
        raise InputError(f"too few topics with both kinds of judgments{which}", value=n, accepted=accepted)
    every = np.concatenate([model, elsewhere], axis=-1)
    difference = every.mean(axis=-1) - model.mean(axis=-1)
    deviation = model - model.mean(axis=-1, keepdims=True)
    squares = (deviation**2).sum(axis=-1)
    weight = _ratio((deviation * human).sum(axis=-1), squares) if tuned else np.ones_like(difference)
    rest = human - weight[..., np.newaxis] * model
    residual = rest - rest.mean(axis=-1, keepdims=True)
    free = n - 2 if tuned else n - 1
    slope = _ratio(difference**2, squares) if tuned else 0.0
    human_part = (residual**2).sum(axis=-1) / free * (1.0 / n + slope)
    covariance = 2.0 * weight * (deviation * residual).sum(axis=-1) / (n - 1)  # 0 if tuned
    model_part = (weight**2 * every.var(axis=-1, ddof=1) + covariance) / every.shape[-1]
    variance = human_part + model_part
    freedom = _ratio(variance**2, human_part**2 / free + model_part**2 / (every.shape[-1] - 1))
    error = np.where(np.ptp(human, axis=-1) > 0.0, np.sqrt(variance), np.nan)
    estimate = (human.mean(axis=-1) + weight * difference, error, weight, np.maximum(freedom, free))
    return PoweredMean(*(estimate if np.ndim(difference) else map(float, estimate)))


def _ratio(part: Doubles, whole: Doubles) -> Doubles:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


class PoweredRow(NamedTuple):
    """The mean of a run's measure, or of its difference from the baseline.

    Attributes
    ----------
    run, measure : str
        The names of the run and the measure.
    corrected : PoweredMean
        The estimate from both kinds of judgments.
    human, human_error : float
        The mean by human judgments alone, and its standard error; NaN if all values are equal.
    model : float
        The mean over all topics by the model's judgments.
    """

    run: str
    measure: str
    corrected: PoweredMean
    human: float
    human_error: float
    model: float

    def human_interval(self, result: PoweredResult) -> float:
        """Return half the width of the t-interval of the mean by human judgments alone."""
        from scipy.special import stdtrit

        return float(stdtrit(result.human - 1, 0.5 + result.confidence / 2.0)) * self.human_error


@dataclass(frozen=True, repr=False)
class PoweredResult(Shown, by="judge_tables.powered"):
    """Corrected means of runs, or of differences from a baseline.

    Attributes
    ----------
    rows : tuple of PoweredRow
        Ordered by run, then by measure.
    baseline : str
        The run that is subtracted; empty if the rows are means.
    human, model : int
        The numbers of topics with both kinds of judgments, and with the model's only.
    confidence : float
        Confidence of the intervals.
    """

    rows: tuple[PoweredRow, ...]
    baseline: str
    human: int
    model: int
    confidence: float = 0.95


def powered_runs(
    qrels: QrelsLike,
    predicted: QrelsLike,
    runs: RunsLike,
    measures: MeasuresLike,
    *,
    subtract: bool = False,
    confidence: float = 0.95,
    topics: str | None = None,
) -> PoweredResult:
    """Estimate means of runs from a model's judgments of many topics and human judgments of few.

    Parameters
    ----------
    qrels, predicted : path-like, or others
        Human judgments and the model's: files, frames, named rows or dictionaries. Topics with human
        judgments only are ignored.
    runs : mapping of str to path-like or others, or a sequence of paths
        Runs in the same forms, by name; topics missing from a run count 0.
    measures : str, an object of ir_measures, or an iterable of these
        See `lmtune.measures.measure.parse_measures`.
    subtract : bool
        Estimate differences from the first run instead of means.
    confidence : float
        Confidence of the intervals.
    topics : str, optional
        The topics of `predicted` to use, as `lmtune.collections.folds.select_topics` reads them.

    Raises
    ------
    InputError
        If a file cannot be read, there are too few topics with both kinds of judgments for `powered_mean`,
        or no topic has only the model's judgments.
    """
    labels = list(map(str, parse_measures(measures)))
    human_judgments, model_judgments = as_judgments(qrels), as_judgments(predicted, topics)
    both = sorted(human_judgments.keys() & model_judgments.keys())
    rest = sorted(model_judgments.keys() - human_judgments.keys())
    if len(both) < FEWEST or not rest:
        raise InputError(
            "too few topics to correct predicted judgments",
            value=f"{len(both)} judged and predicted, {len(rest)} only predicted",
            accepted=f"{FEWEST} or more, 1 or more",
        )
    parts = [
        {topic: judgments[topic] for topic in chosen}
        for judgments, chosen in ((human_judgments, both), (model_judgments, both), (model_judgments, rest))
    ]
    values: dict[str, list[Doubles]] = {}
    for evaluated in evaluate_by_each(parts, runs, labels):
        name = evaluated[0].file if evaluated[0].tag in values else evaluated[0].tag
        values[name] = [
            np.array([part.column(label).values for label in labels], np.float64) for part in evaluated
        ]
    rows, baseline = [], next(iter(values)) if subtract else ""
    for name, of_run in values.items():
        if name == baseline:
            continue
        estimated = [a - b for a, b in zip(of_run, values[baseline], strict=True)] if baseline else of_run
        for label, human, model, elsewhere in zip(labels, *estimated, strict=True):
            error = float(human.std(ddof=1)) / len(both) ** 0.5 if np.ptp(human) > 0.0 else np.nan
            model_mean = float(np.concatenate([model, elsewhere]).mean())
            try:
                corrected = powered_mean(human, model, elsewhere)
            except InputError as problem:
                problem.message = f"{label} of {name}: {problem.message}"
                raise
            rows.append(PoweredRow(name, label, corrected, float(human.mean()), error, model_mean))
    return PoweredResult(tuple(rows), baseline, len(both), len(rest), confidence)
