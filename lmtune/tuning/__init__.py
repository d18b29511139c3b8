"""Tuners: RankNet by gradients, direct search, and the experiment that compares them."""
