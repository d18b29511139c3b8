"""Lambda-functions: whether they come from a cost, whether it is convex, and which it is.

After Burges, Ranking as Learning Structured Outputs (2005). The lambdas of a query are the forces
that push its documents up, lambda_i = -dC/ds_i where there is a cost C.
"""
