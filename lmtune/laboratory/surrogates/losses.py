"""The papers' tables in small: losses under equal settings (Bruch et al. 2019, Qiu et al. 2022)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lmtune.laboratory.experiment import Tables
from lmtune.laboratory.surrogates.findings import compared, difference_of, mean_of, verdict
from lmtune.laboratory.surrogates.pictures import value_picture
from lmtune.laboratory.surrogates.sweeps import CHOSEN_AT, Case, Pair, Sweep, key
from lmtune.measures.measure import exponential_ndcg
from lmtune.options import option
from lmtune.reporting.figures.style import short
from lmtune.reranking.loss_names import LAMBDAMART, parse_loss

if TYPE_CHECKING:
    from lmtune.reporting.figures.style import Picture

_TITLES = {
    "ranknet": "RankNet",
    "listnet": "ListNet",
    "listmle": "ListMLE",
    "lambdarank": "LambdaRank",
    "ndcgloss2++": "NDCG-Loss2++",
    "approxndcg": "ApproxNDCG",
    "neuralndcg": "NeuralNDCG",
    "song": "SONG",
    "k-song": "K-SONG",
    "cross-entropy": "cross-entropy",
    LAMBDAMART: "LambdaMART",
}
# What Bruch et al. (2019, table 1) and Qiu et al. (2022, table 1) say is better than what.
_BRUCH = (("ApproxNDCG", "ListMLE"), ("ApproxNDCG", "RankNet"), ("LambdaMART", "ApproxNDCG"))
_SONGS = ("SONG", "K-SONG")


_NETWORKS = (
    "ranknet",
    "listnet",
    "listmle",
    "lambdarank",
    "ndcgloss2++",
    "approxndcg",
    "neuralndcg",
    "song",
    "k-song:cutoff=10",
)


@dataclass(frozen=True)
class Losses(Sweep):
    """What to compare, and how."""

    name: ClassVar[str] = "losses"
    quick: ClassVar[Mapping[str, Any]] = {
        "data": "artificial:100",
        "rates": (0.01,),
        "trials": 3,
        "epochs": 12,
        "warm_up": 4,
        "losses": (*_NETWORKS, "lambdamart:rounds=60"),
    }

    losses: tuple[str, ...] = option(
        (*_NETWORKS, "lambdamart:rounds=300"), "what to train by, each with options as NAME:OPTION=VALUE"
    )
    network: str = option("b64", "the scorer of all but the trees")
    rates: tuple[float, ...] = option(
        (0.003, 0.01), "learning rates to choose each loss's from, by validation nDCG@5", above=0, fewest=1
    )
    trials: int = option(5, "trials a loss and rate, with seeds that follow each other", low=2)
    epochs: int = option(30, "passes over the training queries, warm-up included", low=1)
    warm_up: int = option(10, "of these, epochs of cross-entropy, whatever the loss", low=0)

    @property
    def measured_at(self) -> tuple[int, ...]:
        """The cutoffs of the NDCG."""
        return (1, 3, CHOSEN_AT, 10)

    def cases(self) -> list[Case]:
        """Return one training a loss and rate."""
        return [case for own in self.losses for case in self._rates_of(own)]

    def comparisons(self) -> list[list[Pair]]:
        """Compare as Bruch et al. do, and then as Qiu et al."""
        return [self._bruch(), self._qiu()]

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Choose each loss's rate, gather the trials at it, and compare as the papers do."""
        import pandas as pd

        titles = self._titles()
        chosen, rows = {}, []
        for own in self.losses:
            labels = [case.label for case in self._rates_of(own)]
            every = self.gathered(labels, results, [])
            means = [mean_of(every, label, CHOSEN_AT) for label in labels]
            best = labels[means.index(max(means))]
            for trial in range(self.trials):
                chosen[key(titles[own], trial)] = results[key(best, trial)]
            rows += [(label, mean, label == best) for label, mean in zip(labels, means, strict=True)]
        rates = pd.DataFrame(rows, columns=["value", f"validation_ndcg{CHOSEN_AT}", "chosen"])
        return {**self.gathered(list(titles.values()), chosen, self.comparisons()), "rates": rates}

    def pictures(self, found: Tables) -> list[Picture]:
        """Draw what they reach."""
        return [
            value_picture(
                found["summary"],
                name=self.name,
                title="nDCG by loss, test queries",
                cutoffs=(1, CHOSEN_AT, 10),
                queries=("test",),
            )
        ]

    def conclusions(self, found: Tables) -> list[str]:
        """Say which losses are better, and whether the papers' order holds."""
        said = []
        for cutoff in (CHOSEN_AT, 10):
            means = {title: mean_of(found, title, cutoff, "test") for title in self._titles().values()}
            order = sorted(means, key=lambda title: -means[title])
            listed = ", ".join(f"{title} {short(means[title])}" for title in order)
            said.append(f"{exponential_ndcg(cutoff)} on the test queries: {listed}.")
        said += [
            f"{exponential_ndcg(CHOSEN_AT)}, {a} minus {b}: {compared(found, a, b, CHOSEN_AT, 'test')}."
            for a, b in self._bruch()
        ]
        for song in [title for title in self._titles().values() if title in _SONGS]:
            others = [b for a, b in self._qiu() if a == song]
            verdicts = {b: verdict(difference_of(found, song, b, CHOSEN_AT, "test")) for b in others}
            parts = [
                f"{words} {', '.join(own)}"
                for words, kind in (
                    ("significantly better than", "better"),
                    ("significantly worse than", "worse"),
                    ("not significantly different from", "not significantly different"),
                )
                if (own := [b for b in others if verdicts[b] == kind])
            ]
            if parts:
                said.append(f"{exponential_ndcg(CHOSEN_AT)}, {song}: {'; '.join(parts)}.")
        return said

    def _rates_of(self, text: str) -> list[Case]:
        """Make one case a learning rate; trees have their own."""
        loss = parse_loss(text)
        trained = {"network": self.network, "warm_up": self.warm_up, "warm_up_loss": "cross-entropy"}
        if loss.family == "trees":
            return [self.loss_case(text, loss, {})]
        return [
            self.loss_case(f"{text}, rate {rate:g}", loss, {**trained, "learning_rate": rate})
            for rate in self.rates
        ]

    def _titles(self) -> dict[str, str]:
        """Name losses as papers do, with their options where that alone tells them apart."""
        names = {text: parse_loss(text).name for text in self.losses}
        plain = {text: _TITLES.get(loss, loss) for text, loss in names.items()}
        counts = Counter(plain.values())
        return {
            text: title if counts[title] == 1 else title + text[len(names[text]) :]
            for text, title in plain.items()
        }

    def _bruch(self) -> list[Pair]:
        return [pair for pair in _BRUCH if set(pair) <= set(self._titles().values())]

    def _qiu(self) -> list[Pair]:
        titles = self._titles().values()
        others = [title for title in titles if title not in (*_SONGS, "LambdaMART")]
        pairs = [(song, other) for song in _SONGS if song in titles for other in others]
        return [*pairs, *([("K-SONG", "SONG")] if set(_SONGS) <= set(titles) else [])]
