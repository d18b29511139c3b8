"""Learning to rank: teachers, negatives, temperatures, and the defaults of rerankers on features."""
