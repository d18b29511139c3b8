"""Analysis of experiments/estimation/PROTOCOL.md: mixed models, and Student's t over collections.

    python -m experiments.estimation --datasets ../shared/data/cranfield,../shared/data/cacm,... --output DIR
    python -m experiments.estimation.mixed_models DIR/fits.csv
    python -m experiments.estimation.mixed_models --draw picture.png DIR/answer.csv

There is a row for each hypothesis, model and number of training topics:

- the estimate of the mixed model, with its 90% interval and p-value
- the p-value of Student's t over the collections' means
- the larger p-value, with Holm's correction over the rows of the hypothesis; it decides

Needs statsmodels.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.regression.mixed_linear_model import MixedLM
from statsmodels.stats.multitest import multipletests

from experiments.estimation.__main__ import draw_gaps
from lmtune.measures.significance.tests import equivalence_test, mean_interval

LEVEL, TIMES, MARGIN = 0.05, 10.0, 0.005
CHOSEN_ON, AT_MOST_BELOW = ("cranfield", "wikiqa", "dl19"), 0.002
KEYS = ["collection", "model", "size", "set"]
SEARCHES, SMOOTHED = ("grid", "Direct", "Approx"), ("shrunk", "near", "bagged")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, help="fits.csv; with --draw answer.csv")
    parser.add_argument("--draw", type=Path)
    options = parser.parse_args()
    fits = pd.read_csv(options.table)
    if options.draw is not None:
        options.draw.parent.mkdir(parents=True, exist_ok=True)
        draw_gaps(fits).savefig(options.draw, dpi=200)
        return
    rows = pd.DataFrame(tests(fits))
    for _, own in rows.groupby(rows["hypothesis"].str.split().str[0]):
        tested = own.index[own["p"].notna()]
        if tested.size:
            rows.loc[tested, "p_holm"] = multipletests(own.loc[tested, "p"], method="holm")[1]
    rows["held"] = np.where(rows["p_holm"].isna(), "", np.where(rows["p_holm"] < LEVEL, "yes", "no"))
    with pd.option_context("display.width", 200, "display.max_rows", None, "display.precision", 4):
        print(rows.to_string(index=False), "\n")
        print(slopes(fits).to_string(), "\n")
        print(default(fits).to_string())


def tests(fits: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of all hypotheses, uncorrected."""
    wide = fits.pivot_table(index=KEYS, columns="method", values=["optimisation", "part"])
    gaps = fits.drop_duplicates(KEYS).set_index(KEYS)[["below", "above", "unproven"]]
    for (model, size), own in gaps.groupby(["model", "size"]):
        topics = int(str(size))
        cell = {"model": str(model), "size": topics}
        search, part = (wide.loc[own.index][name] for name in ("optimisation", "part"))
        yield {"hypothesis": "gap, below", **cell, **judged(own["below"], "greater")}
        yield {"hypothesis": "gap, above", **cell, **judged(own["above"], None)}
        if topics <= 50:
            yield {
                "hypothesis": "H1 Direct",
                **cell,
                **judged(own["below"] - TIMES * search["Direct"], "greater"),
            }
            for method in ("grid", "Approx", "ten"):
                difference = own["below"] - TIMES * search[method]
                yield {"hypothesis": f"H1b {method}", **cell, **judged(difference, "greater")}
            bounded = own["below"] - TIMES * (search["Direct"] + own["unproven"])
            if bounded.notna().all():
                yield {"hypothesis": "H1c bound", **cell, **judged(bounded, "greater")}
        for method in SEARCHES:
            yield {"hypothesis": f"H2 {method}", **cell, **judged(-part[method], "equivalent")}
        for method in (*SMOOTHED, "softmax", "RankNet", "ten", "Default"):
            test = "greater" if topics == 10 and method in SMOOTHED else None
            yield {
                "hypothesis": "H3" if test else "reported",
                "what": method,
                **cell,
                **judged(-part[method], test),
            }


def judged(values: pd.Series[float], test: str | None) -> dict[str, Any]:
    """Estimate a mean over collections by both methods, with optional tests."""
    unit = float(values.std())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a variance of 0 between collections is an answer
        # the default optimiser, by gradients, can end at singular fits
        model = MixedLM(values / unit, np.ones(len(values)), groups=values.index.get_level_values(0))
        fit = model.fit(reml=True, method="powell")
    mean, error = unit * float(fit.fe_params.iloc[0]), unit * float(fit.bse_fe.iloc[0])
    if not (fit.converged and np.isfinite(error)):
        raise RuntimeError("a mixed model did not converge")
    means = values.groupby(level=0).mean().to_numpy()
    half = stats.norm.ppf(0.95) * error
    low, high = mean_interval(means, 0.0, 0.9)
    row: dict[str, Any] = {
        "mean": mean,
        "low": mean - half,
        "high": mean + half,
        "t_low": low,
        "t_high": high,
    }
    if test == "greater":
        mixed = stats.norm.sf(mean / error)
        student = stats.ttest_1samp(means, 0.0, alternative="greater").pvalue
    elif test == "equivalent":
        mixed = max(stats.norm.sf((MARGIN - mean) / error), stats.norm.sf((MARGIN + mean) / error))
        student = equivalence_test(means, 0.0, MARGIN).equivalent
    else:
        return row | {"p_mixed": np.nan, "p_t": np.nan, "p": np.nan, "collections": means.size}
    worst = max(mixed, student)
    return row | {"p_mixed": mixed, "p_t": student, "p": worst, "collections": means.size}


def slopes(fits: pd.DataFrame) -> pd.Series[float]:
    """Return the slopes of log(gap from above) on log(topics), for collections with four or more sizes."""
    means = fits.groupby(["model", "collection", "size"])["above"].mean()
    return pd.Series(
        {
            case: np.polyfit(np.log(own.index.get_level_values("size")), np.log(own), 1)[0]
            for case, own in means.groupby(level=[0, 1])
            if len(own) >= 4
        },
        name="slope",
    )


def default(fits: pd.DataFrame) -> pd.DataFrame:
    """Return each method's mean difference from Direct on the choosing and the confirming collections."""
    few = fits[fits["size"].isin([5, 10, 25])]
    wide = few.pivot_table(index=KEYS, columns="method", values="test")
    means = wide.sub(wide["Direct"], axis=0).groupby(level=[0, 1, 2]).mean().groupby(level=0).mean()
    is_chosen = means.index.isin(CHOSEN_ON)
    rows = {}
    for method, own in means.items():
        other = own[~is_chosen]
        p = stats.ttest_1samp(other, 0.0, alternative="greater").pvalue if len(other) > 1 else np.nan
        confirmed = bool(p < LEVEL and other.min() >= -AT_MOST_BELOW)
        row = {"chosen on": own[is_chosen].mean(), "confirmed on": other.mean(), "p": p}
        by_collection = {str(name): value for name, value in own.items()}
        rows[str(method)] = {**row, "worst": other.min(), "confirmed": confirmed, **by_collection}
    return pd.DataFrame(rows).T.sort_values("chosen on", ascending=False)


if __name__ == "__main__":
    main()
