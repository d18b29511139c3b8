"""Stemmer, stopwords, model and variant, chosen like parameters."""
