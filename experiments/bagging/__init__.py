"""Bagging of fits to few topics; the protocol is docs/protocols/bagging.md."""
