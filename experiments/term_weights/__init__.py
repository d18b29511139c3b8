"""Expansion and weights of terms."""
