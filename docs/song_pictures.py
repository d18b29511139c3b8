"""Pictures of SONG on a synthetic list: bound, running estimates, objective, K-SONG's threshold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from panels import BLUE, GREEN, GREY, ORANGE, panel, reported

from lmtune.losses.evaluation import PaddedLists
from lmtune.losses.songs.k_song import KSong
from lmtune.losses.songs.pairs import ListSampler, RelevantPairs
from lmtune.losses.songs.songs import Song
from lmtune.report.figures.style import LAMBDA, finish, in_style, legend_below, log_ticks

Floats = NDArray[np.float64]
ITEMS, FEATURES, RELEVANT, SAMPLED, STEPS = 400, 8, 12, 20, 150


class Training(NamedTuple):
    """A linear scorer's training: features, labels, last weights; one pair's g, g^ and u at each step."""

    x: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor
    exact: list[float]
    sampled: list[float]
    running: list[float]


def train() -> Training:
    """Train on one list; each step uses a sample of its items."""
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(ITEMS, FEATURES, generator=draw, dtype=torch.float64)
    merit = x @ torch.randn(FEATURES, generator=draw, dtype=torch.float64)
    merit += 1.5 * torch.randn(ITEMS, generator=draw, dtype=torch.float64)
    labels = torch.zeros(ITEMS, dtype=torch.float64)
    labels[merit.topk(RELEVANT).indices] = 1.0
    pairs = RelevantPairs.from_lists([0, ITEMS], labels.numpy())
    sampler = ListSampler(pairs, ITEMS, relevant=RELEVANT, others=SAMPLED - RELEVANT, seed=0)
    song, forgetful = Song(pairs, gamma=0.3, margin=1.0), Song(pairs, gamma=1.0, margin=1.0)
    weights = torch.zeros(FEATURES, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([weights], lr=0.1)
    seen = Training(x, labels, weights, [], [], [])
    for step in range(STEPS):
        sample = sampler.draw(np.array([0]), epoch=0, step=step)
        items = torch.from_numpy(sample.items)
        given = {"queries": torch.tensor([0]), "items": items}
        scores = x[items[0]] @ weights
        optimiser.zero_grad()
        song(scores[None], torch.from_numpy(sample.labels), **given).backward()
        forgetful(scores[None].detach(), torch.from_numpy(sample.labels), **given)
        with torch.no_grad():
            every = x @ weights
            own = every[int(pairs.items[0])]
            seen.exact.append(float((every - own + 1.0).clamp(min=0.0).square().mean()))
        seen.sampled.append(float(forgetful.state.padded_estimate[0]))
        seen.running.append(float(song.state.padded_estimate[0]))
        optimiser.step()
    return seen._replace(weights=weights.detach())


@in_style
def pictures() -> dict[str, Figure]:
    """Return the pictures by name."""
    seen = train()
    return {
        "hinge": hinge(),
        "estimates": estimates(seen),
        "surrogate": surrogate(seen),
        "threshold": threshold(seen),
        "long-lists": long_lists(),
    }


def hinge() -> Figure:
    """Plot the contribution of an item to another's rank, and the squared hinge above it."""
    figure, ax = panel()
    x = np.linspace(-3.0, 3.0, 301)
    ax.plot(x, x > 0, color="black", drawstyle="steps-mid", label="rank: 1 if ahead")
    for margin, colour, line in ((1.0, ORANGE, "-"), (2.0, BLUE, "--")):
        value = np.maximum(0.0, x + margin) ** 2
        ax.plot(x, value, color=colour, ls=line, label=f"squared hinge, c = {margin:g}")
    ax.set(
        ylim=(-0.2, 6.0), xlabel="score of item j minus score of item i", ylabel="contribution to i's rank"
    )
    ax.legend(loc="upper left")
    return finish(
        figure, "Contribution of an item to another's rank: a step function, and squared hinges above it."
    )


