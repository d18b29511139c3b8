"""Choices that are no numbers: analysers, models and expansion, tuned together with the parameters."""
