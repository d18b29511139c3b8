"""Significance tests, effect sizes and comparisons of systems."""
