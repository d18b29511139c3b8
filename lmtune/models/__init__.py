"""Ranking functions: scores with analytic gradients in their parameters."""
