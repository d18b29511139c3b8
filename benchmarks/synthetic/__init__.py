"""Synthetic test collections of any size, for benchmarks of speed and memory."""

from .source import collection as collection
