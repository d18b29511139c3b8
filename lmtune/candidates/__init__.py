"""Candidate pools: the documents of each topic with the statistics that scoring needs."""
