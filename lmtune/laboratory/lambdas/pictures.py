"""Pictures of lambda-functions: violations, the margin example's costs, a walk across a tie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from lmtune.reporting.figures.style import (
    PAGE,
    Picture,
    finish,
    in_style,
    legend_below,
    looks,
    new_figure,
    thin_outline,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FLOOR = 1e-17
_PANELS = {
    "is there a cost?": ("symmetry", "jumps", "loops", "trios", "paths"),
    "is it convex?": ("curvature", "kinks", "midpoints"),
}
_WORDS = {
    "symmetry": "Jacobian's asymmetry",
    "jumps": "jump at a tie, not along it",
    "loops": "work around a tie of two",
    "trios": "work around a tie of three",
    "paths": "work around a triangle",
    "curvature": "negative eigenvalue",
    "kinks": "jump that bends the cost down",
    "midpoints": "midpoint above the chord",
}


@in_style
def violations(evidence: pd.DataFrame, functions: pd.DataFrame) -> Picture:
    """Draw each test's largest relative violation against what errors explain.

    Parameters
    ----------
    evidence, functions : pandas.DataFrame
        Of the experiment.

    Returns
    -------
    Picture
    """
    names = list(functions["function"])
    figure, [axes] = new_figure(PAGE, 1.7 + 0.2 * len(names), columns=2, sharey=True)
    look = looks(list(_WORDS))
    verdicts = functions.set_index("function")
    for (title, tests), ax, verdict in zip(_PANELS.items(), axes, ("has_cost", "convex"), strict=True):
        _rows(ax, len(names))
        for position, test in enumerate(tests):
            rows = evidence[evidence["test"] == test]
            if verdict == "convex":
                rows = rows[rows["function"].map(verdicts["has_cost"]) != "no"]
            shift = (position - (len(tests) - 1) / 2) * 0.15
            height = np.array([names.index(name) for name in rows["function"]]) + shift
            value = np.maximum(rows["relative"].to_numpy(np.float64), _FLOOR)
            bad = (rows["outcome"] == "violated").to_numpy()
            line = np.maximum(rows["tolerance"].to_numpy(np.float64), _FLOOR)
            name = "what errors explain" if ax is axes[0] and position == 0 else None
            ax.plot(line, height, ls="none", marker="|", ms=4, color="0.55", zorder=2, label=name)
            style = look[test]
            for chosen, fill in ((bad, style.color), (~bad, "white")):
                dots = {**style.options(), "ls": "none", "ms": 3.6, "mfc": fill, "mew": 0.8, "zorder": 3}
                label = _WORDS[test] if fill == style.color else None
                ax.plot(value[chosen], height[chosen], label=label, **dots)
        for row, name in enumerate(names):
            _beside(ax, row, str(verdicts.loc[name, verdict]))
        ax.set_title(title, loc="left")
        ax.set_xlabel("largest violation, relative; filled: beyond errors")
        below = (0.5, -0.5 / (0.2 * len(names) + 0.4))
        ax.legend(loc="upper center", bbox_to_anchor=below, ncols=2, columnspacing=1.0, handletextpad=0.3)
    axes[0].set_yticks(range(len(names)), [_short(name) for name in names])
    with_cost = [name for name in names if verdicts.loc[name, "has_cost"] == "yes"]
    convex = [name for name in with_cost if verdicts.loc[name, "convex"] == "yes"]
    without = [name for name in names if verdicts.loc[name, "has_cost"] == "no"]
    alt = (
        f"Relative violations of {len(names)} lambda-functions, test by test. "
        f"A convex cost: {_list(convex)}. "
        f"A cost that is not convex: {_list([n for n in with_cost if n not in convex])}. "
        f"No cost: {_list(without)}."
    )
    title = "Which lambdas come from a cost"
    return Picture("violations", title, finish(figure, alt))


@in_style
def margin_costs(margin: pd.DataFrame) -> Picture:
    """Draw the two-document example: lambdas, and rebuilt costs over equations 7 to 9.

    Parameters
    ----------
    margin : pandas.DataFrame
        Of the experiment.

    Returns
    -------
    Picture
    """
    figure, [[left, right]] = new_figure(PAGE, 2.6, columns=2)
    deltas = sorted(set(margin["delta"]))
    styles = looks([f"{delta:g}" for delta in deltas])
    for delta in deltas:
        rows, style = margin[margin["delta"] == delta], styles[f"{delta:g}"]
        x = rows["x"].to_numpy()
        for part in (x < 0.0, x >= 0.0):
            # Not through the jump at 0.
            label = f"δ = {delta:g}" if part[0] else None
            left.plot(x[part], rows["lambda"].to_numpy()[part], color=style.color, ls=style.line, label=label)
        right.plot(x, rows["paper"], color=style.color, ls=style.line, label=f"equations 7–9, δ = {delta:g}")
        dots: dict[str, Any] = {"ls": "none", "marker": "o", "ms": 2.6, "mfc": "white", "mew": 0.7}
        label = "rebuilt from the λ's" if delta == deltas[-1] else None
        right.plot(x, rows["rebuilt"], color=style.color, label=label, **dots)
    for ax, name in ((left, "λ₁ = −λ₂"), (right, "cost")):
        ax.axvline(0.0, color="0.7", lw=0.6, zorder=0)
        ax.set_xlabel("x = s₁ − s₂")
        ax.set_ylabel(name)
        ax.legend(loc="upper right")
    largest = float(np.abs(margin["rebuilt"] - margin["paper"]).max())
    alt = (
        f"The two-document margin example for δ = {_list([f'{delta:g}' for delta in deltas])}. "
        "Left: the force on the relevant document, 1 where it stands below, falling from δ to 0 "
        "above. Right: costs rebuilt from the forces lie on equations 7 to 9, at most "
        f"{largest:.1e} away."
    )
    title = "The two-document example's cost, rebuilt"
    return Picture("margin", title, finish(figure, alt))


@in_style
def walk(tables: Mapping[str, pd.DataFrame]) -> Picture:
    """Draw LambdaRank's forces on three documents, a walk around a tie, and the cost's gap there.

    Parameters
    ----------
    tables : mapping of str to pandas.DataFrame
        The experiment's tables; ``field``, ``corners``, ``walk`` and ``across`` are drawn.

    Returns
    -------
    Picture
    """
    figure, [[plane, round_, gap]] = new_figure(PAGE, 2.75, columns=3, width_ratios=(1.25, 1, 1))
    _plane(plane, tables)
    done = tables["walk"]
    styles = looks(["RankNet", "LambdaRank"])
    steps = done["step"].to_numpy()
    for name in ("RankNet", "LambdaRank"):
        style = styles[name]
        round_.plot(steps / steps[-1] * 4, done[name.lower()], color=style.color, ls=style.line)
        gap.plot(*_broken(tables["across"], name.lower()), color=style.color, ls=style.line, label=name)
    end = float(done["lambdarank"].iloc[-1])
    round_.plot([4, 4], [0, end], color="black", lw=2, solid_capstyle="butt")
    round_.text(4.1, end / 2, f"{end:.4f}", va="center")
    round_.set_xlim(-0.15, 5.2)
    round_.axhline(0, color="0.7", lw=0.6, zorder=0)
    round_.set_xticks(range(5), ["A", "B", "C", "D", "A"])
    round_.set_xlabel("way around the square")
    round_.set_ylabel("work done by the λ's")
    gap.set_xlabel("s₁ − s₂")
    gap.set_ylabel("cost rebuilt from s = 0")
    gap.axvline(0.0, color="0.7", lw=0.6, zorder=0)
    legend_below(figure, 2)
    across = tables["across"]
    sides = across["lambdarank"].to_numpy()
    middle = int(np.searchsorted(across["difference"], 0.0))
    alt = (
        "LambdaRank on three documents with labels 2, 1 and 0. Left: its forces in the plane in "
        "which the scores have a fixed sum, with the three ties and a square ABCD across the tie "
        "of documents 1 and 2. Middle: the work done on the way around the square, which ends at "
        f"0 for RankNet and at {end:.4f} for LambdaRank. Right: the costs rebuilt from 0 on either "
        f"side of the tie, which for LambdaRank do not meet: {sides[middle - 1]:.4f} and "
        f"{sides[middle]:.4f} beside it."
    )
    title = "Why LambdaRank has no cost"
    return Picture("walk", title, finish(figure, alt))


def _plane(ax: Axes, tables: Mapping[str, pd.DataFrame]) -> None:
    field, corners = tables["field"], tables["corners"].to_numpy()
    reach = float(field["x"].max()) * 1.08
    middle: dict[str, Any] = {"ha": "center", "va": "center"}
    # In these coordinates the ties are the lines at 90, 150 and 30 degrees.
    for angle, words in ((90, "s₁ = s₂"), (150, "s₁ = s₃"), (30, "s₂ = s₃")):
        x, y = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
        long = reach / max(abs(x), abs(y))
        ax.plot([-long * x, long * x], [-long * y, long * y], color="0.6", lw=0.7, zorder=1)
        at = (-0.86 * long * x, -0.86 * long * y)
        ax.text(*at, words, fontsize=6.5, zorder=3, path_effects=thin_outline(3.0), **middle)
    arrows = (field[column] for column in ("x", "y", "force_x", "force_y"))
    ax.quiver(*arrows, color="#0072B2", angles="xy", scale=6.0, width=0.006, zorder=2)
    closed = np.vstack([corners, corners[:1]])
    ax.plot(closed[:, 0], closed[:, 1], color="#CC79A7", lw=1.4, zorder=3)
    centre = corners.mean(axis=0)
    for name, corner in zip("ABCD", corners, strict=True):
        at = tuple(centre + 1.32 * (corner - centre))
        ax.text(*at, name, color="#CC79A7", weight="bold", zorder=4, path_effects=thin_outline(), **middle)
    ax.set_xlim(-reach, reach)
    ax.set_ylim(-reach, reach)
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_xlabel("LambdaRank's forces")


def _broken(across: pd.DataFrame, name: str) -> tuple[Any, Any]:
    """Return a line that is broken at the tie."""
    x, y = across["difference"].to_numpy(), across[name].to_numpy()
    middle = int(np.searchsorted(x, 0.0))
    return np.insert(x, middle, 0.0), np.insert(y, middle, np.nan)


def _rows(ax: Axes, count: int) -> None:
    """Lay out a row each from top to bottom, over a scale of violations."""
    for row in range(0, count, 2):
        ax.axhspan(row - 0.5, row + 0.5, color="0.95", lw=0, zorder=0)
    ax.set_xscale("log")
    ax.set_xlim(_FLOOR / 3, 30.0)
    ax.set_xticks([1e-15, 1e-10, 1e-5, 1.0])
    ax.set_ylim(count - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)


def _beside(ax: Axes, row: int, words: str) -> None:
    ax.text(1.01, row, words, transform=ax.get_yaxis_transform(), va="center", fontsize=6.5, clip_on=False)


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"…{name[-23:]}"


def _list(names: list[str]) -> str:
    return ", ".join(names) or "none"
