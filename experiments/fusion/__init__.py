"""Fusion weights."""
