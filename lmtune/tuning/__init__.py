"""Tuners, parameter spaces, and the experiments that compare tuning methods."""
