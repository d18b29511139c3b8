"""The picture of a linear net trained on NDCG by SPSA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lmtune.laboratory.spsa.spsa_pictures import draw_range
from lmtune.reporting.figures.style import (
    PAGE,
    Picture,
    alt_text,
    finish,
    in_style,
    legend_below,
    looks,
    new_figure,
)

if TYPE_CHECKING:
    import pandas as pd

_PARTS = ("train", "validation", "test")
_SHOWN = 0.08


@in_style
def draw_levels(runs: pd.DataFrame, courses: pd.DataFrame, *, spsa: str, measure: str, data: str) -> Picture:
    """Draw what each method reaches, and SPSA's course on the training queries.

    Parameters
    ----------
    runs : pandas.DataFrame
        Columns method, train, validation, test; a row a seed.
    courses : pandas.DataFrame
        Columns evaluations, train, lowest, highest.
    spsa, measure, data : str
        What SPSA, the measure and the data are called.
    """
    figure, [[left, right]] = new_figure(PAGE, 2.7, columns=2)
    names = list(dict.fromkeys(runs["method"]))
    look = looks(names) | {spsa: looks(["SPSA"])["SPSA"]}
    text = f"{measure} of linear nets on {data}, mean (lowest to highest) of the seeds. "
    for place, name in enumerate(names):
        own = look[name]
        part = runs[runs["method"] == name]
        x = [column + 0.18 * (place - (len(names) - 1) / 2) for column in range(len(_PARTS))]
        values = part[list(_PARTS)]
        means: list[float] = values.mean().tolist()
        low = (values.mean() - values.min()).tolist()
        high = (values.max() - values.mean()).tolist()
        bars: dict[str, Any] = {**own.options(), "ls": "none", "capsize": 2, "lw": 0.9}
        left.errorbar(x, means, yerr=[low, high], label=name, **bars)
        if name != spsa:
            right.axhline(means[0], color=own.color, ls=own.line, lw=0.9)
        text += (
            f"{name}: "
            + ", ".join(
                f"{column} {mean:.4f} ({mean - down:.4f} to {mean + up:.4f})"
                for column, mean, down, up in zip(_PARTS, means, low, high, strict=True)
            )
            + ". "
        )
    left.set_xticks(range(len(_PARTS)), _PARTS)
    left.set_xlim(-0.5, len(_PARTS) - 0.5)
    left.set_ylabel(measure)
    left.set_title("at the best validation value", loc="left")
    own = look[spsa]
    evaluations = courses["evaluations"].to_numpy()
    draw_range(right, evaluations, courses, own)
    right.plot(evaluations, courses["train"].to_numpy(), markevery=10, ms=3.5, **own.options())
    right.set_xlim(0, float(evaluations.max()))
    # What happens near the others' level is what matters; the first climb is as it may.
    shown = courses["train"][courses["evaluations"] >= _SHOWN * evaluations.max()]
    top = max(float(courses["highest"].max()), float(runs["train"].max()))
    bottom = min(float(shown.iloc[0]), float(runs["train"].min()))
    margin = 0.06 * ((top - bottom) or 1.0)
    right.set_ylim(bottom - margin, top + margin)
    right.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    right.set_xlabel(f"evaluations of {measure} by {spsa}")
    right.set_ylabel(f"{measure}, train")
    right.set_title("on the way; lines: the others' best", loc="left")
    legend_below(figure, len(names))
    first, last = courses["train"].iloc[0], courses["train"].iloc[-1]
    text += f"{spsa} goes from {first:.4f} to {last:.4f} on the training queries."
    finish(figure, text, f"Linear nets on {data}")
    title = f"{measure} of a linear net: trained on it by SPSA, and by losses with a gradient"
    return Picture("levels", title, figure, alt_text(figure))
