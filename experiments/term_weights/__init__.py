"""Query expansion and term weights."""
