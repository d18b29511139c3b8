"""Weights of fused runs."""
