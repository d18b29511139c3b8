"""Reranking: features of a run, networks and trees that learn from them, NDCG."""
