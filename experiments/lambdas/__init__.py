"""Tests of lambda-functions: existence, convexity and value of a cost.

See Burges, Ranking as Learning Structured Outputs (2005). The lambdas of a query are forces on its
documents; a positive one pushes the document up. If there is a cost C, lambda_i = -dC/ds_i.
"""
