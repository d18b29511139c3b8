"""Lambda-functions: whether they come from a cost, whether it is convex, and which it is.

After Burges, Ranking as Learning Structured Outputs (2005). The lambdas of a query are the forces
that push its documents up, lambda_i = -dC/ds_i where there is a cost C.
"""

from __future__ import annotations

from lmtune.laboratory.lambdas.cost import RebuiltCost, check_cost, needed_alpha, rebuild_cost, regularise
from lmtune.laboratory.lambdas.evidence import Examination
from lmtune.laboratory.lambdas.examine import examine
from lmtune.reranking.losses.lambda_functions import LambdaFunction, load_function

__all__ = [
    "Examination",
    "LambdaFunction",
    "RebuiltCost",
    "check_cost",
    "examine",
    "load_function",
    "needed_alpha",
    "rebuild_cost",
    "regularise",
]
