"""Experiments that put the papers' claims to the test, on their data or one's own."""
