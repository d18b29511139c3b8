"""Learners and scorers of lists with features: networks, and boosted trees."""
