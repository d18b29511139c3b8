"""Tuning methods by number of parameters."""
