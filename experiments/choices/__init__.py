"""Categorical parameters: stemmer, stopwords, model and variant of BM25."""
