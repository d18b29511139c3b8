"""Protocols and printed figures of the papers that compare losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lmtune.laboratory.papers.losses import LossTable, PaperSet, Protocol
from lmtune.options import option
from lmtune.reranking.normalisation import Normalisation

# Trials have processes of their own: one thread each.
_TREES = "lambdamart:leaves=200:learning_rate=0.1:min_rows=50:min_hessian=100:threads=1"

BRUCH = Protocol(
    source="Bruch et al. (2019), table 1",
    methods={
        "ListMLE": "listmle",
        "RankNet": "ranknet",
        "LambdaMART (RankLib)": "",
        "LambdaMART (LightGBM)": _TREES,
        "ApproxNDCG": "approxndcg:alpha=10",
    },
    cutoffs=(1, 5, 10),
    settings={"batch_size": 128, "learning_rate": 0.005, "measure": "ndcg@5"},
    falls=None,
    normalisation=Normalisation("none", log1p=False),
    empty="skip",
    claims=(("ApproxNDCG", "ListMLE"), ("ApproxNDCG", "RankNet"), ("LambdaMART (LightGBM)", "ApproxNDCG")),
    sets=(
        PaperSet(
            "MSLR-WEB30K",
            "web-?30k",
            {
                "ListMLE": (".4190 ± .0034", ".4256 ± .0020", ".4491 ± .0017"),
                "RankNet": (".4218 ± .0035", ".4323 ± .0014", ".4570 ± .0010"),
                "LambdaMART (RankLib)": (".4535 ± .0006", ".4459 ± .0004", ".4646 ± .0003"),
                "LambdaMART (LightGBM)": (".5033 ± .0022", ".4920 ± .0007", ".5105 ± .0002"),
                "ApproxNDCG": (".4664 ± .0022", ".4538 ± .0011", ".4731 ± .0010"),
            },
            {"norm_momentum": 0.8},
        ),
        PaperSet(
            "Yahoo! set 1",
            "set1$|yahoo",
            {
                "LambdaMART (RankLib)": (".6852 ± .0009", ".7027 ± .0005", ".7458 ± .0005"),
                "LambdaMART (LightGBM)": (".7207 ± .0022", ".7416 ± .0014", ".7840 ± .0010"),
                "ApproxNDCG": (".6963 ± .0017", ".7232 ± .0010", ".7677 ± .0006"),
            },
            {"norm_momentum": 0.99},
        ),
    ),
    differences=(
        "RankLib's trees are not grown: the paper's figures stand alone",
        "the optimizer, which the paper does not name, is Adam; it does not say how many epochs either: 100, "
        "of which validation nDCG@5 chooses one",
        "LightGBM grows up to 1,000 trees, each on nine tenths of the rows drawn by the trial's seed; "
        "training ends after 50 without a better validation value",
    ),
)


@dataclass(frozen=True)
class Bruch(LossTable):
    """Experiment.

    Bruch et al. 2019, table 1: ApproxNDCG against other losses and LambdaMART.
    """

    name: ClassVar[str] = "bruch"
    protocol: ClassVar[Protocol] = BRUCH
    quick: ClassVar[Mapping[str, Any]] = {"trials": 3, "epochs": 15, "network": "b64"}

    network: str = option("b1024", "The scorer of all but the trees.")


_GAMMAS = "gamma=0.1|0.2|0.3|0.4|0.5"
_OTHERS = ("RankNet", "ListNet", "ListMLE", "LambdaRank", "ApproxNDCG", "NeuralNDCG")

QIU = Protocol(
    source="Qiu et al. (2022), table 5",
    methods={
        **{name: name.lower() for name in _OTHERS},
        "SONG": f"song:{_GAMMAS}",
        "K-SONG": f"k-song:theoretical=true:{_GAMMAS}:cutoff=10|20|50",
    },
    cutoffs=(1, 3, 5),
    settings={
        "batch_size": 64,
        "learning_rate": 0.001,
        "measure": "ndcg@5",
        "warm_up_loss": "cross-entropy",
        "list_size": 100,
        "list_relevant": 10,
    },
    falls=0.5,
    normalisation=Normalisation(),
    empty="one",
    claims=tuple((song, other) for song in ("SONG", "K-SONG") for other in _OTHERS),
    sets=(
        PaperSet(
            "MSLR-WEB30K",
            "web-?30k",
            {
                "RankNet": (".5138 ± .0008", ".5105 ± .0004", ".5159 ± .0003"),
                "ListNet": (".5105 ± .0001", ".5058 ± .0001", ".5146 ± .0002"),
                "ListMLE": (".5153 ± .0012", ".5074 ± .0002", ".5136 ± .0005"),
                "LambdaRank": (".5173 ± .0014", ".5118 ± .0003", ".5187 ± .0003"),
                "ApproxNDCG": (".5204 ± .0007", ".5114 ± .0005", ".5179 ± .0006"),
                "NeuralNDCG": (".5160 ± .0006", ".5101 ± .0005", ".5155 ± .0002"),
                "SONG": (".5265 ± .0005", ".5136 ± .0006", ".5206 ± .0003"),
                "K-SONG": (".5271 ± .0006", ".5147 ± .0006", ".5204 ± .0003"),
            },
        ),
        PaperSet(
            "Yahoo!",
            "set1$|yahoo",
            {
                "RankNet": (".7066 ± .0006", ".7150 ± .0004", ".7368 ± .0005"),
                "ListNet": (".7066 ± .0002", ".7151 ± .0004", ".7352 ± .0004"),
                "ListMLE": (".7067 ± .0008", ".7146 ± .0006", ".7353 ± .0007"),
                "LambdaRank": (".7084 ± .0003", ".7155 ± .0002", ".7352 ± .0004"),
                "ApproxNDCG": (".7085 ± .0009", ".7152 ± .0007", ".7350 ± .0006"),
                "NeuralNDCG": (".7076 ± .0003", ".7139 ± .0001", ".7349 ± .0003"),
                "SONG": (".7131 ± .0002", ".7187 ± .0004", ".7390 ± .0002"),
                "K-SONG": (".7128 ± .0004", ".7191 ± .0004", ".7394 ± .0008"),
            },
            {"list_size": 40},
        ),
    ),
    differences=(
        "the paper does not say how many trials it means, what its ± are, what validation chooses by, nor "
        "the size of its self-attention: ours are 10 trials, 95% intervals, nDCG@5, and width 128, "
        "2 blocks, 2 heads",
        "it does not say how long its warm-up is on these data: 20 epochs, as on its ratings, then 100",
        "test queries without a relevant document count 1, as in allRank, which the paper uses",
        "100 documents of a query are drawn anew each epoch (Yahoo: 40), up to 10 of them relevant, for all "
        "losses; the paper truncates lists to so many, and samples",
        "log(1 + |x|) is taken of all features before they are standardised, not of selected ones",
    ),
)


@dataclass(frozen=True)
class Qiu(LossTable):
    """Experiment.

    Qiu et al. 2022, table 5: SONG and K-SONG against other losses on learning to rank.
    """

    name: ClassVar[str] = "qiu"
    protocol: ClassVar[Protocol] = QIU
    quick: ClassVar[Mapping[str, Any]] = {
        "trials": 2,
        "epochs": 10,
        "warm_up": 3,
        "network": "attention:32-1-1",
        "grids": False,
    }

    network: str = option("attention", "The scorer.")
    warm_up: int = option(20, "Epochs of cross-entropy before, whatever the loss.", low=0)
