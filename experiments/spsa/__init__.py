"""SPSA compared with finite differences."""
