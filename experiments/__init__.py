"""Experiments that put the papers' claims to the test; not part of the installed package."""
