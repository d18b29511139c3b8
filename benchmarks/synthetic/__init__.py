"""Synthetic test collections of any size, to measure speed and memory at scale."""

from .source import collection as collection
