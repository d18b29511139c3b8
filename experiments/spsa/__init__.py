"""SPSA against finite differences."""
