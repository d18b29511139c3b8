"""Reranking by reading: networks that score pairs of a query and a document's text."""
