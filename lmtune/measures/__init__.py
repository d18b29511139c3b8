"""Measures over a candidate pool, and whether differences between them are significant."""
