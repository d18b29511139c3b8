"""Pictures of the effect of smoothing on two documents' scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from panels import BLUE, GREEN, GREY, ORANGE, collection, panel, pool_of

import lmtune
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.report.figures.style import MU, MU_LABEL, finish, in_style, legend_below, log_ticks

TOPIC, RELEVANT, OTHER = "126", "numpy.hamming", "scipy.signal.get_window"
LITTLE, MUCH = 10.0, 2000.0
MUS = np.geomspace(1.0, 1e5, 161)
COLOURS = (ORANGE, GREEN, BLUE)


class Pair(NamedTuple):
    """The two documents: frequencies (terms, 2), lengths (2,), and P(w|C) of the query's terms."""

    terms: tuple[str, ...]
    tf: NDArray[np.int64]
    length: NDArray[np.int64]
    p: NDArray[np.float64]

    def likelier(self, mu: float) -> NDArray[np.float64]:
        """Return ln P(w|D) - ln P(w|C) at lambda 0, (terms, 2)."""
        parts = zip(self.tf, self.p, strict=True)
        scores = [lmtune.score([tf], self.length, [p], lambda_=0.0, mu=mu) - np.log(p) for tf, p in parts]
        return np.array(scores)


@in_style
def pictures() -> dict[str, Figure]:
    """Return the pictures by name."""
    _, index = collection()
    pool = pool_of([TOPIC])
    rows = pool.candidates.rows(0)
    names = index.docnos(pool.candidates.doc[rows])
    both = [names.index(RELEVANT), names.index(OTHER)]
    tf = np.asarray(pool.tf_block(pool.candidates, 0), np.int64)[:, both]
    length = pool.candidates.length[rows][both].astype(np.int64)
    pair = Pair(pool.terms[0], tf, length, pool.value[pool.term_rows(0)])
    return {
        "shares": shares(pair),
        "terms-little": terms(pair, LITTLE),
        "terms-much": terms(pair, MUCH),
        "crossing": crossing(pair),
        "topic": topic(pool),
    }


def shares(pair: Pair) -> Figure:
    """Plot P(w|D) of one term against mu, from the document's share to the collection's."""
    figure, ax = panel(2.7)
    term = pair.terms.index("window")
    values = np.exp([pair.likelier(mu)[term] for mu in MUS]) * pair.p[term]
    for own, name, colour, line in zip(values.T, (RELEVANT, OTHER), (BLUE, ORANGE), ("-", "--"), strict=True):
        ax.plot(MUS, own, color=colour, ls=line, label=name)
    ax.axhline(pair.p[term], color=GREY, ls=":", label="the collection")
    ax.set(xscale="log", yscale="log", xlabel=MU_LABEL, ylabel="P(window | document)")
    log_ticks(ax.yaxis, float(values.min()), float(values.max()))
    legend_below(figure, 2)
    return finish(figure, f"Probability of window in two documents and the collection, by {MU}.")


def terms(pair: Pair, mu: float) -> Figure:
    """Plot the contribution of each term to each document's score, stacked, with the sums."""
    figure, ax = panel(1.9)
    parts = pair.likelier(mu)
    ends = np.zeros((2, 2))  # of the bars to the left and to the right, each of two documents
    for name, part, colour in zip(pair.terms, parts, COLOURS, strict=True):
        side = (part > 0).astype(int)
        ax.barh([0, 1], part, left=ends[side, [0, 1]], color=colour, height=0.55, label=name)
        ends[side, [0, 1]] += part
    total = parts.sum(axis=0)
    ax.plot(total, [0, 1], "D", color="black", ms=6, ls="none", label="sum")
    for place, value in enumerate(total):
        ax.annotate(f"{value:.2f}", (value, place), (0, 13), textcoords="offset points", ha="center")
    ax.axvline(0.0, color="black", lw=0.6)
    ax.set_yticks(
        [0, 1],
        [f"{name}\n{size} tokens" for name, size in zip(("hamming", "get_window"), pair.length, strict=True)],
    )
    ax.set(
        xlim=(-0.6, 10.6),
        ylim=(1.5, -0.8),
        title=f"{MU} = {mu:,.0f}",
        xlabel="nats above the collection's score",
    )
    legend_below(figure, 4)
    return finish(figure, f"Contribution of each term to two documents' scores at {MU} {mu:,.0f}.")


def crossing(pair: Pair) -> Figure:
    """Plot both scores against mu."""
    figure, ax = panel(2.7)
    values = np.array([pair.likelier(mu).sum(axis=0) for mu in MUS])
    for own, name, colour, line in zip(values.T, (RELEVANT, OTHER), (BLUE, ORANGE), ("-", "--"), strict=True):
        ax.plot(MUS, own, color=colour, ls=line, label=name)
    behind = values[:, 1] - values[:, 0]
    [last] = np.flatnonzero(np.diff(np.sign(behind)))
    place = float(np.interp(0.0, behind[last : last + 2], MUS[last : last + 2]))
    ax.axvline(place, color=GREY, lw=0.8)
    ax.set(xscale="log", xlabel=MU_LABEL, ylabel="score minus the collection's (nats)")
    legend_below(figure, 2)
    return finish(figure, f"Two documents' scores by {MU}; they swap ranks at {place:,.0f}.")


def topic(pool: lmtune.CandidatePool) -> Figure:
    """Plot the topic's average precision against mu."""
    figure, ax = panel()
    settings = np.column_stack([np.zeros_like(MUS), MUS])
    ax.step(MUS, measure_settings(pool, settings, [parse_measure("AP")])[0, :, 0], where="mid", color="black")
    ax.set(xscale="log", xlabel=MU_LABEL, ylabel="AP of the topic", ylim=(0.0, None))
    return finish(figure, f"The topic's average precision by {MU}.")
