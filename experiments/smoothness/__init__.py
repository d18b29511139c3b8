"""Smoothness of a measure in network weights and in model parameters."""
