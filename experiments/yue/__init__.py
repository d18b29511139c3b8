"""NDCG trained by SPSA (Yue and Burges 2007, table 1)."""
