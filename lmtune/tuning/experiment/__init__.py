"""The comparison of tuners: plan, folds, methods, result."""
