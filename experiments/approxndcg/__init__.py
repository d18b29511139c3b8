"""ApproxNDCG (Bruch et al. 2019): comparison of losses, alpha, depth of networks."""
