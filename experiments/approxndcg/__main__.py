"""Bruch et al. 2019, table 1: ApproxNDCG compared with other losses and LambdaMART."""

from __future__ import annotations

from experiments.common import Results, main
from experiments.loss_tables import PaperSet, Protocol, TableOptions, run_table
from lmtune.rerank import Normalisation

SIZE = TableOptions(network="b1024")
QUICK = {"trials": 3, "epochs": 15, "network": "b64"}
_TREES = "lambdamart:leaves=200:learning_rate=0.1:min_rows=50:min_hessian=100:threads=1"

PROTOCOL = Protocol(
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
                "ListMLE": ("0.4190 ± 0.0034", "0.4256 ± 0.0020", "0.4491 ± 0.0017"),
                "RankNet": ("0.4218 ± 0.0035", "0.4323 ± 0.0014", "0.4570 ± 0.0010"),
                "LambdaMART (RankLib)": ("0.4535 ± 0.0006", "0.4459 ± 0.0004", "0.4646 ± 0.0003"),
                "LambdaMART (LightGBM)": ("0.5033 ± 0.0022", "0.4920 ± 0.0007", "0.5105 ± 0.0002"),
                "ApproxNDCG": ("0.4664 ± 0.0022", "0.4538 ± 0.0011", "0.4731 ± 0.0010"),
            },
            {"norm_momentum": 0.8},
        ),
        PaperSet(
            "Yahoo! set 1",
            "set1$|yahoo",
            {
                "LambdaMART (RankLib)": ("0.6852 ± 0.0009", "0.7027 ± 0.0005", "0.7458 ± 0.0005"),
                "LambdaMART (LightGBM)": ("0.7207 ± 0.0022", "0.7416 ± 0.0014", "0.7840 ± 0.0010"),
                "ApproxNDCG": ("0.6963 ± 0.0017", "0.7232 ± 0.0010", "0.7677 ± 0.0006"),
            },
            {"norm_momentum": 0.99},
        ),
    ),
    differences=(
        "RankLib was not run: only the paper's figures are printed",
        "the paper does not name the optimizer and the number of epochs: ours are Adam and 100 epochs, of "
        "which validation nDCG@5 chooses one",
        "LightGBM trains up to 1,000 trees, each on 90% of the rows, sampled with the trial's seed; "
        "training stops after 50 trees without a better validation value",
    ),
)


def experiment(options: TableOptions = SIZE) -> Results:
    """Train with the paper's protocol, and print the paper's table and ours."""
    return run_table(PROTOCOL, options)


if __name__ == "__main__":
    main(__spec__)
