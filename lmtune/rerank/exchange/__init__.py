"""Models of other programs: reading them, and writing lmtune's models for them."""
