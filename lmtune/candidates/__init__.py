"""Candidate pools: what a topic's documents look like to a ranking function."""
