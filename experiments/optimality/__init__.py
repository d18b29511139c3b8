"""Tests whether trained networks and tuned parameters are local optima of a measure."""
