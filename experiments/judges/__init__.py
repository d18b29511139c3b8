"""Incomplete judgments, selection of pairs to judge, and model judges."""
