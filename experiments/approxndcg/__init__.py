"""ApproxNDCG (Bruch et al. 2019): its table, its alpha, its networks."""
