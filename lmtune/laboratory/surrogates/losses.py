"""The papers' tables in small: losses under equal settings (Bruch et al. 2019, Qiu et al. 2022)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from lmtune.errors import InputError
from lmtune.laboratory.experiment import Tables, Unit
from lmtune.laboratory.surrogates.pictures import value_picture
from lmtune.laboratory.surrogates.sweep_words import LEVEL, difference_of, in_words, mean_of, verdict
from lmtune.laboratory.surrogates.sweeps import (
    CHOSEN_AT,
    Case,
    Common,
    differences,
    key,
    network_case,
    tables,
    units,
)
from lmtune.laboratory.surrogates.trainings import grow
from lmtune.options import option
from lmtune.reporting.figures.style import Picture, short
from lmtune.reranking.lambdamart import TreeSettings
from lmtune.reranking.loss_names import LAMBDAMART, parse_loss

CUTOFFS = (1, 3, 5, 10)
_SHOWN = 5
_NAMES = {
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


@dataclass(frozen=True)
class Losses(Common):
    """What to compare, and how."""

    name: ClassVar[str] = "losses"
    quick: ClassVar[Mapping[str, Any]] = {
        "data": "artificial:100",
        "rates": (0.01,),
        "trials": 3,
        "epochs": 12,
        "warm_up": 4,
        "losses": (
            "ranknet",
            "listnet",
            "listmle",
            "lambdarank",
            "ndcgloss2++",
            "approxndcg",
            "neuralndcg",
            "song",
            "k-song:cutoff=10",
            "lambdamart:rounds=60",
        ),
    }

    losses: tuple[str, ...] = option(
        (
            "ranknet",
            "listnet",
            "listmle",
            "lambdarank",
            "ndcgloss2++",
            "approxndcg",
            "neuralndcg",
            "song",
            "k-song:cutoff=10",
            "lambdamart:rounds=300",
        ),
        "what to train by, each with options as NAME:OPTION=VALUE",
    )
    network: str = option("b64", "the scorer of all but the trees")
    rates: tuple[float, ...] = option(
        (0.003, 0.01), "learning rates to choose each loss's from, by validation nDCG@5"
    )
    trials: int = option(5, "trials a loss and rate, with seeds that follow each other")
    epochs: int = option(30, "passes over the training queries, warm-up included")
    warm_up: int = option(10, "of these, epochs of cross-entropy, whatever the loss")

    def units(self) -> list[Unit]:
        """Make one training a loss, rate and trial."""
        if not self.rates:
            raise InputError("no learning rate to choose from", accepted="one or more")
        cases = [case for own in self.losses for case in _cases(self, own)]
        return units(cases, self.trials, self.seed)

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Choose each loss's rate, gather the trials at it, and compare as the papers do."""
        import pandas as pd

        named = _names(self)
        chosen, rows = {}, []
        for own in self.losses:
            labels = [case.label for case in _cases(self, own)]
            every = tables(labels, results, trials=self.trials, cutoffs=CUTOFFS, pairs=())
            means = [mean_of(every, label, CHOSEN_AT) for label in labels]
            best = labels[means.index(max(means))]
            for trial in range(self.trials):
                chosen[key(named[own], trial)] = results[key(best, trial)]
            rows += [
                {"value": label, f"validation_ndcg{CHOSEN_AT}": mean, "chosen": label == best}
                for label, mean in zip(labels, means, strict=True)
            ]
        names = list(named.values())
        made = tables(names, chosen, trials=self.trials, cutoffs=CUTOFFS, pairs=())
        compared = [differences(made["trials"], pairs) for pairs in (_bruch(names), _qiu(names)) if pairs]
        if compared:
            made["differences"] = pd.concat(compared, ignore_index=True)
        return {**made, "rates": pd.DataFrame(rows)}

    def pictures(self, made: Tables) -> list[Picture]:
        """Draw what they reach."""
        return [
            value_picture(
                made,
                name="losses",
                title="nDCG by loss, test queries",
                axis="",
                cutoffs=(1, 5, 10),
                queries=("test",),
                sideways=True,
            )
        ]

    def conclusions(self, made: Tables) -> list[str]:
        """Say which losses are better, and whether the papers' order holds."""
        names = list(_names(self).values())
        said = []
        for cutoff in (_SHOWN, 10):
            means = {name: mean_of(made, name, cutoff, "test") for name in names}
            order = sorted(names, key=lambda name: -means[name])
            said.append(
                f"nDCG@{cutoff} on the test queries: "
                + ", ".join(f"{name} {short(means[name])}" for name in order)
                + "."
            )
        for a, b in _bruch(names):
            row = difference_of(made, a, b, _SHOWN, "test")
            said.append(f"nDCG@{_SHOWN}, {a} minus {b}: {in_words(row)}, {verdict(row)}.")
        for song in [name for name in names if name in _SONGS]:
            rows = {b: difference_of(made, a, b, _SHOWN, "test") for a, b in _qiu(names) if a == song}
            better = [b for b, row in rows.items() if verdict(row) == "better"]
            worse = [b for b, row in rows.items() if verdict(row) == "worse"]
            rest = [b for b, row in rows.items() if row["p_holm"] >= LEVEL]
            parts = [
                f"{word} {', '.join(own)}"
                for word, own in (
                    ("significantly better than", better),
                    ("significantly worse than", worse),
                    ("not significantly different from", rest),
                )
                if own
            ]
            if parts:
                said.append(f"nDCG@{_SHOWN}, {song}: {'; '.join(parts)}.")
        return said


def _cases(settings: Losses, text: str) -> list[Case]:
    """Make one case a learning rate; trees have their own."""
    loss = parse_loss(text)
    if loss.family == "trees":
        trees = asdict(TreeSettings(**loss.options)) | {"measure": CHOSEN_AT, "threads": 1}
        where = {"data": settings.data, "data_seed": settings.seed}
        return [Case(text, grow, {**where, "settings": trees, "cutoffs": list(CUTOFFS)})]
    return [
        network_case(
            settings,
            f"{text}, rate {rate:g}",
            settings.network,
            loss.name,
            loss.options,
            cutoffs=CUTOFFS,
            learning_rate=rate,
            warm_up=settings.warm_up,
            warm_up_loss="cross-entropy",
        )
        for rate in settings.rates
    ]


def _names(settings: Losses) -> dict[str, str]:
    """Name losses as papers do, with their options where that alone tells them apart."""
    plain = {}
    for text in settings.losses:
        loss = parse_loss(text).name
        plain[text] = _NAMES.get(loss, loss)
    counts = Counter(plain.values())
    return {
        text: name if counts[name] == 1 else name + text[len(parse_loss(text).name) :]
        for text, name in plain.items()
    }


def _bruch(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(a, b) for a, b in _BRUCH if a in names and b in names]


def _qiu(names: Sequence[str]) -> list[tuple[str, str]]:
    others = [name for name in names if name not in (*_SONGS, "LambdaMART")]
    pairs = [(song, other) for song in _SONGS if song in names for other in others]
    return [*pairs, *([("K-SONG", "SONG")] if set(_SONGS) <= set(names) else [])]
