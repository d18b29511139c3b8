"""Certified optimisation: the best setting of a range, with an upper bound of all others."""
