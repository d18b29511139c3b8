"""What the laboratory's experiment on lambda-functions found, in sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from lmtune.laboratory.experiment import Tables
from lmtune.laboratory.lambdas.examination import CONVEXITY_TESTS, COST_TESTS

if TYPE_CHECKING:
    import pandas as pd

_OWN = ("winner", "soft_errors", "squared_hinge", "soft_swaps", "swap_pull")


def on_one(found: Tables) -> list[str]:
    """Say what was found of one function."""
    row, evidence = found["functions"].iloc[0], found["evidence"]
    tests = int(evidence[evidence["test"].isin(COST_TESTS)]["tests"].sum())
    name = str(row["function"])
    cost = {
        "yes": f"{name}: nothing in {tests} tests speaks against a cost.",
        "no": f"{name} has no cost: {row['refuted_by']} refute it; for example at {row['where_no_cost']}.",
        "undecided": f"{name}: whether there is a cost cannot be told; errors are too large.",
    }[str(row["has_cost"])]
    said = [
        cost,
        f"The Jacobian is asymmetric by {row['symmetry']:.1e} of its largest entry (errors explain "
        f"{row['symmetry_tolerance']:.1e}); work around loops is up to {row['circulation']:.1e} of "
        f"force times length (errors explain {row['circulation_tolerance']:.1e}).",
    ]
    if row["has_cost"] != "no":
        bent = evidence[(evidence["test"].isin(CONVEXITY_TESTS)) & (evidence["outcome"] == "violated")]
        where = f", for example at {bent.iloc[0]['where']}" if len(bent) else ""
        words = {"yes": "is convex at all places", "no": f"is not convex{where}"}
        said.append(
            f"The cost {words.get(str(row['convex']), 'may be convex or not: errors hide it')}; "
            f"the smallest eigenvalue of its Hessian is {row['smallest_eigenvalue']:.3g}. "
            f"{_regulariser(row)}"
        )
        said.append(
            f"The rebuilt cost's gradient gives the lambdas back to {row['gradient']:.1e} (errors "
            f"explain {10 * row['gradient_error']:.1e})."
        )
    if row["sums_to_zero"] == "no":
        said.append("The lambdas do not add up to 0: moving all scores together changes things.")
    return said


def _of(table: pd.DataFrame, name: str) -> pd.Series:
    return table.loc[[name]].iloc[0]


def _regulariser(row: pd.Series) -> str:
    alpha = float(row["alpha"])
    if math.isinf(alpha):
        return str(row["alpha_reason"])
    return "" if alpha == 0 else f"Subtracting {alpha:.4g} s from the lambdas makes it convex there."


def on_ours(found: Tables) -> list[str]:
    """Say what was found of the built-in functions."""
    table = found["functions"].set_index("function")
    evidence = found["evidence"].set_index(["function", "test"])
    return [
        *_margin(found, table),
        *_ranknet(table),
        *_lambdarank(found, table),
        *_constant(table, evidence),
        *_own(table),
        _rebuilt(table),
    ]


def _margin(found: Tables, table: pd.DataFrame) -> list[str]:
    margin = found["margin"]
    apart = float(np.abs(margin["rebuilt"] - margin["paper"]).max())
    deltas = sorted(set(margin["delta"]))
    said = [
        f"The two-document example's cost, rebuilt from equations 4 to 6 at {len(margin)} places, "
        f"delta {', '.join(f'{d:g}' for d in deltas)}: at most {apart:.1e} from equations 7 to 9 "
        f"(estimated error {float(margin['error'].max()):.1e})."
    ]
    steep = _of(table, "margin 2")
    verdicts = ", ".join(
        f"delta {delta}: {_of(table, f'margin {delta}')['convex']}" for delta in ("0.5", "1", "2")
    )
    said.append(
        "Its Hessian is positive semidefinite wherever it exists (smallest eigenvalue "
        f"{steep['smallest_eigenvalue']:.1e} for delta 2), yet with delta above 1 the cost is not "
        f"convex: at x = 0 lambda_1 jumps up from 1 to delta, a ridge ({verdicts}). It still has "
        "no local minimum but its lowest plain."
    )
    return said


def _ranknet(table: pd.DataFrame) -> list[str]:
    row = _of(table, "ranknet")
    return [
        f"RankNet's lambdas come from a cost ({row['has_cost']}), a convex one ({row['convex']}): "
        f"asymmetry {row['symmetry']:.1e}, circulation {row['circulation']:.1e}, smallest "
        f"eigenvalue {row['smallest_eigenvalue']:.1e}; rebuilt, it is the RankNet cost to "
        f"{row['closed_form']:.1e}. ListNet: cost {_of(table, 'listnet')['has_cost']}, convex "
        f"{_of(table, 'listnet')['convex']}."
    ]


def _lambdarank(found: Tables, table: pd.DataFrame) -> list[str]:
    row = _of(table, "lambdarank")
    end = float(found["walk"]["lambdarank"].iloc[-1])
    own = float(found["walk"]["ranknet"].iloc[-1])
    by_size = found["lambdarank"]
    small = by_size[by_size["documents"] == 2]
    large = by_size[by_size["documents"] > 2]
    said = [
        f"LambdaRank's lambdas: cost {row['has_cost']}. Within a ranking they are those of a "
        f"weighted RankNet cost, with a symmetric Jacobian (asymmetry {row['symmetry']:.1e}, "
        f"errors explain {row['symmetry_tolerance']:.1e}); but when two documents swap, their "
        f"weights with every third document change, and the force on that document jumps: by up to "
        f"{100 * row['jump']:.0f}% of all forces in directions in which a cost allows no jump. "
        f"Around a square across a tie they do work {end:.4f}, RankNet's {own:.1e}."
    ]
    if len(small):
        said.append(
            "With two documents there is no third: "
            f"{(small['has_cost'] == 'yes').sum()} of {len(small)} cutoffs have a cost. With more, "
            f"{(large['has_cost'] == 'no').sum()} of {len(large)} combinations of documents and "
            "cutoff have none, nDCG@1 included."
        )
    return said


def _constant(table: pd.DataFrame, evidence: pd.DataFrame) -> list[str]:
    flat = table[table["largest_slope"] == 0]
    groups = {
        "a convex cost": flat[(flat["has_cost"] == "yes") & (flat["convex"] == "yes")],
        "a cost that is not convex": flat[(flat["has_cost"] == "yes") & (flat["convex"] == "no")],
        "no cost": flat[flat["has_cost"] == "no"],
    }
    listed = "; ".join(f"{words}: {', '.join(own.index) or 'none'}" for words, own in groups.items())
    bad = groups["no cost"].index
    jumps = max((float(evidence.loc[(name, "jumps"), "relative"]) for name in bad), default=0.0)
    return [
        f"Of {len(flat)} piecewise constant functions, all with Jacobian 0, {listed}. So the two "
        "conditions are not trivially satisfied: jumps at ties count. They must be along e_i - e_j "
        f"(they are up to {100 * jumps:.0f}% off) and, for convexity, bring the two together."
    ]


def _own(table: pd.DataFrame) -> list[str]:
    said = []
    for name in _OWN:
        row = _of(table, name)
        if row["has_cost"] == "no":
            words = f"no cost (refuted by {row['refuted_by']}; {row['where_no_cost']})"
        elif row["convex"] == "yes":
            words = "a convex cost"
        else:
            words = f"cost: {row['has_cost']}, convex: {row['convex']}. {_regulariser(row)}"
        said.append(f"{name}: {words.rstrip('. ')}.")
    return said


def _rebuilt(table: pd.DataFrame) -> str:
    own = table[table["has_cost"] != "no"]
    known = own["closed_form"].dropna()
    good = int((own["gradient"] <= 10 * own["gradient_error"]).sum())
    return (
        f"Of {len(own)} rebuilt costs {good} have the lambdas as their negative gradients, within "
        f"errors (at most {own['gradient'].max():.1e} off); {len(known)} known in closed form are "
        f"met to {known.max():.1e}."
    )
