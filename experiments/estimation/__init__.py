"""Losses of tuned settings on other topics, and numbers of topics that tests need."""
