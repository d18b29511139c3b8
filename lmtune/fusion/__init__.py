"""Runs added up: weights by exact line search and by gradients, judged on held-out topics, with a proof."""
