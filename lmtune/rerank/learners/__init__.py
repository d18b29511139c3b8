"""Learners and scorers on features: networks and boosted trees."""
