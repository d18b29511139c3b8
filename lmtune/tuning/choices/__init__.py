"""Categorical parameters (analysis, model and expansion), tuned together with the numeric ones."""
