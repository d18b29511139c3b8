"""Judgments: which to make, by whom, and how much few of them say."""