def estimates(seen: Training) -> Figure:
    """Plot g of one pair, g^ of each step's sample and the running estimate."""
    figure, ax = panel(2.7)
    ax.plot(seen.sampled, ".", color=GREY, ms=2.5, label=f"from {SAMPLED} of {ITEMS} items")
    ax.plot(seen.running, color=ORANGE, label="running estimate u")
    ax.plot(seen.exact, color="black", ls="--", label="g, of all items")
    ax.set(xlabel="step", ylabel="g of one relevant item")
    legend_below(figure, 2)
    error = [float(np.abs(np.subtract(own, seen.exact)).mean()) for own in (seen.sampled, seen.running)]
    return finish(
        figure, f"Mean error of the sample's g: {error[0]:.2f}; of the running estimate: {error[1]:.2f}."
    )


def surrogate(seen: Training) -> Figure:
    """Plot NDCG and minus SONG's objective against one weight."""
    figure, ax = panel(2.7)
    shifts = np.linspace(-3.0, 3.0, 121)
    moved = seen.weights.repeat(shifts.size, 1)
    moved[:, int(seen.weights.abs().argmax())] += torch.from_numpy(shifts)
    scores = moved @ seen.x.T
    whole = seen.labels.repeat(shifts.size, 1)
    ranks = 1 + (-scores).argsort(dim=1).argsort(dim=1).numpy()
    ideal = (1.0 / np.log2(1.0 + np.arange(1, RELEVANT + 1))).sum()
    ndcg = np.where(whole.numpy() > 0, 1.0 / np.log2(1.0 + ranks), 0.0).sum(axis=1) / ideal
    ax.plot(shifts, ndcg, color="black", lw=0.9, label="NDCG")
    for margin, colour, line in ((1.0, ORANGE, "-"), (5.0, BLUE, "--")):
        song = Song(None, margin=margin)
        bound = [
            -float(song.of_lists(own[None], PaddedLists(own[None], seen.labels[None], whole[:1] >= 0)))
            for own in scores
        ]
        ax.plot(shifts, bound, color=colour, ls=line, label=f"SONG's bound, c = {margin:g}")
    ax.set(xlabel="change of one weight", ylim=(0.0, 1.0))
    legend_below(figure, 2)
    return finish(figure, "NDCG against one weight, and SONG's bounds, smooth and below it.")


def threshold(seen: Training) -> Figure:
    """Plot the weights of the top items around K-SONG's threshold."""
    figure, ax = panel()
    scores, _ = (seen.x @ seen.weights).sort(descending=True)
    pairs = RelevantPairs.from_lists([0, ITEMS], seen.labels.numpy())
    given = {"queries": torch.tensor([0]), "items": torch.arange(ITEMS)[None]}
    rank = np.arange(1, 41)
    for cutoff, colour, marker in ((5, BLUE, "^"), (20, ORANGE, "o")):
        song = KSong(pairs, cutoff=cutoff, margin=1.0)
        song((seen.x @ seen.weights)[None], seen.labels[None], **given)
        psi = torch.sigmoid(song.scale * (scores - song.threshold[0])).numpy()[:40]
        ax.axvline(cutoff + 0.5, color=colour, lw=0.8)
        ax.plot(rank, psi, marker, color=colour, ms=3.0, ls="none", label=f"K = {cutoff}")
    ax.set(xlabel="rank", ylabel="weight", ylim=(-0.03, 1.1))
    ax.legend()
    return finish(
        figure,
        f"Weights of the first 40 items: one half at the threshold {LAMBDA}, which lies behind rank K.",
    )


def long_lists() -> Figure:
    """Plot milliseconds per step against list length, from the results of SONG."""
    figure, ax = panel()
    rows = ("items |", "SONG, samples of 40", "SONG, all items")
    lengths, song, every = (np.ravel(reported("experiments/song/README.md", row)) for row in rows)
    ax.plot(lengths, every, "s--", color=GREEN, label="all items")
    ax.plot(lengths, song, "o-", color=ORANGE, label="SONG, a sample of 40")
    ax.set(xscale="log", yscale="log", xlabel="items in the list", ylabel="ms a step")
    for axis, values in ((ax.xaxis, lengths), (ax.yaxis, every)):
        log_ticks(axis, float(values.min()), float(values.max()))
    ax.legend()
    return finish(figure, "Milliseconds per step by list length: all items, and SONG.")
